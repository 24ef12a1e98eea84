# shellcheck shell=bash
# Provenance by SLSA 1.0: from what, by what and how the artefacts were made. Needs common.sh, jq.

# provenance_source: where the source is from.
provenance_source() {
	if [ -n "${GITHUB_REPOSITORY:-}" ]; then
		echo "git+$GITHUB_SERVER_URL/$GITHUB_REPOSITORY@${GITHUB_REF:-HEAD}"
	else
		echo "pkg:generic/reports-server@$(workspace_version)"
	fi
}

# provenance_builder: who made them: a workflow, or somebody's machine.
provenance_builder() {
	if [ -n "${GITHUB_WORKFLOW_REF:-}" ]; then
		echo "$GITHUB_SERVER_URL/$GITHUB_WORKFLOW_REF"
	else
		echo "https://reports-server.io/builders/own-machine"
	fi
}

# provenance_image: the image that this runs in, where a workflow names it in BUILD_IMAGE.
provenance_image() {
	[ -n "${BUILD_IMAGE:-}" ] || return 0
	[[ $BUILD_IMAGE =~ ^([^@]*/([^@/:]+)):([^@/:]+)@(sha256:([0-9a-f]{64}))$ ]] ||
		die "BUILD_IMAGE is '$BUILD_IMAGE'; an image is named by its tag and its digest"
	jq -nc --arg repository "${BASH_REMATCH[1]}" --arg name "${BASH_REMATCH[2]}" --arg tag "${BASH_REMATCH[3]}" \
		--arg version "${BASH_REMATCH[4]}" --arg digest "${BASH_REMATCH[5]}" '{
		uri: "pkg:oci/\($name)@\($version | @uri)?repository_url=\($repository)&tag=\($tag)",
		digest: {sha256: $digest}}'
}

# provenance_predicate BEGAN: the predicate. What decides the result is pinned in these files; a workflow also
# names the image that has the compilers.
provenance_predicate() {
	local file image pins=()
	image=$(provenance_image)
	[ -z "$image" ] || pins+=("$image")
	for file in Cargo.lock rust-toolchain.toml e2e/delivery/go.sum; do
		pins+=("$(jq -nc --arg name "$file" --arg digest "$(sha256sum "$ROOT/$file" | cut -d' ' -f1)" \
			'{name: $name, digest: {sha256: $digest}}')")
	done
	printf '%s\n' "${pins[@]}" | jq -s --arg source "$(provenance_source)" \
		--arg commit "$(git -C "$ROOT" rev-parse HEAD)" --arg builder "$(provenance_builder)" \
		--arg run "${GITHUB_RUN_ID:-}" --arg began "$1" --arg ended "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
		--arg rust "$(cd "$ROOT" && rustc --version)" --arg go "$(go version)" '{
		buildDefinition: {
			buildType: "https://reports-server.io/builds/release/v1",
			externalParameters: {source: $source, command: "hack/release"},
			internalParameters: {rust: $rust, go: $go},
			resolvedDependencies: ([{uri: $source, digest: {gitCommit: $commit}}] + .)},
		runDetails: {
			builder: {id: $builder},
			metadata: ({startedOn: $began, finishedOn: $ended}
				+ if $run == "" then {} else {invocationId: $run} end)}}'
}

# provenance_statement PREDICATE FILE...: the statement about these files.
provenance_statement() {
	local predicate=$1
	shift
	sha256sum "$@" | jq -R 'capture("^(?<digest>[0-9a-f]{64}) [ *](?<path>.*)$")
		| {name: (.path | split("/") | last), digest: {sha256: .digest}}' |
		jq -s --slurpfile predicate "$predicate" '{
			_type: "https://in-toto.io/Statement/v1", subject: .,
			predicateType: "https://slsa.dev/provenance/v1", predicate: $predicate[0]}'
}

# provenance_holds STATEMENT FOLDER: each subject is in the folder with its digest, and the source is this
# commit.
provenance_holds() {
	local commit
	commit=$(git -C "$ROOT" rev-parse HEAD)
	jq -r '.subject[] | "\(.digest.sha256)  \(.name)"' "$1" |
		(cd "$2" && quietly "$CACHE/logs/provenance.log" sha256sum --check --strict)
	jq -e --arg commit "$commit" '.predicate.buildDefinition.resolvedDependencies
		| any(.digest.gitCommit == $commit)' "$1" >/dev/null || die "$1 does not name the commit $commit"
}
