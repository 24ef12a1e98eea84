# shellcheck shell=bash
# Writes images without a container engine: one layer, an OCI archive. Needs common.sh, jq.

# oci_image ARCHIVE NAME ROOTFS CONFIG: ROOTFS (a directory) becomes an image called
# NAME in the file ARCHIVE; CONFIG is the JSON of the image's "config" object
# (Entrypoint, User, Env ...). The same input gives the same bytes.
oci_image() {
	local archive=$1 name=$2 rootfs=$3 config=$4 tmp diff_id layer manifest
	tmp=$(mktemp -d)
	mkdir -p "$tmp/blobs/sha256"
	printf '{"imageLayoutVersion":"1.0.0"}' >"$tmp/oci-layout"

	oci_tar "$rootfs" >"$tmp/layer.tar"
	diff_id=$(oci_digest "$tmp/layer.tar")
	gzip -n -9 "$tmp/layer.tar"
	layer=$(oci_blob "$tmp" "$tmp/layer.tar.gz" application/vnd.oci.image.layer.v1.tar+gzip)

	jq -n --argjson config "$config" --arg id "$diff_id" --arg arch "$(oci_arch)" '{
		architecture: $arch, os: "linux", config: $config,
		rootfs: {type: "layers", diff_ids: [$id]}}' >"$tmp/config.json"
	config=$(oci_blob "$tmp" "$tmp/config.json" application/vnd.oci.image.config.v1+json)

	jq -n --argjson config "$config" --argjson layer "$layer" '{
		schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
		config: $config, layers: [$layer]}' >"$tmp/manifest.json"
	manifest=$(oci_blob "$tmp" "$tmp/manifest.json" application/vnd.oci.image.manifest.v1+json)

	# containerd names what it imports by its own annotation, other engines by the second.
	jq -n --argjson manifest "$manifest" --arg name "$name" '{
		schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
		manifests: [$manifest + {annotations: {
			"io.containerd.image.name": $name,
			"org.opencontainers.image.ref.name": $name}}]}' >"$tmp/index.json"

	mkdir -p "$(dirname "$archive")"
	(cd "$tmp" && oci_tar . oci-layout index.json blobs) >"$archive.part"
	mv "$archive.part" "$archive"
	rm -rf "$tmp"
}

# oci_tar DIR [MEMBER...]: a tar that depends on nothing but names, modes and contents.
oci_tar() {
	local dir=$1
	shift
	[ "$#" -gt 0 ] || set -- .
	tar -C "$dir" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
		--format=posix --pax-option=delete=atime,delete=ctime -cf - "$@"
}

oci_digest() {
	printf 'sha256:%s' "$(sha256sum "$1" | cut -d' ' -f1)"
}

# oci_blob LAYOUT FILE MEDIATYPE: move the file among the blobs; prints its descriptor.
oci_blob() {
	local digest size
	digest=$(oci_digest "$2")
	size=$(stat -c %s "$2")
	mv "$2" "$1/blobs/sha256/${digest#sha256:}"
	jq -nc --arg type "$3" --arg digest "$digest" --argjson size "$size" \
		'{mediaType: $type, digest: $digest, size: $size}'
}

# The architecture's name among images, which is Go's.
oci_arch() {
	case $(uname -m) in
	x86_64) echo amd64 ;;
	aarch64) echo arm64 ;;
	*) uname -m ;;
	esac
}
