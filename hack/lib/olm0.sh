# shellcheck shell=bash
# Builds OLM v0, once, into the cache. Needs common.sh, apt.sh, arch.sh, tools.sh, oci.sh, index.sh, olm.sh.

OLM0_MODULE=github.com/operator-framework/operator-lifecycle-manager

# olm0_parts: make sure that it is built; prints the directory, which has the operators `olm` and
# `catalog`, `opm`, the CRDs in `crds`, and in `images` the archives of the images with which OLM unpacks a
# bundle, util.tar and opm.tar, with the name of each beside it.
olm0_parts() {
	local source=$ROOT/e2e/olm0 opm key dir
	command -v go >/dev/null || die "Go is needed to build OLM; install it from https://go.dev/dl/"
	apt_need busybox=busybox-static jq=jq
	opm=$(opm_program)
	key=$({
		go version
		echo "$opm"
		cat "${BASH_SOURCE[0]}" "$ROOT/hack/lib/oci.sh" "$source/go.mod" "$source/go.sum"
	} | sha256sum | cut -c1-16)
	dir=$CACHE/tools/olm0-$key
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/tools"
		(
			flock 9 # another script may be building the same
			[ -d "$dir" ] || olm0_build "$source" "$dir" "$opm"
		) 9>"$CACHE/tools/.olm0.lock"
	fi
	echo "$dir"
}

# olm0_build SOURCE DIR OPM: build beside DIR, and rename it into place when complete.
olm0_build() {
	local source=$1 dir=$2 opm=$3 log=$CACHE/logs/go-build-olm0.log tmp module
	tmp=$(mktemp -d "$CACHE/tools/.build-olm0.XXXXXX")
	# shellcheck disable=SC2064 # the directory is known now
	trap "rm -rf '$tmp'" EXIT
	mkdir -p "$tmp"/out/{crds,images} "$tmp"/{util,opm}/bin
	cd "$source"
	step "building OLM (minutes when the Go build cache is cold)"
	export CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -tags=containers_image_openpgp'
	quietly "$log" go build -buildvcs=false -ldflags '-s -w' -o "$tmp/out/" "$OLM0_MODULE"/cmd/{catalog,olm}
	quietly "$log" go build -buildvcs=false -ldflags '-s -w' -o "$tmp/util/bin/cpb" "$OLM0_MODULE/util/cpb"
	module=$(go list -m -f '{{.Dir}}' github.com/operator-framework/api)
	install -m 0644 "$module"/crds/*.yaml "$tmp/out/crds/"
	install -m 0755 "$opm" "$tmp/out/opm"
	install -m 0755 "$opm" "$tmp/opm/bin/opm"
	install -m 0755 "$(command -v busybox)" "$tmp/util/bin/busybox"
	ln -s busybox "$tmp/util/bin/cp"
	olm0_image "$tmp/out/images" util "$tmp/util"
	olm0_image "$tmp/out/images" opm "$tmp/opm"
	chmod 755 "$tmp/out"
	mv "$tmp/out" "$dir"
	find "$CACHE/tools" -maxdepth 1 -name 'olm0-*' ! -path "$dir" -mtime +14 -exec rm -rf {} +
}

# olm0_image FOLDER NAME ROOTFS: FOLDER/NAME.tar, and its name with its digest in FOLDER/NAME.name: OLM has an
# image without a digest pulled, even where the node has it.
olm0_image() {
	local archive=$1/$2.tar config='{"Env": ["PATH=/bin"], "User": "1001:1001"}' name arch
	arch=$(arch_here)
	name=$(image_registry)/tests/olm-$2
	oci_image "$archive" "$name:unpack" "$3" "$config"
	name=$name@$(oci_index_digest "$archive")
	oci_image "$archive" "$name" "$3" "$config"
	echo "$name" >"$1/$2.name"
}
