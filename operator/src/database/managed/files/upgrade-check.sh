#!/bin/bash
# Before anything is stopped for a major upgrade: is the new image what it is taken for, can it start
# with the settings, and is there room? The present database serves meanwhile.
set -euo pipefail
[[ $(postgres --version) =~ \(PostgreSQL\)\ ([0-9]+) ]]
if [ "${BASH_REMATCH[1]}" != "$NEW_VERSION" ]; then
	echo "the image is of PostgreSQL ${BASH_REMATCH[1]}, not of $NEW_VERSION: correct spec.images.postgres"
	exit 1
fi
# Reads the settings, and so finds those that this build does not have.
postgres -C default_toast_compression -D /tmp -c config_file=/etc/reports-postgres/postgresql.conf >/dev/null
for _ in {1..60}; do
	pg_isready -q && break
	sleep 1
done
takes=$(psql --no-password -XqAt -c "SELECT sum(pg_database_size(datname)) FROM pg_database
	WHERE has_database_privilege(datname, 'CONNECT')")
read -r _ free < <(df --output=target,avail -B1 /pgdata | tail -n 1)
# The copy itself, and for a while the dump that it is made of.
if [ "$free" -lt $((takes * 2)) ]; then
	echo "the new volume has $((free >> 20)) MiB free, and the upgrade of a database of $((takes >> 20))" \
		"MiB takes twice as much: raise spec.database.managed.storage.size"
	exit 1
fi
echo "a database of $((takes >> 20)) MiB, and $((free >> 20)) MiB free for its copy"
