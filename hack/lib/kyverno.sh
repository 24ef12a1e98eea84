# shellcheck shell=bash
# Kyverno as images and manifests, built from the Go module proxy once into the cache; nothing of it
# lies in the repository. Needs common.sh, oci.sh.

KYVERNO_VERSION=v1.19.1
KYVERNO_SUM=h1:/MkgFii3/VlQfKR1JpC9tVwNNVNQTt2S4U6qCsafsTU=
# The version that Kyverno's go.mod names.
OPENREPORTS_VERSION=v0.2.1
OPENREPORTS_SUM=h1:g9KS3yle9Y1elmww4TK9EkD1rl6inIaiIJPX6e+u680=
HELM_VERSION=v4.2.4
HELM_SUM=h1:qIysMI0JpTC4WXf3AQ99V6rZGT0+gO0Ww8IOnnUnaZk=
KYVERNO_VALUES=$ROOT/e2e/kyverno/values.yaml
# Kyverno's programs, and what its chart calls their images.
KYVERNO_PROGRAMS=(
	kyverno:kyverno
	kyverno-init:kyvernopre
	reports-controller:reports-controller
	background-controller:background-controller
)

# kyverno_parts: make sure that Kyverno is built; prints its directory: images/NAME.tar, crds.yaml,
# kyverno.yaml (the chart, rendered) and policies.yaml.
kyverno_parts() {
	local dir
	command -v go >/dev/null || die "Go is needed to build Kyverno; install it from https://go.dev/dl/"
	dir=$CACHE/kyverno/$KYVERNO_VERSION-$(kyverno_key)
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/kyverno"
		(
			flock 9 # another script may be building the same
			[ -d "$dir" ] || kyverno_build "$dir"
		) 9>"$CACHE/kyverno/.lock"
	fi
	echo "$dir"
}

# Everything that determines the result: pins, how it is built and rendered, by what.
kyverno_key() {
	{
		go version
		cat "$ROOT/hack/lib/kyverno.sh" "$ROOT/hack/lib/oci.sh" "$KYVERNO_VALUES"
	} | sha256sum | cut -c1-16
}

# kyverno_build DIR: build beside DIR, and rename it into place when complete.
kyverno_build() {
	local dir=$1 tmp program
	tmp=$(mktemp -d "$CACHE/kyverno/.build.XXXXXX")
	# shellcheck disable=SC2064 # the directory is known now
	trap "chmod -R u+w '$tmp'; rm -rf '$tmp'" EXIT
	mkdir -p "$tmp/out/images"
	go_module github.com/kyverno/kyverno "$KYVERNO_VERSION" "$KYVERNO_SUM" "$tmp/kyverno"
	go_module github.com/openreports/reports-api "$OPENREPORTS_VERSION" "$OPENREPORTS_SUM" "$tmp/openreports"
	go_module helm.sh/helm/v4 "$HELM_VERSION" "$HELM_SUM" "$tmp/helm"
	kyverno_go "$tmp/helm" helm ./cmd/helm
	kyverno_go "$tmp/kyverno" kyverno "${KYVERNO_PROGRAMS[@]/#/./cmd/}"
	for program in "${KYVERNO_PROGRAMS[@]}"; do
		kyverno_image "$tmp/kyverno/bin/${program%:*}" "${program#*:}" "$tmp/out/images"
	done
	kyverno_manifests "$tmp" "$tmp/out"
	chmod 755 "$tmp/out"
	mv "$tmp/out" "$dir"
	find "$CACHE/kyverno" -maxdepth 1 -name 'v*' ! -path "$dir" -mtime +14 -exec rm -rf {} +
}

# go_module PATH VERSION SUM DIR: a copy of a module of the Go module proxy, which is what SUM says. Built
# inside of the copy, it keeps its own `replace` and `go.sum`.
go_module() {
	local answer sum
	step "fetching $1 $2"
	answer=$(GOFLAGS='' go mod download -json "$1@$2") || die "cannot fetch $1@$2: $answer"
	sum=$(jq -r .Sum <<<"$answer")
	[ "$sum" = "$3" ] || die "$1@$2 has the checksum $sum instead of $3 (hack/lib/kyverno.sh)"
	cp -a "$(jq -r .Dir <<<"$answer")" "$4"
	chmod -R u+w "$4"
}

# kyverno_go SOURCE NAME PACKAGE...: programs into SOURCE/bin. A package may have ":..." after it.
kyverno_go() {
	local source=$1 log=$CACHE/logs/go-build-$2.log
	shift 2
	step "building ${source##*/} (minutes when the Go build cache is cold)"
	(
		cd "$source"
		export CGO_ENABLED=0 GOFLAGS=-mod=readonly
		quietly "$log" go build -buildvcs=false -trimpath -ldflags '-s -w' -o bin/ "${@%%:*}"
	)
}

# kyverno_image BINARY NAME DIR: the image DIR/NAME.tar, as Kyverno's own build lays it out.
kyverno_image() {
	local binary=$1 name=$2 root config
	root=$(mktemp -d)
	chmod 755 "$root"
	mkdir -p "$root/ko-app"
	mkdir -m 1777 "$root/tmp"
	install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
	install -m 755 "$binary" "$root/ko-app/${binary##*/}"
	config=$(jq -n --arg path "/ko-app/${binary##*/}" '{
		User: "65534:65534", Entrypoint: [$path], WorkingDir: "/",
		Env: ["PATH=/ko-app", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]}')
	oci_image "$3/$name.tar" "reg.kyverno.io/kyverno/$name:$KYVERNO_VERSION" "$root" "$config"
	rm -rf "$root"
}

# kyverno_manifests TMP OUT: CRDs, chart and policies, each as one file.
kyverno_manifests() {
	local tmp=$1 out=$2 helm=$1/helm/bin/helm charts=$1/kyverno/charts profile file
	find "$tmp/kyverno/config/crds" "$tmp/openreports/config/crd" -name '*.yaml' \
		! -name kustomization.yaml | LC_ALL=C sort | while read -r file; do
		printf -- '---\n'
		cat "$file"
	done >"$out/crds.yaml"
	# The charts that it depends on are not in the module, and are not wanted.
	sed -i '/^dependencies:/,$d' "$charts/kyverno/Chart.yaml"
	rm -rf "$charts/kyverno/Chart.lock" "$charts/kyverno/charts"
	kyverno_helm "$tmp" "$out/kyverno.yaml" kyverno "$charts/kyverno" --values "$KYVERNO_VALUES"
	: >"$out/policies.yaml"
	for profile in restricted baseline; do
		kyverno_helm "$tmp" "$tmp/policies" "$profile" "$charts/kyverno-policies" \
			--set podSecurityStandard="$profile" --set policyType=ClusterPolicy --set failurePolicy=Ignore
		cat "$tmp/policies" >>"$out/policies.yaml"
	done
}

# kyverno_helm TMP FILE RELEASE CHART OPTION...: render a chart into FILE.
kyverno_helm() {
	local tmp=$1 file=$2 log=$CACHE/logs/helm-$3.log
	HELM_CACHE_HOME=$tmp/home HELM_CONFIG_HOME=$tmp/home HELM_DATA_HOME=$tmp/home \
		"$tmp/helm/bin/helm" template "${@:3}" --namespace kyverno --no-hooks \
		--kube-version 1.36.3 >"$file" 2>"$log" || die "helm cannot render $4: $(tail -n 5 "$log")"
}
