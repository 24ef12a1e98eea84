#!/bin/bash
# Fills the empty database from a backup: all of it, or nothing.
set -euo pipefail
name=${BACKUP_NAME%.dump}
backups=${BACKUPS:-/backups}
file=$backups/$name.dump
if [ ! -e "$file" ]; then
	echo "backup $name does not exist; existing backups: $(cd "$backups" && ls -1 | sed -n 's/\.dump$//p' | tr '\n' ' ')"
	exit 1
fi
# The database may be starting still; a failed try would cost one of few.
for _ in {1..300}; do
	pg_isready -q && break
	sleep 1
done
# An earlier try that was cut off has restored all of it, or nothing.
empty=$(psql --no-password -XqAt -c "SELECT to_regnamespace('reports_server') IS NULL")
if [ "$empty" = t ]; then
	# Roles of people may not exist here yet: their rights are given again by hand.
	pg_restore --no-password --dbname="$PGDATABASE" --no-owner --no-privileges --exit-on-error --single-transaction \
		"$file"
fi
# Marks of what was imported from etcd are about the etcd of the cluster where the backup was made.
# In another one, nothing of it is there: with the marks, that would be taken for deletions.
psql --no-password -XqAt -v ON_ERROR_STOP=1 -v etcd="$CLUSTER_UID" <<-'EOSQL'
	SELECT to_regclass('reports_server.imported') IS NOT NULL
	    AND obj_description(to_regnamespace('reports_server'), 'pg_namespace') IS DISTINCT FROM :'etcd' AS moved \gset
	\if :moved
	    BEGIN;
	    DELETE FROM reports_server.imported;
	    DELETE FROM reports_server.mirror_events;
	    UPDATE reports_server.objects SET as_imported = false WHERE as_imported;
	    UPDATE reports_server.resources SET imported = 0 WHERE imported <> 0;
	    COMMENT ON SCHEMA reports_server IS :'etcd';
	    COMMIT;
	    \echo this is another cluster: what was imported there counts as written here
	\endif
EOSQL
# Rights of the readers, which every database of ours has (docs/sql.md).
psql --no-password -XqAt -v ON_ERROR_STOP=1 <<-'EOSQL'
	DO $$ BEGIN
	    IF to_regrole('reports_reader') IS NOT NULL AND to_regnamespace('reports') IS NOT NULL THEN
	        GRANT USAGE ON SCHEMA reports TO reports_reader;
	        GRANT SELECT ON ALL TABLES IN SCHEMA reports TO reports_reader;
	    END IF;
	END $$;
EOSQL
echo "restored $name"
