#!/bin/bash
# Lets PostgreSQL read its configuration and certificates again when one of the mounted files has
# changed. The kubelet exchanges all files of a volume at once; a reload that meets the exchange
# keeps the old ones, and is repeated, since the contents differ from those seen before it.
set -u
trap exit TERM INT
contents() {
	cat /etc/reports-postgres/* /etc/reports-postgres-tls/* | sha256sum
}
reload() {
	pg_isready -q -h /var/run/postgresql -U postgres -d postgres || return
	psql -XqAt -h /var/run/postgresql -U postgres -d postgres -c 'SELECT pg_reload_conf()' >/dev/null
}
loaded=
while :; do
	present=$(contents)
	if [ "$present" != "$loaded" ] && reload; then
		[ -z "$loaded" ] || echo "changed files were loaded"
		loaded=$present
	fi
	sleep 10 &
	wait $!
done
