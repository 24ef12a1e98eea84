# shellcheck shell=bash
# The image of PostgreSQL for clusters without a registry: Debian's server, behind the interface of
# the official image. Needs common.sh, oci.sh.

POSTGRES_MAJOR=15
POSTGRES_ENTRYPOINT=$ROOT/hack/images/postgres/docker-entrypoint.sh
# What PostgreSQL and its scripts run. The image gets these packages' programs, and no more of them.
POSTGRES_TOOLS=(bash coreutils dash findutils grep gzip hostname sed tar zstd)

# postgres_image ARCHIVE: make the archive unless it is there; prints the image's name.
postgres_image() {
	local archive=$1 key name root
	"$ROOT/hack/deps" build postgres
	name=$(postgres_image_name)
	key=$(postgres_image_key)
	if [ ! -e "$archive" ] || [ "$(cat "$archive.key" 2>/dev/null)" != "$key" ]; then
		root=$(mktemp -d)
		chmod 755 "$root"
		postgres_root "$root"
		oci_image "$archive" "$name" "$root" "$(postgres_config)"
		rm -rf "$root"
		echo "$key" >"$archive.key"
	fi
	# For the tests, which have to ask for this very tag.
	echo "$name" >"${archive%.tar}.name"
	echo "$name"
}

# As the official image is called, so that a tag alone selects this one.
postgres_image_name() {
	local version
	version=$(dpkg-query -W -f '${Version}' "postgresql-$POSTGRES_MAJOR")
	echo "docker.io/library/postgres:${version%%-*}-bookworm"
}

# Everything that determines the archive.
postgres_image_key() {
	{
		dpkg-query -W -f '${Package} ${Version}\n' "postgresql-$POSTGRES_MAJOR" \
			"postgresql-client-$POSTGRES_MAJOR" libpq5 libc6 libssl3 tzdata ca-certificates \
			"${POSTGRES_TOOLS[@]}" util-linux
		cat "$POSTGRES_ENTRYPOINT" "$ROOT/hack/lib/postgres.sh" "$ROOT/hack/lib/oci.sh"
	} | sha256sum | cut -c1-16
}

postgres_config() {
	jq -n --arg major "$POSTGRES_MAJOR" '{
		User: "999:999", Entrypoint: ["docker-entrypoint.sh"], Cmd: ["postgres"],
		StopSignal: "SIGINT", ExposedPorts: {"5432/tcp": {}},
		Volumes: {"/var/lib/postgresql/data": {}},
		Env: [
			"PATH=/usr/local/bin:/usr/bin:/bin:/usr/lib/postgresql/\($major)/bin",
			"LANG=C.UTF-8", "PG_MAJOR=\($major)", "PGDATA=/var/lib/postgresql/data"]}'
}

# postgres_root DIR: the file system of the image.
postgres_root() {
	local root=$1 server=/usr/lib/postgresql/$POSTGRES_MAJOR
	mkdir -p "$root"/{etc,dev,proc,sys,usr/{bin,lib,lib64,local/bin},var/lib/postgresql,docker-entrypoint-initdb.d}
	ln -s usr/bin usr/lib usr/lib64 "$root/"
	mkdir -m 1777 "$root/tmp" "$root/var/lib/postgresql/data"
	mkdir -m 755 "$root/var/run"
	mkdir -m 3777 "$root/var/run/postgresql"
	ln -s var/run "$root/run"
	# Just-in-time compilation needs 350 MB of LLVM: PostgreSQL does without where it is absent.
	postgres_copy "$root" "$server" --exclude='llvmjit*' --exclude=bitcode --exclude=pgxs
	postgres_copy "$root" "/usr/share/postgresql/$POSTGRES_MAJOR" --exclude=man
	# As in the official image: a container without an open port is of no use.
	sed -i "s/^#listen_addresses = 'localhost'/listen_addresses = '*'/" \
		"$root/usr/share/postgresql/$POSTGRES_MAJOR/postgresql.conf.sample"
	postgres_copy "$root" /usr/share/zoneinfo --exclude=right --exclude=posix
	postgres_copy "$root" /usr/lib/locale/C.utf8
	postgres_copy "$root" /etc/ssl/certs/ca-certificates.crt
	postgres_copy "$root" /etc/ssl/openssl.cnf
	postgres_tools "$root"
	postgres_libraries "$root"
	install -m 755 "$POSTGRES_ENTRYPOINT" "$root/usr/local/bin/docker-entrypoint.sh"
	printf 'root:x:0:0:root:/:/bin/bash\npostgres:x:999:999:PostgreSQL:/var/lib/postgresql:/bin/bash\n' >"$root/etc/passwd"
	printf 'root:x:0:\npostgres:x:999:\n' >"$root/etc/group"
	printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
}

# postgres_copy ROOT PATH [TAR_OPTION...]: the same path in the image, links kept.
postgres_copy() {
	local root=$1 path=$2
	shift 2
	tar -C / -cf - "$@" "${path#/}" | tar -C "$root" -xf -
}

postgres_tools() {
	local root=$1 path
	dpkg -L "${POSTGRES_TOOLS[@]}" | grep -E '^(/usr)?/bin/[^/]+$' | sort -u | while read -r path; do
		install -D -m 755 "$path" "$root/usr/bin/${path##*/}"
	done
	ln -sf dash "$root/usr/bin/sh"
	# setpriv drops the rights of root, where the container has been started with them.
	install -m 755 "$(command -v setpriv)" "$(command -v locale)" "$(command -v getent)" "$root/usr/bin/"
}

# The shared libraries that the programs ask for, and those that they ask for.
postgres_libraries() {
	local root=$1 path
	find "$root/usr/bin" "$root/usr/lib" -type f \( -perm -u+x -o -name '*.so*' \) -print0 |
		xargs -0 ldd 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r path; do
		case $path in
		"$root"/*) continue ;;
		/lib*) path=/usr$path ;;
		esac
		install -D -m 755 "$path" "$root$path"
	done
}
