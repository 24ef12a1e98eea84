# shellcheck shell=bash
# Tools that the checks need, built or installed once into the cache. Needs common.sh.

DENY_VERSION=0.20.2
MACHETE_VERSION=0.9.2
# shellcheck disable=SC2034 # of sbom.sh
CYCLONEDX_VERSION=0.5.9
COSIGN_VERSION=3.1.3

# cargo_tool NAME VERSION: the path of a program, which is installed if it is not there. It runs for
# seconds, so what counts is how long it takes to build.
cargo_tool() {
	local tools=$CACHE/tools
	if ! grep -qF "\"$1 $2 " "$tools/.crates.toml" 2>/dev/null; then
		CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
			CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
			cargo install "$1" --version "$2" --locked --root "$tools" --quiet >&2
	fi
	printf '%s\n' "$tools/bin/$1"
}

# go_tool NAME PACKAGE [MODULE]: the path of a program of the module e2e/MODULE, e2e/delivery if none is
# named, which is built if it is not there. Its versions are pinned by that module.
go_tool() {
	local source=$ROOT/e2e/${3:-delivery} key path
	command -v go >/dev/null || die "Go is needed to build $1; install it from https://go.dev/dl/"
	key=$({
		go version
		cd "$source" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c1-16)
	path=$CACHE/tools/bin/$1-$key
	built_once "$path" "$CACHE/tools/.$1.lock" go_tool_build "$source" "$path" "$2"
	printf '%s\n' "$path"
}

# go_tool_build SOURCE PATH PACKAGE: build beside PATH, and rename it into place when complete.
go_tool_build() {
	cd "$1"
	step "building ${3##*/} (minutes when the Go build cache is cold)"
	# opm reads signatures of images by a library in C otherwise.
	export CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -tags=containers_image_openpgp'
	quietly "$CACHE/logs/go-build-${3##*/}.log" go build -ldflags '-s -w' -o "$2.new" "$3" &&
		mv "$2.new" "$2"
	find "$CACHE/tools/bin" -name "$(basename "${2%-*}")-*" ! -path "$2" -mtime +14 -delete
}

# helm_program, helm3_program, kustomize_program: the paths of Helm, of the oldest Helm that the chart is
# for, and of a kubectl that has kustomize alone.
helm_program() {
	go_tool helm helm.sh/helm/v4/cmd/helm
}

helm3_program() {
	go_tool helm3 helm.sh/helm/v3/cmd/helm helm3
}

kustomize_program() {
	go_tool kustomize ./kustomize
}

# opm_program, bundle_program: the paths of the program for catalogs of OLM, and of one that runs the
# validators of bundles.
opm_program() {
	go_tool opm github.com/operator-framework/operator-registry/cmd/opm
}

bundle_program() {
	go_tool bundle ./bundle
}

# scorecard_program: the path of the program that operator-sdk's scorecard runs in its pods.
scorecard_program() {
	go_tool scorecard github.com/operator-framework/operator-sdk/images/scorecard-test scorecard
}

# cosign_program: the path of cosign. Its version is exact, and Go verifies its sum and those of all that
# it needs against the public database of sums.
cosign_program() {
	local path=$CACHE/tools/bin/cosign-$COSIGN_VERSION
	command -v go >/dev/null || die "Go is needed to build cosign; install it from https://go.dev/dl/"
	built_once "$path" "$CACHE/tools/.cosign.lock" cosign_build "$path"
	printf '%s\n' "$path"
}

# cosign_build PATH: build in a folder of its own, and move the program to PATH.
cosign_build() {
	local folder
	folder=$(mktemp -d "$CACHE/tools/cosign.XXXXXX")
	step "building cosign (minutes when the Go build cache is cold)"
	CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$folder quietly "$CACHE/logs/go-build-cosign.log" \
		go install -ldflags '-s -w' "github.com/sigstore/cosign/v3/cmd/cosign@v$COSIGN_VERSION" &&
		mv "$folder/cosign" "$1"
	rm -rf "$folder"
}

# validate_program: the path of a program that holds objects against the schemas of Kubernetes, which
# it brings along. The versions of what it needs are pinned beside it.
validate_program() {
	local pins=$ROOT/hack/lib/validate.txt dir path
	dir=$CACHE/tools/validate-$(sha256sum "$pins" | cut -c1-16)
	path=$dir/bin/kubernetes-validate
	built_once "$path" "$CACHE/tools/.validate.lock" validate_install "$dir" "$pins"
	printf '%s\n' "$path"
}

# validate_install DIR PINS: install it into DIR; its program is there last.
validate_install() {
	rm -rf "$1"
	step "installing kubernetes-validate"
	quietly "$CACHE/logs/validate.log" python3 -m venv "$1" &&
		quietly "$CACHE/logs/validate.log" "$1/bin/pip" install --quiet -r "$2"
}

# machete: the path of cargo-machete, which finds dependencies that no line uses.
machete() {
	cargo_tool cargo-machete "$MACHETE_VERSION"
}

# deny_check: licences, bans and sources of all dependencies.
deny_check() {
	local deny
	deny=$(cargo_tool cargo-deny "$DENY_VERSION")
	"$deny" --manifest-path "$ROOT/Cargo.toml" check bans licenses sources
}

# advisories_check: known vulnerabilities of all dependencies; fetches the database of them.
advisories_check() {
	local deny
	deny=$(cargo_tool cargo-deny "$DENY_VERSION")
	"$deny" --manifest-path "$ROOT/Cargo.toml" check advisories
}
