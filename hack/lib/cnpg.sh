# shellcheck shell=bash
# CloudNativePG's operator, built once into the cache from its archive beside the repository, and images of
# PostgreSQL that it can run, of Debian's packages; nothing of it lies in the repository. Needs common.sh,
# apt.sh, tools.sh, oci.sh, postgres.sh.

# What its documentation asks of an image of PostgreSQL: this user, and the programs of barman-cloud for
# backups in a bucket.
CNPG_UID=26
# The packages of barman-cloud that Debian's PostgreSQL does not need anyway.
CNPG_BARMAN_PACKAGES=(
	barman-cli-cloud python3-barman python3-argcomplete python3-boto3 python3-botocore python3-certifi
	python3-chardet python3-charset-normalizer python3-dateutil python3-idna python3-jmespath
	python3-pkg-resources python3-psycopg2 python3-requests python3-s3transfer python3-six python3-urllib3
	python3 python3-minimal python3.11 python3.11-minimal libpython3-stdlib libpython3.11-minimal
	libpython3.11-stdlib media-types libbz2-1.0 libexpat1 libffi8 libuuid1)
# Name of the catalog of images.
CNPG_CATALOG=reports-server-tests

# cnpg_source: its archive, where it is present.
cnpg_source() {
	local archive found=
	for archive in "${REPORTS_DATA:-$ROOT/../shared/data}"/sources/cloudnative-pg-*.tar.gz; do
		[ ! -e "$archive" ] || found=$archive
	done
	[ -z "$found" ] || echo "$found"
}

# cnpg_parts: make sure that it is built; prints its directory: the manifest that installs it,
# cloudnative-pg.yaml; catalog.yaml with the images of PostgreSQL; and the archives of all images in images.
# Prints nothing where the archive is absent.
cnpg_parts() {
	local source kustomize dir
	source=$(cnpg_source)
	[ -n "$source" ] || return 0
	command -v go >/dev/null || die "Go is needed to build CloudNativePG; install it from https://go.dev/dl/"
	"$ROOT/hack/deps" build postgres
	kustomize=$(kustomize_program)
	dir=$CACHE/cloudnative-pg/$(cnpg_key "$source" "$kustomize")
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/cloudnative-pg"
		(
			flock 9 # another script may be building the same
			[ -d "$dir" ] || cnpg_build "$source" "$kustomize" "$dir"
		) 9>"$CACHE/cloudnative-pg/.lock"
	fi
	echo "$dir"
}

# cnpg_key SOURCE KUSTOMIZE: everything that determines the result: the source, how it is built, by what,
# and the packages of PostgreSQL.
cnpg_key() {
	{
		go version
		echo "$2"
		postgres_image_key
		cat "$1" "$ROOT/hack/lib/cnpg.sh" "$ROOT/hack/lib/postgres.sh" "$ROOT/hack/lib/oci.sh"
	} | sha256sum | cut -c1-16
}

# cnpg_build SOURCE KUSTOMIZE DIR: build beside DIR, and rename it into place when complete.
cnpg_build() {
	local source=$1 kustomize=$2 dir=$3 tmp version
	tmp=$(mktemp -d "$CACHE/cloudnative-pg/.build.XXXXXX")
	# shellcheck disable=SC2064 # the directory is known now
	trap "rm -rf '$tmp'" EXIT
	chmod 755 "$tmp"
	mkdir -p "$tmp/source" "$tmp/out/images"
	tar -C "$tmp/source" -xzf "$source"
	version=${source##*-}
	version=${version%.tar.gz}
	cnpg_operator "$tmp/source" "$tmp/out" "ghcr.io/cloudnative-pg/cloudnative-pg:$version"
	cnpg_manifest "$tmp/source" "$tmp/out" "$version" "$kustomize"
	cnpg_postgres "$tmp" "$tmp/out"
	chmod 755 "$tmp/out"
	mv "$tmp/out" "$dir"
	find "$CACHE/cloudnative-pg" -mindepth 1 -maxdepth 1 ! -path "$dir" -mtime +14 ! -name '.*' -exec rm -rf {} +
}

# cnpg_operator SOURCE OUT NAME: the operator's image, laid out as by its own Dockerfile: the same program
# runs the operator and, copied from here into their pods, the instances.
cnpg_operator() {
	local source=$1 out=$2 name=$3 root program
	program=manager_$(oci_arch)
	root=$(mktemp -d)
	chmod 755 "$root"
	mkdir "$root/operator"
	mkdir -m 1777 "$root/tmp"
	step "building CloudNativePG (minutes when the Go build cache is cold)"
	(
		cd "$source"
		export CGO_ENABLED=0 GOFLAGS=-mod=readonly
		quietly "$CACHE/logs/go-build-cloudnative-pg.log" \
			go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$root/operator/$program" ./cmd/manager
	)
	chmod 755 "$root/operator/$program"
	ln -s "operator/$program" "$root/manager"
	install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
	oci_image "$out/images/operator.tar" "$name" "$root" \
		'{"User": "65532:65532", "Entrypoint": ["/manager"], "WorkingDir": "/"}'
	rm -rf "$root"
}

# cnpg_manifest SOURCE OUT VERSION KUSTOMIZE: what its releases publish: config/default with the image of the
# version. A node of the tests has no registry to ask each time.
cnpg_manifest() {
	local source=$1 manifest=$2/cloudnative-pg.yaml version=$3 kustomize=$4
	cat >>"$source/config/manager/kustomization.yaml" <<-EOF

		images:
		- name: controller
		  newName: ghcr.io/cloudnative-pg/cloudnative-pg
		  newTag: $version
	EOF
	"$kustomize" "$source/config/default" >"$manifest"
	grep -q "image: ghcr.io/cloudnative-pg/cloudnative-pg:$version$" "$manifest" ||
		die "the manifest of CloudNativePG $version does not name its image"
	sed -i 's/imagePullPolicy: Always/imagePullPolicy: IfNotPresent/' "$manifest"
}

# cnpg_postgres TMP OUT: the images of PostgreSQL, and the catalog that names them.
cnpg_postgres() {
	local tmp=$1 out=$2 old=$1/old new=$1/new name next
	step "making images of PostgreSQL $POSTGRES_MAJOR and $POSTGRES_NEXT_MAJOR for CloudNativePG"
	name=ghcr.io/cloudnative-pg/postgresql:$(postgres_image_name | cut -d: -f2)
	mkdir -m 755 "$old" "$new"
	postgres_root "$old"
	postgres_next_packages
	postgres_next_root "$new"
	next=ghcr.io/cloudnative-pg/postgresql:$(postgres_next_name "$new" | cut -d: -f2)
	cnpg_older_libraries "$old" "$new"
	cnpg_barman "$old" "$tmp/packages"
	cnpg_image "$out/images/postgres.tar" "$name" "$old" "$POSTGRES_MAJOR"
	cnpg_image "$out/images/postgres-next.tar" "$next" "$new" "$POSTGRES_NEXT_MAJOR"
	cat >"$out/catalog.yaml" <<-EOF
		apiVersion: postgresql.cnpg.io/v1
		kind: ClusterImageCatalog
		metadata:
		  name: $CNPG_CATALOG
		spec:
		  images:
		  - major: $POSTGRES_MAJOR
		    image: $name
		  - major: $POSTGRES_NEXT_MAJOR
		    image: $next
	EOF
}

# cnpg_older_libraries OLD NEW: the libraries of OLD that NEW has not. A major upgrade runs the old server's
# programs in the new image.
cnpg_older_libraries() {
	local old=$1 new=$2 path
	(cd "$old" && find usr/lib usr/lib64 -name '*.so*' ! -path 'usr/lib/postgresql/*') | while read -r path; do
		[ -e "$new/$path" ] || install -D -m 755 "$old/$path" "$new/$path"
	done
	cp -a "$old/usr/lib/postgresql/$POSTGRES_MAJOR" "$new/usr/lib/postgresql/"
	path=$(chroot "$new" bash -c "ldd /usr/lib/postgresql/$POSTGRES_MAJOR/bin/* \
		/usr/lib/postgresql/$POSTGRES_MAJOR/lib/*.so 2>/dev/null" | grep -o '.* => not found' | sort -u) || :
	rm -rf "$new/usr/lib/postgresql/$POSTGRES_MAJOR"
	[ -z "$path" ] || die "PostgreSQL $POSTGRES_MAJOR lacks libraries in the image of $POSTGRES_NEXT_MAJOR:" "$path"
}

# cnpg_barman ROOT PACKAGES: barman-cloud out of Debian's packages, which need not be installed here.
cnpg_barman() {
	local root=$1 packages=$2 package
	mkdir -p "$packages"
	apt_update
	step "fetching barman-cloud"
	(
		cd "$packages"
		quietly "$CACHE/logs/apt-barman.log" \
			apt-get -o APT::Sandbox::User=root download "${CNPG_BARMAN_PACKAGES[@]}"
	)
	for package in "$packages"/*.deb; do
		# Through tar, which keeps the links that are directories in the package.
		dpkg-deb --fsys-tarfile "$package" | tar -C "$root" --keep-directory-symlink -xf - \
			--exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
	done
	# What it needs for a bucket is loaded only when it is used.
	PYTHONDONTWRITEBYTECODE=1 quietly "$CACHE/logs/barman.log" chroot "$root" bash -c \
		'python3 -c "import boto3, psycopg2, barman.cloud_providers.aws_s3" && barman-cloud-wal-archive --version' ||
		die "packages are missing in CNPG_BARMAN_PACKAGES of hack/lib/cnpg.sh"
}

# cnpg_image ARCHIVE NAME ROOT MAJOR: an image in which CloudNativePG can run PostgreSQL. It starts a program
# of its own there, and finds those of PostgreSQL on the path.
cnpg_image() {
	local archive=$1 name=$2 root=$3 config
	printf 'root:x:0:0:root:/:/bin/bash\npostgres:x:%d:%d:PostgreSQL:/var/lib/postgresql:/bin/bash\n' \
		"$CNPG_UID" "$CNPG_UID" >"$root/etc/passwd"
	printf 'root:x:0:\npostgres:x:%d:\n' "$CNPG_UID" >"$root/etc/group"
	config=$(postgres_config "$4" | jq --arg user "$CNPG_UID:$CNPG_UID" '{User: $user, Env: .Env}')
	oci_image "$archive" "$name" "$root" "$config"
}
