# shellcheck shell=bash
# Builds Argo CD, once, into the cache. Needs common.sh, apt.sh, tools.sh, jq.

ARGOCD_VERSION=v3.6.1
# A module beside it in its repository, with the same version.
ARGOCD_ENGINE=github.com/argoproj/argo-cd/gitops-engine/v3

# argocd_parts: make sure that it is built; prints the directory, which has `argocd`, one program for all
# its servers; `redis-server`, `kustomize` and `git-verify-wrapper.sh`, which these need; and the CRDs in
# `crds`.
argocd_parts() {
	local kustomize key dir
	command -v go >/dev/null || die "Go is needed to build Argo CD; install it from https://go.dev/dl/"
	# Debian's redis-server starts a service when it is installed; this is the same program by another name.
	apt_need git=git jq=jq redis-check-rdb=redis-tools
	kustomize=$(kustomize_program)
	key=$({
		go version
		echo "$kustomize"
		cat "${BASH_SOURCE[0]}"
	} | sha256sum | cut -c1-16)
	dir=$CACHE/tools/argocd-$key
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/tools"
		(
			flock 9 # another script may be building the same
			[ -d "$dir" ] || argocd_build "$dir" "$kustomize"
		) 9>"$CACHE/tools/.argocd.lock"
	fi
	echo "$dir"
}

# argocd_build DIR KUSTOMIZE: build beside DIR, and rename it into place when complete. The module has
# replacements of its own, so it is built inside of a copy, with the Go that it asks for; Go verifies its
# sum, and those of all that it needs, against the public database of sums. One replacement leads to a folder
# that its repository has and its module has not.
argocd_build() {
	local dir=$1 kustomize=$2 log=$CACHE/logs/go-build-argocd.log tmp answer
	tmp=$(mktemp -d "$CACHE/tools/.build-argocd.XXXXXX")
	# shellcheck disable=SC2064 # the directory is known now
	trap "chmod -R u+w '$tmp'; rm -rf '$tmp'" EXIT
	step "fetching Argo CD $ARGOCD_VERSION"
	export GOTOOLCHAIN=auto
	answer=$(cd "$tmp" && go mod download -json "github.com/argoproj/argo-cd/v3@$ARGOCD_VERSION") ||
		die "cannot fetch Argo CD: $answer"
	cp -a "$(jq -r .Dir <<<"$answer")" "$tmp/source"
	chmod -R u+w "$tmp/source"
	mkdir -p "$tmp/out/crds"
	step "building Argo CD (minutes when the Go build cache is cold)"
	(
		cd "$tmp/source"
		export CGO_ENABLED=0 GOFLAGS='-mod=mod -trimpath'
		go mod edit -dropreplace "$ARGOCD_ENGINE"
		quietly "$log" go build -buildvcs=false -ldflags '-s -w' -o "$tmp/out/argocd" ./cmd
	)
	cp "$tmp"/source/manifests/crds/{application,appproject}-crd.yaml "$tmp/out/crds/"
	install -m 0755 "$tmp/source/hack/git-verify-wrapper.sh" "$tmp/out/"
	ln -s "$(command -v redis-check-rdb)" "$tmp/out/redis-server"
	argocd_kustomize "$kustomize" >"$tmp/out/kustomize"
	chmod 755 "$tmp/out" "$tmp/out/kustomize"
	mv "$tmp/out" "$dir"
	find "$CACHE/tools" -maxdepth 1 -name 'argocd-*' ! -path "$dir" -mtime +14 -exec rm -rf {} +
}

# argocd_kustomize PROGRAM: a script that answers as kustomize does where Argo CD calls it.
argocd_kustomize() {
	cat <<-SCRIPT
		#!/bin/sh
		case \$1 in
		build) exec '$1' "\$2" ;;
		*) echo "kustomize: '\$*' is not for the tests" >&2 && exit 1 ;;
		esac
	SCRIPT
}
