# shellcheck shell=bash
# A registry of images on this machine's loopback, for as long as a script runs. Needs common.sh, apt.sh,
# deb.sh.

# registry_start FOLDER: starts a registry that keeps everything in FOLDER. Sets REGISTRY, its address,
# and REGISTRY_PID.
registry_start() {
	local folder=$1 program log=$1/registry.log
	program=$(deb_program docker-registry /usr/bin/docker-registry)
	mkdir -p "$folder/data"
	cat >"$folder/registry.yaml" <<-EOF
		version: 0.1
		log: {level: info, accesslog: {disabled: true}}
		storage: {filesystem: {rootdirectory: $folder/data}}
		http: {addr: "127.0.0.1:0"}
	EOF
	: >"$log"
	"$program" serve "$folder/registry.yaml" >>"$log" 2>&1 &
	REGISTRY_PID=$!
	# It says which port it was given.
	REGISTRY=$(timeout 60 tail -n +1 --pid="$REGISTRY_PID" -f "$log" |
		sed -n '/listening on/{s/.*listening on \([0-9.]*:[0-9]*\).*/\1/p;q}') || :
	[ -n "$REGISTRY" ] || die "the registry did not start; its output is $(tail -n 3 "$log")"
}

# registry_stop: ends it, and waits until it has ended.
registry_stop() {
	[ -n "${REGISTRY_PID:-}" ] || return 0
	kill "$REGISTRY_PID" 2>/dev/null || :
	wait "$REGISTRY_PID" 2>/dev/null || :
	REGISTRY_PID=
}
