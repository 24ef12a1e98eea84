# shellcheck shell=bash
# Builds the tests of e2e/clients, once, into the cache. Needs common.sh.

# client_go_tests: make sure that they are built; prints the directory that has `client-go.test`, and
# the program `watcher` of e2e/clients/watcher.
client_go_tests() {
	local source=$ROOT/e2e/clients key dir
	command -v go >/dev/null || die "Go is needed to build the tests of clients; install it from https://go.dev/dl/"
	key=$({
		go version
		cat "${BASH_SOURCE[0]}"
		cd "$source" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c1-16)
	dir=$CACHE/cluster/client-go-$key
	if [ ! -d "$dir" ]; then
		mkdir -p "$CACHE/cluster"
		(
			flock 9 # another script may be building the same
			[ -d "$dir" ] || client_go_build "$source" "$dir"
		) 9>"$CACHE/cluster/.client-go.lock"
	fi
	echo "$dir"
}

# client_go_build SOURCE DIR: check and build beside DIR, and rename it into place when complete. The
# flags are those of the cluster's programs, which share most packages with it.
client_go_build() {
	local source=$1 dir=$2 log=$CACHE/logs/client-go.log tmp unformatted
	tmp=$(mktemp -d "$CACHE/cluster/.build-client-go.XXXXXX")
	# shellcheck disable=SC2064 # the directory is known now
	trap "rm -rf '$tmp'" EXIT
	mkdir -p "$CACHE/logs"
	cd "$source"
	step "building the tests of client-go"
	unformatted=$(gofmt -l .)
	[ -z "$unformatted" ] || die "$unformatted in e2e/clients is not formatted; run gofmt -w"
	export CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath'
	quietly "$log" go mod download
	quietly "$log" go vet ./...
	quietly "$log" go test -c -o "$tmp/client-go.test" .
	quietly "$log" go build -o "$tmp/watcher" ./watcher
	chmod 755 "$tmp"
	mv "$tmp" "$dir"
	find "$CACHE/cluster" -maxdepth 1 -name 'client-go-*' ! -path "$dir" -mtime +14 -exec rm -rf {} +
}
