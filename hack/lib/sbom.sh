# shellcheck shell=bash
# Bills of material of the binaries, from Cargo.lock. Needs common.sh, tools.sh, jq.

# sbom_all SOURCE OUT: for each binary, OUT/BINARY.cdx.json and OUT/BINARY.spdx.json. SOURCE is a copy of
# the repository, since the tool writes beside each manifest.
sbom_all() {
	local source=$1 out=$2 tool binary folder
	tool=$(cargo_tool cargo-cyclonedx "$CYCLONEDX_VERSION")
	quietly "$CACHE/logs/cyclonedx.log" "$tool" cyclonedx --quiet --manifest-path "$source/Cargo.toml" \
		--format json --spec-version 1.5 --all-features --target all --override-filename bom
	for folder in server operator; do
		binary=$(sbom_binary "$folder")
		[ -e "$source/$folder/bom.json" ] || die "cargo-cyclonedx wrote no $folder/bom.json"
		# Paths of the copy say nothing to anybody.
		jq --arg source "$source" 'walk(if type == "string"
			then split($source) | join("") | split($source | @uri) | join("") else . end)' \
			"$source/$folder/bom.json" >"$out/$binary.cdx.json"
		sbom_spdx "$out/$binary.cdx.json" >"$out/$binary.spdx.json"
		sbom_complete "$source" "$binary" "$out/$binary.cdx.json" "$out/$binary.spdx.json"
	done
}

# sbom_binary FOLDER: the package of a folder, which is called as its binary.
sbom_binary() {
	sed -n '0,/^name = /s/^name = "\(.*\)"/\1/p' "$ROOT/$1/Cargo.toml"
}

# sbom_spdx FILE: the same as SPDX 2.3.
sbom_spdx() {
	local commit created
	commit=$(git -C "$ROOT" rev-parse HEAD)
	created=$(date -u -d "@$(git -C "$ROOT" log -1 --format=%ct)" +%Y-%m-%dT%H:%M:%SZ)
	jq --arg commit "$commit" --arg created "$created" --arg tool "cargo-cyclonedx-$CYCLONEDX_VERSION" \
		-f "$ROOT/hack/lib/spdx.jq" "$1"
}

# sbom_complete SOURCE BINARY CYCLONEDX SPDX: every crate that cargo builds the binary of is in both, and
# both have nothing that is not in Cargo.lock. The lists lie beside SOURCE.
sbom_complete() {
	local source=$1 binary=$2 cdx=$3 spdx=$4 lists=$1.$2 lacking
	mkdir -p "$lists"
	cargo tree --locked --manifest-path "$source/Cargo.toml" --package "$binary" --edges normal,build \
		--target all --prefix none --format '{p}' |
		awk 'NF > 1 {print $1, substr($2, 2)}' | LC_ALL=C sort -u >"$lists/built"
	awk -F'"' '/^name = / {name = $2} /^version = / && name != "" {print name, $2; name = ""}' \
		"$source/Cargo.lock" | LC_ALL=C sort -u >"$lists/locked"
	jq -r '[.metadata.component] + (.components // []) | .[] | "\(.name) \(.version)"' "$cdx" |
		LC_ALL=C sort -u >"$lists/cdx"
	jq -r '.packages[] | "\(.name) \(.versionInfo)"' "$spdx" | LC_ALL=C sort -u >"$lists/spdx"
	cmp -s "$lists/cdx" "$lists/spdx" || die "$spdx has other packages than $cdx"
	[ "$(wc -l <"$lists/built")" -gt 50 ] || die "cargo tree names too few crates of $binary"
	lacking=$(LC_ALL=C comm -23 "$lists/built" "$lists/cdx")
	[ -z "$lacking" ] || die "$cdx lacks ${lacking//$'\n'/, }"
	lacking=$(LC_ALL=C comm -23 "$lists/cdx" "$lists/locked")
	[ -z "$lacking" ] || die "$cdx has ${lacking//$'\n'/, }, which Cargo.lock does not have"
	step "$binary: $(wc -l <"$lists/cdx") packages in both bills of material, $(wc -l <"$lists/built") of them built by default"
}
