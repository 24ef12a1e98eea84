# shellcheck shell=bash
# What both halves of a major upgrade share.
export PGHOST=/var/run/postgresql PGUSER=postgres
WORK=/pgdata/upgrade

# own DIRECTORY: nobody else has this volume as long as this container lives; see start.sh.
own() {
	exec {lock}>>"$1/lock"
	if flock --nonblock "$lock"; then :; elif [ $? -eq 1 ]; then
		echo "another PostgreSQL uses $1"
		exit 1
	fi
}

# begin DATA [OPTION...]: a server that nobody outside of the container can reach.
begin() {
	local data=$1
	shift
	# Its log is apart, so that the last words of the container are about what went wrong.
	if ! pg_ctl start -s -w -t 3600 -D "$data" -l /tmp/postgres.log -o "$(printf '%q ' \
		-c config_file=/etc/reports-postgres/postgresql.conf -c listen_addresses= -c ssl=off "$@")"; then
		tail -n 20 /tmp/postgres.log
		return 1
	fi
}

end() {
	pg_ctl stop -s -w -t 3600 -D "$1" -m fast
}

# What names a server and its timeline, as the API server notes it (origin of reports_server.clusters).
origin() {
	psql --no-password -XqAt -v ON_ERROR_STOP=1 -d postgres -c "SELECT
		(SELECT system_identifier::text FROM pg_control_system()) || '/' ||
		left(pg_walfile_name(pg_current_wal_lsn()), 8)"
}

databases() {
	psql --no-password -XqAt -v ON_ERROR_STOP=1 -d postgres -c \
		'SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY datname'
}

# One line for each role, object and sequence, and for each table with the number and a checksum of its
# rows: the same for two servers with the same contents.
digest() {
	{
		psql --no-password -XqAt -v ON_ERROR_STOP=1 -d postgres -c \
			"SELECT 'role', rolname FROM pg_roles WHERE rolname !~ '^pg_'"
		databases | while IFS= read -r database; do
			psql --no-password -XqAt -v ON_ERROR_STOP=1 -v database="$database" -d "$database" \
				-f /etc/reports-postgres-upgrade/upgrade-digest.sql
		done
	} | LC_ALL=C sort
}
