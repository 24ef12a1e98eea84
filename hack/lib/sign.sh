# shellcheck shell=bash
# Signatures by cosign: with a throw-away key, which needs nothing but this machine, or with the identity
# that a workflow has. Needs common.sh, tools.sh.

# sign_with_key FOLDER: everything is signed with a new key, which is never used again. FOLDER keeps it.
sign_with_key() {
	COSIGN=$(cosign_program)
	export COSIGN_PASSWORD=
	quietly "$CACHE/logs/cosign.log" "$COSIGN" generate-key-pair --output-key-prefix "$1/throw-away"
	SIGN_FLAGS=(--key "$1/throw-away.key" --tlog-upload=false --use-signing-config=false --yes)
	VERIFY_FLAGS=(--key "$1/throw-away.pub" --insecure-ignore-tlog=true)
}

# sign_with_identity: everything is signed with the identity of this workflow, for which it gets a
# certificate of minutes; the signature is in the public log.
sign_with_identity() {
	COSIGN=$(cosign_program)
	SIGN_FLAGS=(--yes)
	VERIFY_FLAGS=(--certificate-identity "$(sign_identity)"
		--certificate-oidc-issuer https://token.actions.githubusercontent.com)
}

# sign_identity: the identity that the workflow of releases has.
sign_identity() {
	echo "${GITHUB_SERVER_URL:?}/${GITHUB_WORKFLOW_REF:?}"
}

# sign_file FILE: FILE.sigstore.json is its signature, which is verified.
sign_file() {
	quietly "$CACHE/logs/cosign.log" "$COSIGN" sign-blob "${SIGN_FLAGS[@]}" --bundle "$1.sigstore.json" "$1"
	quietly "$CACHE/logs/cosign.log" "$COSIGN" verify-blob "${VERIFY_FLAGS[@]}" --bundle "$1.sigstore.json" "$1"
}

# sign_refuses FILE: a changed file does not pass by the signature of the file.
sign_refuses() {
	local changed
	changed=$(mktemp)
	cat "$1" - >"$changed" <<<changed
	! "$COSIGN" verify-blob "${VERIFY_FLAGS[@]}" --bundle "$1.sigstore.json" "$changed" >/dev/null 2>&1 ||
		die "the signature of $1 is accepted for another file"
	rm "$changed"
}

# sign_image IMAGE: signs what a registry has, by its digest, and verifies that.
sign_image() {
	quietly "$CACHE/logs/cosign.log" "$COSIGN" sign "${SIGN_FLAGS[@]}" "$1"
	quietly "$CACHE/logs/cosign.log" "$COSIGN" verify "${VERIFY_FLAGS[@]}" "$1"
}

# sign_statement IMAGE TYPE PREDICATE: signs what PREDICATE says about an image, and verifies that.
sign_statement() {
	quietly "$CACHE/logs/cosign.log" "$COSIGN" attest "${SIGN_FLAGS[@]}" --type "$2" --predicate "$3" "$1"
	quietly "$CACHE/logs/cosign.log" "$COSIGN" verify-attestation "${VERIFY_FLAGS[@]}" --type "$2" "$1"
}
