# shellcheck shell=bash
# An OCI index: one name for the images of several architectures. Needs common.sh, oci.sh, jq.

# oci_index ARCHIVE NAME IMAGE...: the archives of oci_image become one archive, whose only entry is an
# index of them called NAME. The same input gives the same bytes.
oci_index() {
	local archive=$1 name=$2 tmp image descriptors=() index
	shift 2
	tmp=$(mktemp -d)
	mkdir -p "$tmp/layout"
	for image in "$@"; do
		tar -C "$tmp/layout" -xf "$image"
		descriptors+=("$(oci_platform "$tmp/layout")")
	done
	printf '%s\n' "${descriptors[@]}" | jq -s '{
		schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .}' >"$tmp/index.json"
	index=$(oci_blob "$tmp/layout" "$tmp/index.json" application/vnd.oci.image.index.v1+json)
	jq -n --argjson index "$index" --arg name "$name" '{
		schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
		manifests: [$index + {annotations: {
			"io.containerd.image.name": $name,
			"org.opencontainers.image.ref.name": $name}}]}' >"$tmp/layout/index.json"
	mkdir -p "$(dirname "$archive")"
	(cd "$tmp/layout" && oci_tar . oci-layout index.json blobs) >"$archive.part"
	mv "$archive.part" "$archive"
	rm -rf "$tmp"
}

# oci_platform LAYOUT: the descriptor of its only image, with the platform that its configuration names.
oci_platform() {
	local manifest config
	manifest=$(jq -r '.manifests[0].digest' "$1/index.json")
	config=$(jq -r .config.digest "$1/blobs/sha256/${manifest#sha256:}")
	jq -c --slurpfile config "$1/blobs/sha256/${config#sha256:}" '.manifests[0]
		| {mediaType, digest, size, platform: ($config[0] | {architecture, os})}' "$1/index.json"
}

# oci_index_digest ARCHIVE: the digest by which a registry has the archive's only entry.
oci_index_digest() {
	tar -xOf "$1" index.json | jq -er '.manifests | if length == 1 then .[0].digest else error("one entry expected") end'
}
