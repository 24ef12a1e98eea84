#!/usr/bin/env bash
# Starts PostgreSQL, and at the first start makes the database. It takes the environment variables,
# arguments and init files that the documentation of the official image describes:
#   PGDATA                                where the database lies
#   POSTGRES_PASSWORD, POSTGRES_USER, POSTGRES_DB, POSTGRES_INITDB_ARGS
#                                         or the same with _FILE: the name of a file with the value
#   POSTGRES_HOST_AUTH_METHOD             method of the last line of pg_hba.conf
#   POSTGRES_INITDB_WALDIR                another directory for the log
#   /docker-entrypoint-initdb.d           *.sh, *.sql, *.sql.gz, *.sql.zst, run in the order of names
set -Eeuo pipefail

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# value NAME [DEFAULT]: set NAME from itself, from the file that NAME_FILE names, or to the default.
value() {
	local name=$1 file=$1_FILE
	[ -z "${!name:-}" ] || [ -z "${!file:-}" ] || die "both $name and $file are set; set one"
	if [ -n "${!file:-}" ]; then
		export "$name=$(<"${!file}")"
	else
		export "$name=${!name:-${2:-}}"
	fi
	unset "$file"
}

# Whether the arguments only ask postgres something.
only_asks() {
	local argument
	for argument; do
		case $argument in
		-'?' | --help | -V | --version | --describe-config) return 0 ;;
		esac
	done
	return 1
}

make_directories() {
	mkdir -p "$PGDATA" /var/run/postgresql
	# Neither belongs to us where a volume gives it by its group.
	chmod 0700 "$PGDATA" 2>/dev/null || :
	chmod 3777 /var/run/postgresql 2>/dev/null || :
	[ -z "${POSTGRES_INITDB_WALDIR:-}" ] || mkdir -p "$POSTGRES_INITDB_WALDIR"
	[ "$(id -u)" -ne 0 ] || chown -R postgres:postgres "$PGDATA" ${POSTGRES_INITDB_WALDIR:+"$POSTGRES_INITDB_WALDIR"}
}

check_password() {
	[ "$POSTGRES_HOST_AUTH_METHOD" != trust ] || return 0
	[ -n "$POSTGRES_PASSWORD" ] || die "the database is not made yet and POSTGRES_PASSWORD is not" \
		"set; set it, or POSTGRES_HOST_AUTH_METHOD=trust to let everybody in"
}

make_database() {
	local waldir=()
	[ -z "${POSTGRES_INITDB_WALDIR:-}" ] || waldir=(--waldir="$POSTGRES_INITDB_WALDIR")
	# The arguments are written as on a command line, with quotes. The file of the password is one
	# of the process's own: it lives as long as this line.
	eval 'initdb --username="$POSTGRES_USER" --pwfile=<(printf "%s\n" "$POSTGRES_PASSWORD")' \
		'"${waldir[@]}"' "$POSTGRES_INITDB_ARGS"
}

allow_hosts() {
	local method=$POSTGRES_HOST_AUTH_METHOD
	[ -n "$method" ] || method=$(postgres -C password_encryption "$@")
	printf '\nhost all all all %s\n' "$method" >>"$PGDATA/pg_hba.conf"
}

# The server as it will run, but without the network: init files reach it by its socket.
temporary_server() {
	local what=$1
	shift
	shift # postgres itself
	if [ "$what" = start ]; then
		set -- "$@" -c listen_addresses='' -p "${PGPORT:-5432}"
		PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -o "$(printf '%q ' "$@")" -w start
	else
		PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -m fast -w stop
	fi
}

# sql ARGUMENT...: psql as the superuser in the new database; the first error ends it.
sql() {
	PGHOST='' PGHOSTADDR='' psql -v ON_ERROR_STOP=1 --no-psqlrc --username "$POSTGRES_USER" \
		--no-password --dbname "${database:-$POSTGRES_DB}" "$@"
}

create_database() {
	local database=postgres there
	there=$(sql --set db="$POSTGRES_DB" -At <<<"SELECT 1 FROM pg_database WHERE datname = :'db'")
	[ -n "$there" ] || sql --set db="$POSTGRES_DB" <<<'CREATE DATABASE :"db"'
}

run_init_files() {
	local file
	for file in /docker-entrypoint-initdb.d/*; do
		printf '%s: running\n' "$file"
		case $file in
		*.sh)
			# shellcheck disable=SC1090 # given by the user
			if [ -x "$file" ]; then "$file"; else . "$file"; fi
			;;
		*.sql) sql -f "$file" ;;
		*.sql.gz) gzip -dc "$file" | sql ;;
		*.sql.zst) zstd -dc "$file" | sql ;;
		*) printf '%s: ignored\n' "$file" ;;
		esac
	done
}

first_start() {
	check_password
	make_database
	allow_hosts "${@:2}"
	export PGPASSWORD=$POSTGRES_PASSWORD
	temporary_server start "$@"
	create_database
	run_init_files
	temporary_server stop "$@"
	unset PGPASSWORD
	printf 'the database is made\n'
}

main() {
	[ "$#" -gt 0 ] && [ "${1#-}" = "$1" ] || set -- postgres "$@"
	if [ "$1" = postgres ] && ! only_asks "$@"; then
		value POSTGRES_PASSWORD
		value POSTGRES_USER postgres
		value POSTGRES_DB "$POSTGRES_USER"
		value POSTGRES_INITDB_ARGS
		: "${POSTGRES_HOST_AUTH_METHOD:=}"
		make_directories
		if [ "$(id -u)" -eq 0 ]; then
			exec setpriv --reuid=postgres --regid=postgres --clear-groups -- "$0" "$@"
		fi
		shopt -s nullglob
		[ -s "$PGDATA/PG_VERSION" ] || first_start "$@"
	fi
	exec "$@"
}

main "$@"
