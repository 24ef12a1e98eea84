#!/bin/bash
# The second half of a major upgrade, in the new image: fills a new database on the new volume from
# the dump, and compares each row of each table with the old one. What fails leaves a volume that is
# begun anew with the next attempt.
set -euo pipefail
# shellcheck source=/dev/null # mounted beside this one
. /etc/reports-postgres-upgrade/upgrade-common.sh
own /pgdata
unfinished=${PGDATA%/*}/initializing
touch "$unfinished"
sync "${PGDATA%/*}"
rm -rf "$PGDATA"
# Nothing has to survive before all of it is there: it is written to the disk once, at the end.
# shellcheck disable=SC2086 # several arguments
initdb --username="$PGUSER" --auth=trust --no-sync $POSTGRES_INITDB_ARGS >/dev/null
trap 'pg_ctl stop -s -D "$PGDATA" -m fast || :' EXIT
begin "$PGDATA" -c fsync=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 \
	-c autovacuum=off
gzip -dc "$WORK/dump.sql.gz" |
	psql --no-password -Xq -v ON_ERROR_STOP=1 -o /dev/null -d postgres -f -
digest >"$WORK/new"
if [ -n "$(comm -3 "$WORK/old" "$WORK/new" | head -n 1)" ]; then
	echo "the copy differs from the old database, which is untouched; the first differences:"
	comm -3 "$WORK/old" "$WORK/new" | head -n 20
	exit 1
fi
# The servers note which PostgreSQL they have written to last, and have their clients list again where
# it is another one: it might be an older copy. This one lacks nothing.
new=$(origin)
psql --no-password -XqAt -v ON_ERROR_STOP=1 -v old="$(<"$WORK/origin")" -v new="$new" -d reports <<-'EOSQL'
	SELECT to_regclass('reports_server.clusters') IS NOT NULL AS used \gset
	\if :used
	    UPDATE reports_server.clusters SET origin = :'new' WHERE origin = :'old';
	\endif
EOSQL
databases | while IFS= read -r database; do
	psql --no-password -XqAt -v ON_ERROR_STOP=1 -d "$database" -c ANALYZE
done
end "$PGDATA"
trap - EXIT
grep -c '|row|' "$WORK/new" | sed 's/$/ tables are equal in both/'
rm -rf "$WORK"
initdb --sync-only -D "$PGDATA" >/dev/null
rm "$unfinished"
sync "${PGDATA%/*}"
