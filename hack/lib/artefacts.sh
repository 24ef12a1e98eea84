# shellcheck shell=bash
# The manifests and the notes of a release: those of the repository, with digests in place of tags. Needs
# common.sh, tools.sh.

# with_digests FILE IMAGE...: the text, with our images of this version by their digests. Each is
# NAME@DIGEST, without the registry.
with_digests() {
	local registry version image edits=()
	registry=$(image_registry)
	version=$(workspace_version)
	for image in "${@:2}"; do
		edits+=(-e "s|$registry/${image%%@*}:$version|$registry/$image|g")
	done
	sed "${edits[@]}" "$1"
}

# chart_with_digests FOLDER OPERATOR SERVER OUT: the packaged chart, whose values have these digests.
chart_with_digests() {
	local folder=$1 chart=$1/reports-server-operator helm
	helm=$(helm_program)
	mkdir -p "$folder"
	cp -r "$ROOT/manifests/helm/reports-server-operator" "$folder/"
	with_digests "$chart/Chart.yaml" "reports-server-operator@$2" "reports-server@$3" >"$folder/Chart.yaml"
	mv "$folder/Chart.yaml" "$chart/Chart.yaml"
	awk -v operator="$2" -v server="$3" '
		/^  [a-z]+:$/ {part = $1}
		/^    digest: ""$/ && part == "operator:" {$0 = "    digest: " operator}
		/^    digest: ""$/ && part == "server:" {$0 = "    digest: " server}
		{print}' "$chart/values.yaml" >"$folder/values.yaml"
	mv "$folder/values.yaml" "$chart/values.yaml"
	quietly "$CACHE/logs/helm.log" "$helm" lint --strict "$chart"
	quietly "$CACHE/logs/helm.log" "$helm" package "$chart" --destination "$4"
}

# own_images: the images of our registry in what comes in, one a line.
own_images() {
	grep -oE "$(image_registry | sed 's/[.]/\\./g')/[a-z-]+[:@][A-Za-z0-9:._-]+" | LC_ALL=C sort -u
}

# by_digest_alone IMAGE...: what comes in names these images of ours by their digests, and no other. Each
# is NAME@DIGEST, without the registry.
by_digest_alone() {
	local expected found registry
	registry=$(image_registry)
	expected=$(printf '%s\n' "${@/#/$registry/}" | LC_ALL=C sort)
	found=$(own_images) || :
	[ "$found" = "$expected" ] || die "images of the release are expected by digest, and there are: ${found//$'\n'/, }"
}

# notes_of HEADING: the section of CHANGELOG.md below that heading, without it.
notes_of() {
	awk -v heading="## [$1]" 'index($0, heading) == 1 {on = 1; next} /^## / {on = 0} on' "$ROOT/CHANGELOG.md" |
		sed -e '/./,$!d'
}

# absolute_links: the text that comes in; its links into the repository lead to this version of it.
absolute_links() {
	if [ -n "${GITHUB_REPOSITORY:-}" ]; then
		sed -E "s#\]\(((docs|manifests|hack|README|CONTRIBUTING|SECURITY|CHANGELOG)[^):]*)\)#](${GITHUB_SERVER_URL:?}/$GITHUB_REPOSITORY/blob/v$(workspace_version)/\1)#g"
	else
		cat
	fi
}
