# shellcheck shell=bash
# Bills of material: of the binaries, from Cargo.lock, and of images of files, from the images that they
# name. Needs common.sh, tools.sh, jq.

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
		sbom_spdx "$out/$binary.cdx.json" "cargo-cyclonedx-$CYCLONEDX_VERSION" >"$out/$binary.spdx.json"
		sbom_complete "$source" "$binary" "$out/$binary.cdx.json" "$out/$binary.spdx.json"
	done
}

# sbom_binary FOLDER: the package of a folder, which is called as its binary.
sbom_binary() {
	sed -n '0,/^name = /s/^name = "\(.*\)"/\1/p' "$ROOT/$1/Cargo.toml"
}

# sbom_created: the time of this commit, which is that of its bills of material.
sbom_created() {
	date -u -d "@$(git -C "$ROOT" log -1 --format=%ct)" +%Y-%m-%dT%H:%M:%SZ
}

# sbom_spdx FILE TOOL: the same as SPDX 2.3. The tool is what made the file.
sbom_spdx() {
	jq --arg commit "$(git -C "$ROOT" rev-parse HEAD)" --arg created "$(sbom_created)" --arg tool "$2" \
		-f "$ROOT/hack/lib/spdx.jq" "$1"
}

# sbom_images NAME OUT IMAGE...: OUT/NAME.cdx.json and OUT/NAME.spdx.json of an image of files alone, which
# name these images.
sbom_images() {
	local name=$1 file=$2/$1
	shift 2
	[ "$#" -gt 1 ] || die "$name names too few images"
	printf '%s\n' "$@" | jq -Rn --arg name "$name" --arg version "$(workspace_version)" \
		--arg created "$(sbom_created)" -f "$ROOT/hack/lib/images.jq" >"$file.cdx.json"
	sbom_spdx "$file.cdx.json" "hack-release-$(workspace_version)" >"$file.spdx.json"
	[ "$(jq '.packages | length' "$file.spdx.json")" -eq $(($# + 1)) ] ||
		die "$file.spdx.json does not have $# images"
	step "$name: $# images in both bills of material"
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
