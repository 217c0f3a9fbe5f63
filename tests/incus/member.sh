#!/bin/bash
# The first process of a member: runs its daemon, and again when it has ended. Usage: member.sh N DIRECTORY
set -u
number=$1 root=$2
control=$(mktemp --directory)
mount --rbind /sys/fs/cgroup "$control"
mount -t sysfs sysfs /sys
mount --rbind "$control" /sys/fs/cgroup
mount -t tmpfs tmpfs /run
export INCUS_DIR="$root/$number" PATH="$PATH:/usr/sbin:/sbin:/usr/libexec/incus"
while true; do
    incusd &
    echo $! > "$root/$number.daemon"
    wait $!
    while [ -e "$root/$number.hold" ]; do sleep 0.1; done
done
