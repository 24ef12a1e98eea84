# shellcheck shell=bash
# Cargo tools that the checks need, built once into the cache. Needs common.sh.

DENY_VERSION=0.20.2

# deny_check: licences, bans and sources of all dependencies.
deny_check() {
	local tools=$CACHE/tools
	if ! "$tools/bin/cargo-deny" --version 2>/dev/null | grep -q " $DENY_VERSION\$"; then
		cargo install cargo-deny --version "$DENY_VERSION" --locked --root "$tools" --quiet
	fi
	"$tools/bin/cargo-deny" --manifest-path "$ROOT/Cargo.toml" check bans licenses sources
}
