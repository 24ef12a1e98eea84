# shellcheck shell=bash
# The arguments of hack/demo, and what they need. Needs common.sh.

# has NAME ARGUMENT...: whether --NAME is among the arguments, with or without a value.
has() {
	local name=--$1 argument
	shift
	for argument in "$@"; do
		case $argument in
		"$name" | "$name="*) return 0 ;;
		esac
	done
	return 1
}

# value_of NAME ARGUMENT...: the last value of --NAME among the arguments; nothing where there is none.
value_of() {
	local name=--$1 value='' before='' argument
	shift
	for argument in "$@"; do
		case $argument in
		"$name="*) value=${argument#*=} ;;
		*) [ "$before" != "$name" ] || value=$argument ;;
		esac
		before=$argument
	done
	printf '%s' "$value"
}

# fits_cluster ARGUMENT...: ends with a sentence where the demo cannot be run on the cluster of
# --kubeconfig, before anything is built. The demo itself looks closer.
fits_cluster() {
	local file loader
	file=$(value_of kubeconfig "$@")
	loader=$(value_of image-loader "$@")
	! has keep "$@" && [ "$(value_of from "$@")" != incumbent ] ||
		die "--keep and --from incumbent are for the demo's own cluster, without --kubeconfig"
	case $loader in
	kind | k3d | minikube)
		command -v "$loader" >/dev/null || die "--image-loader $loader needs the program $loader in PATH"
		;;
	none) ;;
	'') ! has image-loader "$@" || die "--image-loader needs one of kind, k3d, minikube and none" ;;
	*) die "unknown image loader '$loader'; known are kind, k3d, minikube and none" ;;
	esac
	[ -n "$file" ] || die "--kubeconfig needs a file"
	[ -f "$file" ] && [ -r "$file" ] || die "there is no file $file that can be read"
	command -v kubectl >/dev/null || die "--kubeconfig needs the program kubectl in PATH"
	kubectl --kubeconfig "$file" --request-timeout=20s get --raw /version >/dev/null 2>&1 ||
		die "the cluster of $file does not answer: kubectl --kubeconfig $file version says why"
	kubectl --kubeconfig "$file" --request-timeout=20s auth can-i '*' '*' --all-namespaces >/dev/null 2>&1 ||
		die "the user of $file may not do everything in the cluster, as cluster-admin may"
}
