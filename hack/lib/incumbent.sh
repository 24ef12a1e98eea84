# shellcheck shell=bash
# The incumbent, kyverno/reports-server, built once into the cache from its archive beside the
# repository; nothing of it lies in the repository. Needs common.sh, oci.sh.

# incumbent_source: its archive, where it is present.
incumbent_source() {
	local archive found=
	for archive in "${REPORTS_DATA:-$ROOT/../shared/data}"/sources/kyverno-reports-server-*.tar.gz; do
		[ ! -e "$archive" ] || found=$archive
	done
	[ -z "$found" ] || echo "$found"
}

# incumbent_parts: make sure that it is built; prints its directory: the program reports-server, its
# manifests install.yaml, its image image.tar with the name image.name. Prints nothing where the
# archive is absent.
incumbent_parts() {
	local source dir
	source=$(incumbent_source)
	[ -n "$source" ] || return 0
	command -v go >/dev/null || die "Go is needed to build the incumbent; install it from https://go.dev/dl/"
	dir=$CACHE/incumbent/$(incumbent_key "$source")
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/incumbent"
		(
			flock 9 # another script may be building the same
			[ -d "$dir" ] || incumbent_build "$source" "$dir"
		) 9>"$CACHE/incumbent/.lock"
	fi
	echo "$dir"
}

# Everything that determines the result: the source, how it is built, by what.
incumbent_key() {
	{
		go version
		cat "$1" "$ROOT/hack/lib/incumbent.sh" "$ROOT/hack/lib/oci.sh"
	} | sha256sum | cut -c1-16
}

# incumbent_build SOURCE DIR: build beside DIR, and rename it into place when complete.
incumbent_build() {
	local source=$1 dir=$2 tmp
	tmp=$(mktemp -d "$CACHE/incumbent/.build.XXXXXX")
	# shellcheck disable=SC2064 # the directory is known now
	trap "rm -rf '$tmp'" EXIT
	mkdir "$tmp/source" "$tmp/out"
	tar -C "$tmp/source" -xzf "$source"
	step "building the incumbent (minutes when the Go build cache is cold)"
	(
		cd "$tmp/source"
		export CGO_ENABLED=0 GOFLAGS=-mod=readonly
		quietly "$CACHE/logs/go-build-incumbent.log" \
			go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$tmp/out/reports-server" .
	)
	cp "$tmp/source/config/install.yaml" "$tmp/out/"
	incumbent_image "$source" "$tmp/out"
	chmod 755 "$tmp/out"
	mv "$tmp/out" "$dir"
	find "$CACHE/incumbent" -mindepth 1 -maxdepth 1 ! -path "$dir" -mtime +14 ! -name '.*' -exec rm -rf {} +
}

# incumbent_image SOURCE DIR: an image with the program of DIR alone, as its manifests start it.
incumbent_image() {
	local source=$1 dir=$2 root config version
	version=${source##*-}
	echo "registry.reports-server.io/incumbent:${version%.tar.gz}" >"$dir/image.name"
	root=$(mktemp -d)
	chmod 755 "$root"
	mkdir -m 1777 "$root/tmp"
	install -m 755 "$dir/reports-server" "$root/reports-server"
	config='{"User": "65532:65532", "Entrypoint": ["/reports-server"], "WorkingDir": "/"}'
	oci_image "$dir/image.tar" "$(cat "$dir/image.name")" "$root" "$config"
	rm -rf "$root"
}
