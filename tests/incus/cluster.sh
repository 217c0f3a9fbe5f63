#!/bin/bash
# Runs a command beside an Incus cluster of MEMBERS members on this machine, each with processes, devices and a
# network of its own; all of it ends with the command. Usage: cluster.sh MEMBERS DIRECTORY COMMAND...
# DIRECTORY/boot N boots member N, as after its power was cut.
set -euo pipefail
members=$1 root=$2; shift 2

if [ -z "${INCUS_NAMESPACE:-}" ]; then
    exec env INCUS_NAMESPACE=1 unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$members" "$root" "$@"
fi

here=$(realpath "$(dirname "$0")")
mkdir -p "$root" /run/netns
mount -t tmpfs tmpfs /run/netns
mount -t tmpfs tmpfs /dev/shm  # process ids are of these namespaces only: others would clear it as left by the dead
ip link set lo up
ip link add incuswire type bridge
ip address add 192.0.2.1/24 dev incuswire
ip link set incuswire up
for ((i = 1; i <= members; i++)); do
    mkdir -p "$root/$i"
    ip netns add "member$i"
    ip link add "wire$i" type veth peer name eth0 netns "member$i"
    ip link set "wire$i" master incuswire up
    ip -n "member$i" link set lo up
    ip -n "member$i" address add "192.0.2.$((10 + i))/24" dev eth0
    ip -n "member$i" link set eth0 up
done

cat > "$root/boot" << END
#!/bin/bash
exec nsenter --net=/run/netns/member\$1 unshare --mount --pid --fork --kill-child --mount-proc "$here/member.sh" "\$1" "$root" >> "$root/\$1.log" 2>&1
END
chmod +x "$root/boot"

member() { number=$1; shift; INCUS_DIR="$root/$number" incus "$@"; }
for ((i = 1; i <= members; i++)); do "$root/boot" "$i" & done
for ((i = 1; i <= members; i++)); do
    until [ -S "$root/$i/unix.socket" ]; do sleep 0.1; done
    INCUS_DIR="$root/$i" /usr/libexec/incus/incusd waitready --timeout 60
done
member 1 admin init --preseed << END
config: {core.https_address: "192.0.2.11:8443"}
cluster: {server_name: member1, enabled: true}
storage_pools: [{name: local, driver: dir}]
networks: [{name: guests, type: bridge, config: {ipv4.address: 10.8.0.1/16, ipv4.nat: "false", ipv6.address: none, dns.mode: none}}]
END
for ((i = 2; i <= members; i++)); do
    token=$(member 1 cluster add "member$i" | tail -1)
    member "$i" admin init --preseed << END
cluster: {enabled: true, server_address: "192.0.2.$((10 + i)):8443", cluster_token: $token}
END
done
member 1 config set cluster.offline_threshold 11
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bulkdeploy \
    -keyout "$root/client.key" -out "$root/client.crt" 2> /dev/null
member 1 config trust add-certificate "$root/client.crt" --name bulkdeploy
export INCUS_CLUSTER=$root
"$@" &  # this shell stays: process 1 collects what members that are killed leave
wait $!
