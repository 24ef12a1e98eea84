# shellcheck shell=bash
# What every script in hack/ shares: where things are, and how progress is shown.
# Source it after `set -euo pipefail`.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Everything built or downloaded by these scripts lies below CACHE, never in the work tree.
CACHE=${REPORTS_SERVER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/reports-server}
export REPORTS_SERVER_CACHE=$CACHE
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}

# step TEXT: one line of progress, with the seconds since the script began.
step() {
	printf '[%4ds] %s\n' "$SECONDS" "$*" >&2
}

# die TEXT: end with a sentence that says what is wrong and what to do.
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# static_triple: what static programs are built for. It is this machine's own, but named, so that the
# flag does not reach build scripts and macros, which have to be loaded dynamically.
static_triple() {
	rustc -vV | sed -n 's/^host: //p'
}

# cargo_static SUBCOMMAND...: cargo, for programs that are linked against nothing, as the images hold
# them. They lie in the triple's folder of the target directory.
cargo_static() {
	RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
		cargo "$1" --locked --target "$(static_triple)" "${@:2}"
}

# build_bins OPTION...: binaries of the workspace, such as --bins or --bin NAME. That no example is among
# what is built has cargo give every crate the features that it has in tests, so that nothing is built twice.
build_bins() {
	cargo build --quiet --locked --manifest-path "$ROOT/Cargo.toml" --workspace --examples "$@"
}

# image_registry: the prefix of the project's images, which the code names alone.
image_registry() {
	sed -n 's/^pub const IMAGE_REGISTRY: &str = "\(.*\)";$/\1/p' "$ROOT/operator/src/names.rs" | grep . ||
		die "no IMAGE_REGISTRY found in operator/src/names.rs"
}

# workspace_version: the version of all crates, which is that of the release.
workspace_version() {
	sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml" | grep . ||
		die "no version found in [workspace.package] of Cargo.toml"
}

# built_once PATH LOCK COMMAND...: have a command make PATH, unless it is there. Of scripts that want it at
# the same time, one makes it, and the others wait for the file LOCK. PATH has to appear complete.
built_once() {
	local path=$1 lock=$2
	shift 2
	[ ! -e "$path" ] || return 0
	mkdir -p "$(dirname "$path")" "$(dirname "$lock")"
	(
		flock 9
		[ -e "$path" ] || "$@"
	) 9>"$lock"
	[ -e "$path" ] || die "$path was not made"
}

# quietly LOG COMMAND...: run a command whose output matters only when it fails.
quietly() {
	local log=$1 rc=0
	shift
	mkdir -p "$(dirname "$log")"
	"$@" >"$log" 2>&1 || rc=$?
	if [ "$rc" -ne 0 ]; then
		tail -n 40 "$log" >&2
		printf 'error: "%s" failed with %d; all of its output is in %s\n' "$*" "$rc" "$log" >&2
	fi
	return "$rc"
}
