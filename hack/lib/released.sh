# shellcheck shell=bash
# What was released before this commit. Needs common.sh.

# released_tag: the newest release before this commit; nothing where there is none.
released_tag() {
	git -C "$ROOT" describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null || :
}

# released_crd: the CRD that the test upgrade_safety holds this one against is that of the release before.
# Nothing else would tell that it was edited, or left behind.
released_crd() {
	local tag fixture=crds/tests/fixtures/last-release.yaml crd=manifests/crd/reports-server.io_reportsservers.yaml
	tag=$(released_tag)
	[ -n "$tag" ] || return 0
	# Each has a comment of its own at the top.
	diff -u --label "$tag:$crd" --label "$fixture" <(git -C "$ROOT" show "$tag:$crd" | sed '/^#/d') \
		<(sed '/^#/d' "$ROOT/$fixture") >&2 ||
		die "$fixture is not the CRD of $tag, the release before; put 'git show $tag:$crd' in its place"
}
