#!/bin/bash
# Fills the empty database from a backup: all of it, or nothing.
set -euo pipefail
name=${BACKUP_NAME%.dump}
backups=${BACKUPS:-/backups}
file=$backups/$name.dump
if [ ! -e "$file" ]; then
	echo "there is no backup $name; there are: $(cd "$backups" && ls -1 | sed -n 's/\.dump$//p' | tr '\n' ' ')"
	exit 1
fi
# The database may be starting still; a failed try would cost one of few.
for _ in {1..300}; do
	pg_isready -q && break
	sleep 1
done
# Roles of people may not exist here yet: their rights are given again by hand.
pg_restore --no-password --dbname="$PGDATABASE" --no-owner --no-privileges --exit-on-error --single-transaction \
	"$file"
# Those of the readers, which every database of ours has (docs/sql.md).
psql --no-password -XqAt -v ON_ERROR_STOP=1 <<-'EOSQL'
	DO $$ BEGIN
	    IF to_regrole('reports_reader') IS NOT NULL AND to_regnamespace('reports') IS NOT NULL THEN
	        GRANT USAGE ON SCHEMA reports TO reports_reader;
	        GRANT SELECT ON ALL TABLES IN SCHEMA reports TO reports_reader;
	    END IF;
	END $$;
EOSQL
echo "restored $name"
