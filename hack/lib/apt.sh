# shellcheck shell=bash
# Installs what a fresh Debian lacks. Needs common.sh.

# apt_need PROBE=PACKAGE...: install each package whose probe is absent. A probe is
# a command's name, or an absolute path. Costs nothing when all are present.
apt_need() {
	local pair probe missing=()
	for pair in "$@"; do
		probe=${pair%%=*}
		apt_present "$probe" || missing+=("${pair#*=}")
	done
	[ "${#missing[@]}" -eq 0 ] || apt_install "${missing[@]}"
}

# System directories are looked into by name: a user's PATH often lacks sbin.
apt_present() {
	case $1 in
	/*) [ -e "$1" ] ;;
	*) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
	esac
}

apt_install() {
	command -v apt-get >/dev/null ||
		die "these Debian packages are missing and there is no apt-get to install them: $*"
	[ "$(id -u)" -eq 0 ] || die "run as root, or install these packages first: $*"
	step "installing $*"
	export DEBIAN_FRONTEND=noninteractive
	apt_update
	quietly "$CACHE/logs/apt-install.log" flock "$CACHE/.apt.lock" \
		apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@"
}

# apt_update: the package lists of a fresh machine are empty or old; one update a run is enough.
apt_update() {
	[ -z "${APT_UPDATED:-}" ] || return 0
	quietly "$CACHE/logs/apt-update.log" flock "$CACHE/.apt.lock" \
		apt-get -o DPkg::Lock::Timeout=600 -o APT::Update::Error-Mode=any update
	APT_UPDATED=1
}
