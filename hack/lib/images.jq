# A bill of material in CycloneDX of an image of files alone: the images that the files name, which come in
# as lines.
def parts:
	if contains("@") then capture("^(?<name>[^@]+)@(?<version>.+)$")
	else capture("^(?<name>.+):(?<version>[^/:]+)$") end;
def purl:
	"pkg:oci/" + (.name | split("/") | last)
	+ (if .version | startswith("sha256:")
		then "@" + (.version | @uri) + "?repository_url=" + .name
		else "?repository_url=" + .name + "&tag=" + .version end);
def component:
	parts | {type: "container", "bom-ref": (.name + "@" + .version), name: .name, version: .version, purl: purl};
[inputs | component] as $images
| {
	bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
	metadata: {
		timestamp: $created,
		component: {
			type: "container", "bom-ref": $name, name: $name, version: $version,
			licenses: [{expression: "Apache-2.0"}]}},
	components: $images,
	dependencies: [{ref: $name, dependsOn: [$images[]["bom-ref"]]}]
}
