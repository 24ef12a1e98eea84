# shellcheck shell=bash
# Builds the parts of a test cluster from the Go modules in testcluster, once, into the
# cache. Needs common.sh.

CLUSTER_SRC=$ROOT/testcluster
PAUSE_IMAGE=registry.k8s.io/pause:3.10.1
TOOLS_IMAGE=registry.reports-server.io/tools:busybox

CONTROL_PLANE_PACKAGES=(
	k8s.io/kubernetes/cmd/kube-apiserver
	k8s.io/kubernetes/cmd/kube-controller-manager
	k8s.io/kubernetes/cmd/kube-proxy
	k8s.io/kubernetes/cmd/kubectl
)
KUBELET_PACKAGES=(
	k8s.io/kubernetes/cmd/kube-scheduler
	k8s.io/kubernetes/cmd/kubelet
)
RUNTIME_PACKAGES=(
	./pause
	github.com/containerd/containerd/v2/cmd/containerd
	github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
	github.com/containerd/containerd/v2/cmd/ctr
	github.com/coredns/coredns
)

# cluster_parts SHAPE: make sure that the parts of a shape are built; prints their
# directories, one a line (each with bin/, and images/ where there are some). Programs are taken
# from the first that has them. With REPORTS_SERVER_KUBERNETES=oldest those of Kubernetes are of the
# oldest version that the documents promise; etcd, the runtime and DNS stay what they are.
cluster_parts() {
	local release=${REPORTS_SERVER_KUBERNETES:-newest}
	case $1 in
	control-plane | node) ;;
	*) die "unknown shape '$1'; known are: control-plane, node" ;;
	esac
	case $release in
	newest) ;;
	oldest)
		cluster_part oldest-control-plane kubernetes-oldest
		[ "$1" = control-plane ] || cluster_part oldest-node kubernetes-oldest
		;;
	*) die "REPORTS_SERVER_KUBERNETES is '$release'; known are: newest, oldest" ;;
	esac
	cluster_part control-plane kubernetes
	[ "$1" = control-plane ] || cluster_part node kubernetes node
}

# cluster_part NAME MODULE...: build NAME from these modules unless it is in the cache.
cluster_part() {
	local name=$1 dir
	shift
	command -v go >/dev/null || die "Go is needed to build the test cluster; install it from https://go.dev/dl/"
	dir=$CACHE/cluster/$name-$(cluster_key "$@")
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/cluster"
		(
			flock 9 # another script may be building the same
			[ -d "$dir" ] || cluster_build "$name" "$dir"
		) 9>"$CACHE/cluster/.$name.lock"
	fi
	echo "$dir"
}

# Everything that determines the result: pins, own sources, how they are built, by what.
cluster_key() {
	{
		go version
		cat "$ROOT/hack/lib/cluster.sh" "$ROOT/hack/lib/oci.sh"
		local module
		for module in "$@"; do
			find "$CLUSTER_SRC/$module" -type f -print0 | LC_ALL=C sort -z |
				(cd "$CLUSTER_SRC" && xargs -0 sha256sum) | sed "s|$CLUSTER_SRC/||"
		done
	} | sha256sum | cut -c1-16
}

# cluster_build NAME DIR: build beside DIR, and rename it into place when complete.
cluster_build() {
	local name=$1 dir=$2 tmp
	tmp=$(mktemp -d "$CACHE/cluster/.build-$name.XXXXXX")
	# shellcheck disable=SC2064 # the directory is known now
	trap "rm -rf '$tmp'" EXIT
	mkdir "$tmp/bin"
	case $name in
	control-plane) cluster_go kubernetes "$tmp/bin" ./etcd "${CONTROL_PLANE_PACKAGES[@]}" ;;
	oldest-control-plane) cluster_go kubernetes-oldest "$tmp/bin" "${CONTROL_PLANE_PACKAGES[@]}" ;;
	oldest-node) cluster_go kubernetes-oldest "$tmp/bin" "${KUBELET_PACKAGES[@]}" ;;
	node)
		cluster_go kubernetes "$tmp/bin" "${KUBELET_PACKAGES[@]}"
		cluster_go node "$tmp/bin" "${RUNTIME_PACKAGES[@]}"
		cluster_images "$tmp"
		;;
	esac
	chmod 755 "$tmp"
	mv "$tmp" "$dir"
	find "$CACHE/cluster" -maxdepth 1 -name "$name-*" ! -path "$dir" -mtime +14 -exec rm -rf {} +
}

# cluster_go MODULE OUT PACKAGE...: go build, with progress, all output in a log.
cluster_go() {
	local module=$1 out=$2 log version rc=0
	shift 2
	log=$CACHE/logs/go-build-$module.log
	mkdir -p "$CACHE/logs"
	cd "$CLUSTER_SRC/$module"
	step "downloading the Go modules of testcluster/$module"
	GOFLAGS=-mod=readonly quietly "$log" go mod download
	# The version that the API server reports; its build leaves v0.0.0 without it.
	version=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9.]*\).*|\1|p' go.mod)
	local base=k8s.io/component-base/version
	step "building ${*##*/} (minutes when the Go build cache is cold)"
	GOFLAGS=-mod=readonly CGO_ENABLED=0 go build -v -buildvcs=false -trimpath -o "$out/" -ldflags "-s -w \
		-X $base.gitVersion=v$version -X $base.gitMajor=${version%%.*} \
		-X $base.gitMinor=$(cut -d. -f2 <<<"$version")" "$@" 2>&1 |
		tee "$log" | cluster_progress || rc=$?
	[ "$rc" -eq 0 ] || die "go build failed; all of its output is in $log: $(tail -n 5 "$log")"
}

# A line every 200 compiled packages: go build -v names one a line.
cluster_progress() {
	local n=0
	while read -r _; do
		n=$((n + 1))
		[ $((n % 200)) -ne 0 ] || step "  $n packages compiled"
	done
}

# The two images that every node has: pause, and busybox as a bag of tools.
cluster_images() {
	local root
	root=$(mktemp -d)
	step "writing the images $PAUSE_IMAGE and $TOOLS_IMAGE"
	install -m 755 "$1/bin/pause" "$root/pause"
	oci_image "$1/images/pause.tar" "$PAUSE_IMAGE" "$root" \
		'{"Entrypoint": ["/pause"], "User": "65535:65535"}'
	rm "$root/pause" "$1/bin/pause"
	mkdir -p "$root/bin" "$root/etc"
	mkdir -m 1777 "$root/tmp"
	install -m 755 "$(command -v busybox)" "$root/bin/busybox"
	local applet
	for applet in $(busybox --list); do
		[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
	done
	echo 'nobody:x:65534:65534:nobody:/:/bin/sh' >"$root/etc/passwd"
	oci_image "$1/images/tools.tar" "$TOOLS_IMAGE" "$root" \
		'{"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"], "User": "65534:65534"}'
	rm -rf "$root"
}
