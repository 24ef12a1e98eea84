# shellcheck shell=bash
# Cargo tools that the checks need, built once into the cache. Needs common.sh.

DENY_VERSION=0.20.2
MACHETE_VERSION=0.9.2

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
