# shellcheck shell=bash
# Bundle and catalog for OLM: checked by OLM's own programs, and written as images. Needs common.sh,
# tools.sh, apt.sh, and for images oci.sh and index.sh.

# The operator adds a version to the CRDs of reports for as long as it needs etcd beside a switched API.
# It has no right to create a CRD, and its own is OLM's. The server has a PodDisruptionBudget.
OLM_ACCEPTED=(
	-accept 'CSV contains permissions to create CRD'
	-accept 'RBAC includes permission to create/update poddisruptionbudgets'
)
# What opm writes of a bundle that it reads from a folder, as of one that it reads from an image.
OLM_RENDER=(--migrate-level bundle-object-to-csv-metadata --output json)

# olm_kubernetes: the minor version of the newest Kubernetes that tests run on.
olm_kubernetes() {
	sed -n 's|^\tk8s.io/kubernetes v\([0-9]*\.[0-9]*\)\..*|\1|p' "$ROOT/testcluster/kubernetes/go.mod"
}

# olm_bundle_image FOLDER: the image of the bundle that the catalog offers.
olm_bundle_image() {
	sed -n 's/^image: //p' "$1/catalog/catalog.yaml"
}

# olm_check FOLDER WORK: bundle and catalog are valid, the bundle passes the tests of its scorecard, and the
# catalog is what opm makes of the bundle.
# WORK/catalog.json is the catalog as opm reads it.
olm_check() {
	local folder=$1 work=$2 opm bundle
	apt_need jq=jq python3=python3
	opm=$(opm_program)
	bundle=$(bundle_program)
	"$bundle" -kubernetes "$(olm_kubernetes)" "${OLM_ACCEPTED[@]}" "$folder/bundle" || die "the bundle is not valid"
	olm_scorecard "$folder/bundle" "$work"
	"$opm" validate "$folder/catalog" || die "the catalog is not valid"
	"$opm" render "$folder/catalog" --output json >"$work/catalog.json"
	"$opm" render "$folder/bundle" "${OLM_RENDER[@]}" \
		--alpha-image-ref-template "$(olm_bundle_image "$folder")" >"$work/bundle.json"
	olm_same "$work/catalog.json" "$work/bundle.json" || die "the catalog is not what opm makes of the bundle"
}

# olm_scorecard BUNDLE WORK: the bundle passes each test that its configuration of the scorecard has. They
# look for the bundle in /bundle, as in their pods, and ask no cluster.
olm_scorecard() {
	local root=$2/scorecard program test said
	program=$(scorecard_program)
	mkdir -p "$root/tmp"
	cp -r "$1" "$root/bundle"
	cp "$program" "$root/scorecard-test"
	while read -r test; do
		said=$(unshare --map-root-user --root "$root" /scorecard-test "$test")
		jq -e '.results | length > 0 and all(.state == "pass")' <<<"$said" >/dev/null ||
			die "the bundle fails the scorecard's test $test: $said"
	done < <(sed -n '/- scorecard-test$/{n;s/^ *- //p}' "$1/tests/scorecard/config.yaml")
}

# olm_same CATALOG BUNDLE: the catalog's entry of the bundle is what opm makes of the bundle. Releases of
# opm differ in how much they tell of a CRD; what all of them tell is compared.
olm_same() {
	python3 - "$1" "$2" <<'PY'
import difflib, json, sys

TOLD = ("description", "displayName", "kind", "name", "version")

def blobs(path):
    text, decoder = open(path).read().strip(), json.JSONDecoder()
    while text:
        blob, end = decoder.raw_decode(text)
        yield blob
        text = text[end:].strip()

def entry(path):
    (bundle,) = [blob for blob in blobs(path) if blob["schema"] == "olm.bundle"]
    bundle["relatedImages"].sort(key=lambda image: image["image"])
    for prop in bundle["properties"]:
        if prop["type"] == "olm.csv.metadata":
            owned = prop["value"]["crdDescriptions"]["owned"]
            told = [{key: crd[key] for key in TOLD} for crd in owned]
            prop["value"]["crdDescriptions"]["owned"] = told
    return json.dumps(bundle, indent=1, sort_keys=True).splitlines()

diff = list(difflib.unified_diff(*map(entry, sys.argv[1:]), "catalog", "bundle", lineterm=""))
print("\n".join(diff), file=sys.stderr)
sys.exit(bool(diff))
PY
}

# oci_arch: the architecture that oci_image writes into the image, in place of this machine's.
oci_arch() {
	echo "$arch"
}

# olm_image FOLDER CONTAINERFILE NAME ARCHIVE: the image NAME of the files that a Containerfile in FOLDER
# copies, with its labels, as an index with the same files for each architecture.
olm_image() {
	local folder=$1 file=$1/$2 name=$3 archive=$4 root from to config arch made=()
	root=$(mktemp -d)
	while read -r from to; do
		mkdir -p "$root$to"
		cp -r "$folder/$from/." "$root$to"
	done < <(sed -n 's/^COPY //p' "$file")
	# Whoever the cluster runs it as reads it.
	chmod -R u=rwX,go=rX "$root"
	config=$(sed -n 's/^LABEL //p' "$file" |
		jq -Rn '{Labels: ([inputs | capture("^(?<key>[^=]+)=(?<value>.*)$")] | from_entries)}')
	for arch in amd64 arm64; do
		oci_image "$root-$arch.tar" "$name" "$root" "$config"
		made+=("$root-$arch.tar")
	done
	oci_index "$archive" "$name" "${made[@]}"
	rm -rf "$root" "${made[@]}"
}

# olm_pin FILE IMAGE...: our images in the file by their digests, and no other of ours. Needs artefacts.sh.
olm_pin() {
	with_digests "$@" >"$1.part"
	mv "$1.part" "$1"
	by_digest_alone "${@:2}" <"$1"
}

# olm_pulled IMAGE HOME: what opm reads in an image of a registry without TLS, as JSON. HOME is an empty
# folder.
olm_pulled() {
	local opm
	opm=$(opm_program)
	mkdir -p "$2/.config/containers"
	# What is pulled was pushed from here: no policy has to say that it may be trusted.
	echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$2/.config/containers/policy.json"
	HOME=$2 "$opm" render --use-http "$1" "${OLM_RENDER[@]}"
}

# olm_edge CATALOG: a channel that offers its bundle as an upgrade of nothing, as that of the first release
# does, offers it to every earlier version: tests upgrade from a commit that stands in for a release before.
olm_edge() {
	! grep -qE '^  (replaces|skipRange): ' "$1" || return 0
	sed -i -E '/^entries:$/,/^schema: /s/^(- name: .*\.v)([0-9].*)$/\1\2\n  skipRange: <\2/' "$1"
	grep -qE '^  skipRange: <[0-9]' "$1" || die "$1 has no entry in its channel to add an edge to"
}

# olm_offer FOLDER OUT: what a cluster without a registry is offered: the files of FOLDER with the bundle by
# its digest, and OUT/bundle.tar, the image of the bundle under that name.
olm_offer() {
	local out=$2 name pinned
	mkdir -p "$out"
	cp -r "$1/." "$out/"
	name=$(olm_bundle_image "$out")
	olm_image "$out" bundle.Containerfile "$name" "$out/bundle.tar"
	pinned=${name%:*}@$(oci_index_digest "$out/bundle.tar")
	olm_image "$out" bundle.Containerfile "$pinned" "$out/bundle.tar"
	sed -i "s|$name|$pinned|g" "$out/catalog/catalog.yaml"
	olm_edge "$out/catalog/catalog.yaml"
}
