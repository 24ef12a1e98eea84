# shellcheck shell=bash
# Programs out of Debian's packages that need not be installed, such as servers that would be started by
# an installation. Needs common.sh, apt.sh.

# deb_program PACKAGE PATH: where the program is that a package has at PATH. It is fetched by apt, which
# verifies its signature, and kept in the cache.
deb_program() {
	local package=$1 program=$2 path folder
	path=$CACHE/tools/bin/${program##*/}
	if [ -x "$program" ]; then
		printf '%s\n' "$program"
		return
	fi
	if [ ! -x "$path" ]; then
		mkdir -p "$CACHE/tools/bin"
		[ "$(id -u)" -ne 0 ] || apt_update
		folder=$(mktemp -d "$CACHE/deb.XXXXXX")
		# Callers take the path by $(...), where bash does not stop at a failure.
		(cd "$folder" && apt-get -qq -o APT::Sandbox::User=root download "$package" >&2) &&
			dpkg-deb --fsys-tarfile "$folder/$package"_*.deb | tar -x -C "$folder" ".$program" &&
			mv "$folder$program" "$path"
		rm -rf "$folder"
		[ -x "$path" ] || die "$program cannot be had out of Debian's package $package"
	fi
	printf '%s\n' "$path"
}
