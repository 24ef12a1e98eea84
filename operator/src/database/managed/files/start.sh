#!/bin/bash
# Starts PostgreSQL by the image's own entrypoint.
set -eu
unfinished=${PGDATA%/*}/initializing
# The entrypoint takes a data directory that exists for a finished one. A first start that was cut
# off (no node, no memory, no time) would leave a database without our role: it begins anew. The
# mark is made before the first start and removed by its last step, so nothing else is ever removed.
if [ -e "$unfinished" ]; then
	rm -rf "$PGDATA"
elif [ ! -s "$PGDATA/PG_VERSION" ]; then
	touch "$unfinished"
	sync "${PGDATA%/*}"
fi
exec docker-entrypoint.sh postgres -c config_file=/etc/reports-postgres/postgresql.conf
