#!/bin/bash
# Runs a command beside a virtual Ganeti cluster: nodes as directories, fake hypervisor, in namespaces of its own.
# Usage: cluster.sh NODES DIRECTORY COMMAND...   Needs root and the packages of run.sh.
set -Eeuo pipefail
nodes=$1 root=$2 here=$(realpath "$(dirname "$0")"); shift 2

if [ -z "${GANETI_NAMESPACE:-}" ]; then  # all that runs here ends with this process
    exec env GANETI_NAMESPACE=1 unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$nodes" "$root" "$@"
fi

mkdir -p "$root"
trap 'echo "the cluster did not come up; the end of its log:" >&2; tail -n 20 "$root.log" >&2' ERR
{
    echo "127.0.0.1 localhost $(hostname)"
    echo "192.0.2.1 cluster"
    for ((i = 1; i <= nodes; i++)); do echo "192.0.2.$((9 + i)) node$i"; done
} > "$root.hosts"
mount --bind "$root.hosts" /etc/hosts
mount -t tmpfs tmpfs /dev/shm  # process ids are of these namespaces only: others would clear it as left by the dead
ip link set lo up
mount -t sysfs sysfs /sys  # Ganeti looks for bridges there
ip link add br0 type bridge
ip address add 192.0.2.1/32 dev lo 2>/dev/null || true
for ((i = 1; i <= nodes; i++)); do ip address add "192.0.2.$((9 + i))/32" dev lo; done

/usr/lib/ganeti/tools/vcluster-setup -E -N -c "$nodes" -i 1 "$root" > "$root.log" 2>&1
cd "$root"
mkdir -p "$root.shared"
for ((i = 1; i <= nodes; i++)); do  # one directory of all nodes, as of a file server
    mkdir -p "node$i/srv/ganeti"
    ln -sfn "$root.shared" "node$i/srv/ganeti/shared"
    echo /srv/ganeti/shared > "node$i/etc/ganeti/file-storage-paths"
done
if [ -n "${GANETI_ALLOCATOR:-}" ]; then  # one more allocator program, in this namespace only
    cp --archive /usr/lib/ganeti/iallocators "$root.allocators"
    ln -sfn "$GANETI_ALLOCATOR" "$root.allocators/"
    mount --bind "$root.allocators" /usr/lib/ganeti/iallocators
fi
# Where the kernel has no DRBD: what stands in for it is read by the daemons of this namespace only.
storage=$(realpath /usr/share/ganeti/default)/ganeti/storage
cp --archive "$storage" "$root.storage"
cp "$here/files_for_drbd.py" "$root.storage/"
echo "from ganeti.storage import files_for_drbd" >> "$root.storage/bdev.py"
mount --bind "$root.storage" "$storage"
mkdir -p "$root.bin" "$root.tmp"
cat > "$root.bin/ssh" <<'END'
#!/bin/bash
while [ $# -gt 0 ] && [ "${1#-}" != "$1" ]; do shift; done
shift; exec bash -c "$*"
END
chmod +x "$root.bin/ssh"
export TMPDIR="$root.tmp" PATH="$root.bin:$PATH"  # all nodes are this machine: what Ganeti runs over ssh runs here
socat TCP-LISTEN:22,fork,reuseaddr SYSTEM:true < /dev/null > /dev/null 2>&1 &  # it waits until port 22 answers
node1() { node1/cmd "$@" >> "$root.log" 2>&1; }
ip address del 192.0.2.1/32 dev lo
node1 gnt-cluster init --no-etc-hosts --no-ssh-init --master-netdev=lo \
    --enabled-disk-templates=diskless,sharedfile --shared-file-storage-dir=/srv/ganeti/shared --enabled-hypervisors=fake \
    --ipolicy-bounds-specs=min:disk-size=0,cpu-count=1,disk-count=0,memory-size=1,nic-count=0,spindle-use=0/max:disk-size=1048576,cpu-count=8,disk-count=16,memory-size=32768,nic-count=8,spindle-use=12 \
    cluster
echo "bulkdeploy secret write" > node1/var/lib/ganeti/rapi/users
for ((i = 2; i <= nodes; i++)); do node1 gnt-node add --no-ssh-key-check "node$i"; done
trap - ERR
"$@" &  # this shell stays: process 1 collects what daemons that are killed leave
wait $!
