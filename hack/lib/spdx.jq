# A bill of material in SPDX 2.3 out of one in CycloneDX, with the same packages and dependencies.
def id: "SPDXRef-Package-" + ("\(.name)-\(.version)" | gsub("[^A-Za-z0-9.-]"; "-"));
def licence: [(.licenses // [])[] | .expression // .license.id // empty] | first // "NOASSERTION";
def package: {
	SPDXID: id, name, versionInfo: .version,
	downloadLocation: "NOASSERTION", filesAnalyzed: false,
	licenseConcluded: "NOASSERTION", licenseDeclared: licence, copyrightText: "NOASSERTION",
	checksums: [(.hashes // [])[] | {algorithm: (.alg | gsub("-"; "")), checksumValue: .content}],
	externalRefs: (if .purl then [{
		referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: .purl}] else [] end)
};
.metadata.component as $root
| ([$root] + (.components // [])) as $all
| ($all | map({key: .["bom-ref"], value: id}) | from_entries) as $ids
| {
	spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT",
	name: "\($root.name)-\($root.version)",
	documentNamespace: "https://spdx.org/spdxdocs/\($root.name)-\($root.version)-\($commit)",
	creationInfo: {created: $created, creators: ["Tool: \($tool)"]},
	packages: ($all | map(package) | unique_by(.SPDXID)),
	relationships: ([{
		spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: ($root | id)}]
	+ [.dependencies[]? | .ref as $from | (.dependsOn // [])[]
		| select($ids[$from] and $ids[.])
		| {spdxElementId: $ids[$from], relationshipType: "DEPENDS_ON", relatedSpdxElement: $ids[.]}])
}
