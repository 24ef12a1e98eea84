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
# PostgreSQL tells by process numbers and shared memory whether another one has its files; containers
# share neither. The lock is held as long as any process of this container lives. A file system
# without locks is taken as it is.
exec 9>>"${PGDATA%/*}/lock"
if flock --nonblock 9; then :; elif [ $? -eq 1 ]; then
	echo "another PostgreSQL uses this volume; this one waits for its end"
	exit 1
fi
exec docker-entrypoint.sh postgres -c config_file=/etc/reports-postgres/postgresql.conf
