# shellcheck shell=bash
# Objects of kinds that others define, held against the CRDs of these. Needs common.sh and tools.sh.

# module_folder OURS MODULE: the folder of a Go module, in the version that our module e2e/OURS pins.
module_folder() {
	local found
	command -v go >/dev/null || die "Go is needed to fetch $2; install it from https://go.dev/dl/"
	found=$(cd "$ROOT/e2e/$1" && go mod download -json "$2") || die "cannot fetch $2: $found"
	sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$found" | grep . || die "$2 has no folder: $found"
}

# crds_hold CRD... -- FILE...: each object in the files is as its CRD has it, and has no field that it lacks.
# One without metadata is a patch, of each object of its kind that was named before.
crds_hold() {
	local validate
	validate=$(validate_program)
	"$(dirname "$validate")/python3" - "$@" <<'PY'
import sys

import yaml
from jsonschema import Draft202012Validator

# Kinds of Kubernetes, and one that comes with no Go module.
WITHOUT = {"ConfigMap", "Namespace", "GitRepository"}
# What a CRD need not say.
TOP = {"apiVersion": {}, "kind": {}, "metadata": {}}


def documents(path):
    with open(path, encoding="utf-8") as file:
        return [one for one in yaml.safe_load_all(file) if one]


def strict(schema):
    schema = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = strict(schema[key])
    if "properties" in schema:
        schema["properties"] = {name: strict(one) for name, one in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    if schema.get("nullable") and "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return schema


split = sys.argv.index("--")
schemas = {}
for path in sys.argv[1:split]:
    for crd in documents(path):
        spec = crd["spec"]
        for version in spec["versions"]:
            kind = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"] = TOP | schema["properties"]
            schemas[kind] = schema


def merged(value, patch):
    if not isinstance(value, dict) or not isinstance(patch, dict):
        return patch
    return value | {key: merged(value.get(key), one) for key, one in patch.items()}


faults, held, named = [], 0, []


def hold(path, schema, one):
    errors = Draft202012Validator(schema).iter_errors(one)
    faults.extend(f"{path}: {error.json_path}: {error.message}" for error in errors)


for path in sys.argv[split + 1 :]:
    for one in documents(path):
        kind = (one["apiVersion"], one["kind"])
        schema = schemas.get(kind)
        if schema is not None and "metadata" not in one:
            of = [other for other in named if (other["apiVersion"], other["kind"]) == kind]
            if not of:
                faults.append(f"{path}: there is no {one['kind']} to patch")
            for other in of:
                hold(path, schema, merged(other, one))
        elif schema is not None:
            held += 1
            named.append(one)
            hold(path, schema, one)
        elif one["kind"] not in WITHOUT:
            faults.append(f"{path}: there is no CRD of {one['kind']}")
if not held:
    faults.append("no object has a CRD")
if faults:
    sys.exit("\n".join(faults))
PY
}
