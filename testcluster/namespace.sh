# First process of a cluster's namespaces (network, mounts, processes). It sets them up,
# starts the agent and waits for it; when it ends, the kernel ends every process of the
# cluster, and with the last one its devices, nftables and mounts.
#   sh -eu namespace.sh CLUSTER_BINARY STATE_DIRECTORY
exec 3<&0 # a background job's standard input is /dev/null unless it is given one

# Paths that are fixed in containerd, libcni and the kubelet: each cluster gets its own.
for dir in /run/containerd /var/lib/cni /var/log/containers; do
	mkdir -p "$dir"
	mount -t tmpfs -o mode=755 tmpfs "$dir"
done

# Not every kernel has dummy devices: an empty bridge carries the addresses of the node
# and of the kube-apiservers as well.
ip link set lo up
ip link add node0 type bridge
ip address add 10.200.0.1/24 dev node0
for i in 0 1 2 3 4; do
	ip address add "10.200.0.1$i/24" dev node0
done
ip link set node0 up
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward

"$1" agent "$2" <&3 3<&- &
exec 3<&-
wait $! || echo "the agent ended with $?"
