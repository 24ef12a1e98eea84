#!/bin/bash
# The first half of a major upgrade, in the old image: dumps everything on the old volume to the new
# one. The old server has no network and takes no writes, so nothing can come after the dump.
set -euo pipefail
# shellcheck source=/dev/null # mounted beside this one
. /etc/reports-postgres-upgrade/upgrade-common.sh
old=/old/data
own /old
own /pgdata
rm -rf "$WORK"
mkdir "$WORK"
trap 'pg_ctl stop -s -D "$old" -m fast || :' EXIT
begin "$old" -c default_transaction_read_only=on
origin >"$WORK/origin"
digest >"$WORK/old"
# One that each new database has.
pg_dumpall --no-password | sed '0,/^CREATE ROLE postgres;$/{//d}' | gzip -1 >"$WORK/dump.sql.gz"
end "$old"
trap - EXIT
sync "$WORK"/* "$WORK"
ls -l "$WORK"
