# shellcheck shell=bash
# The images of PostgreSQL for clusters without a registry: Debian's server, behind the interface of
# the official image. One is of the release that this machine has, and one of the next, with a newer
# major version to upgrade to. Needs common.sh, oci.sh.

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
		oci_image "$archive" "$name" "$root" "$(postgres_config "$POSTGRES_MAJOR")"
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

# postgres_config MAJOR: the "config" object of the image.
postgres_config() {
	jq -n --arg major "$1" '{
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
	postgres_directories "$root"
	# Just-in-time compilation needs 350 MB of LLVM: PostgreSQL does without where it is absent.
	postgres_copy "$root" "$server" --exclude='llvmjit*' --exclude=bitcode --exclude=pgxs
	postgres_copy "$root" "/usr/share/postgresql/$POSTGRES_MAJOR" --exclude=man
	postgres_copy "$root" /usr/share/zoneinfo --exclude=right --exclude=posix
	postgres_copy "$root" /usr/lib/locale/C.utf8
	postgres_copy "$root" /etc/ssl/certs/ca-certificates.crt
	postgres_copy "$root" /etc/ssl/openssl.cnf
	postgres_tools "$root"
	postgres_libraries "$root"
	postgres_interface "$root"
}

# What both images have of the official one's interface.
postgres_interface() {
	local root=$1
	# As in the official image: a container without an open port is of no use.
	sed -i "s/^#listen_addresses = 'localhost'/listen_addresses = '*'/" \
		"$root"/usr/share/postgresql/*/postgresql.conf.sample
	install -m 755 "$POSTGRES_ENTRYPOINT" "$root/usr/local/bin/docker-entrypoint.sh"
	printf 'root:x:0:0:root:/:/bin/bash\npostgres:x:999:999:PostgreSQL:/var/lib/postgresql:/bin/bash\n' >"$root/etc/passwd"
	printf 'root:x:0:\npostgres:x:999:\n' >"$root/etc/group"
	printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
}

postgres_directories() {
	local root=$1
	mkdir -p "$root"/{etc,dev,proc,sys,usr/{bin,lib,lib64,local/bin},var/lib/postgresql,docker-entrypoint-initdb.d}
	ln -s usr/bin usr/lib usr/lib64 "$root/"
	mkdir -m 1777 "$root/tmp" "$root/var/lib/postgresql/data"
	mkdir -m 755 "$root/var/run"
	mkdir -m 3777 "$root/var/run/postgresql"
	ln -s var/run "$root/run"
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
	# setpriv drops the rights of root, where the container has been started with them; flock is for
	# whoever mounts a volume.
	install -m 755 "$(command -v setpriv)" "$(command -v flock)" "$(command -v locale)" \
		"$(command -v getent)" "$root/usr/bin/"
}

# The shared libraries that the programs ask for, and those that they ask for.
postgres_libraries() {
	local root=$1 path
	# ldd fails for the scripts among them.
	find "$root/usr/bin" "$root/usr/lib" -type f \( -perm -u+x -o -name '*.so*' \) -print0 |
		{ xargs -0 ldd 2>/dev/null || true; } | grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r path; do
		case $path in
		"$root"/*) continue ;;
		/lib*) path=/usr$path ;;
		esac
		install -D -m 755 "$path" "$root$path"
	done
}

# The next release of Debian, whose PostgreSQL cannot be installed beside this one's: its packages are
# fetched by apt, which verifies their signatures, and unpacked.
POSTGRES_NEXT_MAJOR=17
POSTGRES_NEXT_SUITE=trixie
POSTGRES_NEXT_PACKAGES=(
	bash coreutils dash findutils grep gzip hostname libc-bin sed tar tzdata util-linux
	"postgresql-$POSTGRES_NEXT_MAJOR" "postgresql-client-$POSTGRES_NEXT_MAJOR"
	libacl1 libattr1 libaudit1 libc6 libcap-ng0 libcap2 libcom-err2 libcrypt1 libgcc-s1 libgmp10
	libgssapi-krb5-2 libicu76 libk5crypto3 libkeyutils1 libkrb5-3 libkrb5support0 libldap2 liblz4-1
	liblzma5 libpam0g libpcre2-8-0 libpq5 libreadline8t64 libsasl2-2 libselinux1 libssl3t64
	libstdc++6 libsystemd0 libtinfo6 libuuid1 libxml2 libxslt1.1 libxxhash0
	libzstd1 zlib1g)

# postgres_next_image ARCHIVE: make the archive unless there is one by this recipe; prints the
# image's name.
postgres_next_image() {
	local archive=$1 key name root
	"$ROOT/hack/deps" build
	key=$(cat "$POSTGRES_ENTRYPOINT" "$ROOT/hack/lib/postgres.sh" "$ROOT/hack/lib/oci.sh" |
		sha256sum | cut -c1-16)
	if [ ! -e "$archive" ] || [ "$(cat "$archive.key" 2>/dev/null)" != "$key" ]; then
		postgres_next_packages
		root=$(mktemp -d)
		chmod 755 "$root"
		postgres_next_root "$root"
		name=$(postgres_next_name "$root")
		oci_image "$archive" "$name" "$root" "$(postgres_config "$POSTGRES_NEXT_MAJOR")"
		rm -rf "$root"
		# For the tests, which have to ask for this very tag.
		echo "$name" >"${archive%.tar}.name"
		echo "$key" >"$archive.key"
	fi
	cat "${archive%.tar}.name"
}

# An apt of its own, which knows that release alone and nothing of what is installed here.
postgres_next_packages() {
	local apt=$CACHE/apt-$POSTGRES_NEXT_SUITE log=$CACHE/logs/apt-$POSTGRES_NEXT_SUITE.log options
	rm -rf "$apt/packages"
	mkdir -p "$apt"/{lists/partial,archives/partial,sources,packages}
	: >"$apt/status"
	cat >"$apt/sources/debian.sources" <<-EOF
		Types: deb
		URIs: ${DEBIAN_MIRROR:-http://deb.debian.org/debian}
		Suites: $POSTGRES_NEXT_SUITE
		Components: main
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	EOF
	options=(-o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$apt/sources"
		-o "Dir::State::Lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt"
		-o APT::Sandbox::User=root -o APT::Update::Error-Mode=any)
	step "fetching PostgreSQL $POSTGRES_NEXT_MAJOR of Debian $POSTGRES_NEXT_SUITE"
	quietly "$log" apt-get "${options[@]}" update
	(cd "$apt/packages" && quietly "$log" apt-get "${options[@]}" download "${POSTGRES_NEXT_PACKAGES[@]}")
}

postgres_next_root() {
	local root=$1 package lacking
	postgres_directories "$root"
	for package in "$CACHE/apt-$POSTGRES_NEXT_SUITE"/packages/*.deb; do
		# Through tar, which keeps the links that are directories in the package.
		dpkg-deb --fsys-tarfile "$package" | tar -C "$root" --keep-directory-symlink -xf - \
			--exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/info/*' \
			--exclude='./usr/share/locale/*' --exclude='./usr/lib/postgresql/*/lib/bitcode' \
			--exclude='*/llvmjit*'
	done
	postgres_interface "$root"
	lacking=$(chroot "$root" bash -c 'cd /usr/bin; ldd bash df find grep gzip psql sed setpriv sort tar \
		/usr/lib/postgresql/*/bin/* /usr/lib/postgresql/*/lib/*.so 2>/dev/null' |
		grep -o '.* => not found' | sort -u) || :
	[ -z "$lacking" ] || die "packages are missing in POSTGRES_NEXT_PACKAGES of hack/lib/postgres.sh:" "$lacking"
}

# postgres_next_name ROOT: see postgres_image_name.
postgres_next_name() {
	local version
	version=$(chroot "$1" "/usr/lib/postgresql/$POSTGRES_NEXT_MAJOR/bin/postgres" --version)
	echo "docker.io/library/postgres:$(grep -oE '[0-9]+\.[0-9]+' <<<"$version" | head -n1)-$POSTGRES_NEXT_SUITE"
}
