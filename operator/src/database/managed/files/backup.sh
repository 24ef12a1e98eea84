#!/bin/bash
# Dumps the database into a file of the name of its Job, reads it whole once, and removes old ones.
# A backup counts when it is under its name: one that was cut off never is.
set -euo pipefail
backups=${BACKUPS:-/backups}
file=$backups/$BACKUP_NAME.dump
trap 'rm -f "$file.partial"' EXIT
# Those that were cut off; a younger one may be that of another Job, made by hand.
find "$backups" -maxdepth 1 -name '*.partial' -mmin +60 -delete
# Whose etcd the marks of imported reports are about: another cluster has another etcd.
psql --no-password -XqAt -v ON_ERROR_STOP=1 -v etcd="$CLUSTER_UID" <<-'EOSQL'
	SELECT to_regnamespace('reports_server') IS NOT NULL AS used \gset
	\if :used
	    COMMENT ON SCHEMA reports_server IS :'etcd';
	\endif
EOSQL
pg_dump --no-password --format=custom --file="$file.partial"
pg_restore --file=/dev/null "$file.partial"
sync "$file.partial"
mv "$file.partial" "$file"
sync "$backups"
# The one that was just made stays, however short the time is.
find "$backups" -maxdepth 1 -name '*.dump' ! -name "$BACKUP_NAME.dump" \
	-mmin "+$RETENTION_MINUTES" -print -delete
ls -l "$file"
