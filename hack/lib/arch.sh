# shellcheck shell=bash
# The architectures that images are built for, and the compilers that another one than this machine's
# needs. Needs common.sh, apt.sh.

# arch_here: this machine's architecture, by the name that images have for it.
arch_here() {
	case $(uname -m) in
	x86_64) echo amd64 ;;
	aarch64) echo arm64 ;;
	*) uname -m ;;
	esac
}

# arch_machine ARCH: the kernel's name of an architecture.
arch_machine() {
	case $1 in
	amd64) echo x86_64 ;;
	arm64) echo aarch64 ;;
	*) die "unknown architecture '$1'; use amd64 or arm64" ;;
	esac
}

# arch_triple ARCH: what static programs for it are built for.
arch_triple() {
	if [ "$1" = "$(arch_here)" ]; then
		static_triple
	else
		echo "$(arch_machine "$1")-unknown-linux-gnu"
	fi
}

# arch_need ARCH: has Rust's target and Debian's cross compiler installed, where they are not there.
arch_need() {
	local triple tools sysroot
	[ "$1" != "$(arch_here)" ] || return 0
	triple=$(arch_triple "$1")
	tools=$(arch_tools "$1")
	sysroot=$(cd "$ROOT" && rustc --print sysroot)
	apt_need "$tools-gcc=gcc-${tools//_/-}" "/usr/$tools/lib/libc.a=libc6-dev-$1-cross"
	if [ ! -d "$sysroot/lib/rustlib/$triple/lib" ]; then
		step "installing Rust's target $triple"
		command -v rustup >/dev/null || die "Rust's target $triple is missing, and there is no rustup to add it"
		(cd "$ROOT" && quietly "$CACHE/logs/rustup-$1.log" rustup target add "$triple") ||
			die "Rust's target $triple cannot be had here, so there is no image for $1; build it on a machine of that architecture"
	fi
}

# arch_tools ARCH: how the tools of Debian's cross compiler begin.
arch_tools() {
	echo "$(arch_machine "$1")-linux-gnu"
}

# arch_cargo ARCH SUBCOMMAND...: cargo_static for an architecture. The names of the variables have the
# triple in them, as cargo and the crate cc look for them.
arch_cargo() {
	local triple tools upper lower
	if [ "$1" = "$(arch_here)" ]; then
		cargo_static "${@:2}"
		return
	fi
	triple=$(arch_triple "$1")
	tools=$(arch_tools "$1")
	lower=${triple//-/_}
	upper=${lower^^}
	env "CARGO_TARGET_${upper}_LINKER=$tools-gcc" "CC_$lower=$tools-gcc" "AR_$lower=$tools-ar" \
		RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
		cargo "$2" --locked --target "$triple" "${@:3}"
}

# is_static BINARY: it asks for no loader of libraries, whatever its architecture.
is_static() {
	local headers
	headers=$(readelf --program-headers --wide "$1") || die "$1 is no program"
	! grep -q INTERP <<<"$headers"
}

# arch_of BINARY: the architecture that a program is for.
arch_of() {
	case $(LC_ALL=C readelf --file-header "$1" | sed -n 's/^ *Machine: *//p') in
	*X86-64*) echo amd64 ;;
	AArch64) echo arm64 ;;
	*) die "$1 is for neither amd64 nor arm64" ;;
	esac
}

# arch_run ARCH BINARY ARGUMENT...: starts a program for an architecture, under qemu if it is another
# one than this machine's.
arch_run() {
	local arch=$1
	shift
	if [ "$arch" = "$(arch_here)" ]; then
		"$@"
	else
		apt_need "qemu-$(arch_machine "$arch")-static=qemu-user-static"
		"qemu-$(arch_machine "$arch")-static" "$@"
	fi
}
