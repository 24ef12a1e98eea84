# shellcheck shell=bash
# Builds kustomize-controller of Flux, once, into the cache. Needs common.sh.

FLUX_MODULE=github.com/fluxcd/kustomize-controller

# flux_parts: make sure that it is built; prints the directory, which has `kustomize-controller`, and
# `kustomizations.yaml`, the CRD that it needs.
flux_parts() {
	local source=$ROOT/e2e/gitops key dir
	command -v go >/dev/null || die "Go is needed to build Flux's controller; install it from https://go.dev/dl/"
	key=$({
		go version
		cat "${BASH_SOURCE[0]}" "$source/go.mod" "$source/go.sum"
	} | sha256sum | cut -c1-16)
	dir=$CACHE/tools/flux-$key
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/tools"
		(
			flock 9 # another script may be building the same
			[ -d "$dir" ] || flux_build "$source" "$dir"
		) 9>"$CACHE/tools/.flux.lock"
	fi
	echo "$dir"
}

# flux_build SOURCE DIR: build beside DIR, and rename it into place when complete.
flux_build() {
	local source=$1 dir=$2 log=$CACHE/logs/go-build-flux.log tmp module
	tmp=$(mktemp -d "$CACHE/tools/.build-flux.XXXXXX")
	# shellcheck disable=SC2064 # the directory is known now
	trap "rm -rf '$tmp'" EXIT
	cd "$source"
	step "building kustomize-controller of Flux (minutes when the Go build cache is cold)"
	export CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath'
	quietly "$log" go build -buildvcs=false -ldflags '-s -w' -o "$tmp/kustomize-controller" "$FLUX_MODULE"
	module=$(go list -m -f '{{.Dir}}' "$FLUX_MODULE")
	install -m 0644 "$module/config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml" "$tmp/kustomizations.yaml"
	chmod 755 "$tmp"
	mv "$tmp" "$dir"
	find "$CACHE/tools" -maxdepth 1 -name 'flux-*' ! -path "$dir" -mtime +14 -exec rm -rf {} +
}
