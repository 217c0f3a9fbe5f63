#!/bin/sh
# Guests on a real Ceph: run.sh PYTHON [pytest's arguments]. Gets what it needs where it may; skips, and says why, where it may not.
set -eu
PATH=$PATH:/usr/sbin:/sbin
packages="ceph-mon ceph-mgr ceph-osd ceph-common qemu-block-extra"
missing() {
    for program in ceph-mon ceph-mgr ceph-osd ceph rbd; do
        command -v "$program" >/dev/null || return 0
    done
    ! ls /usr/lib/*/qemu/block-rbd.so >/dev/null 2>&1 && ! qemu-img --help 2>/dev/null | grep -qw rbd
}
if missing; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "skipped: install $packages (or what your distribution calls them)"
        exit 0
    fi
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    if ! { apt-get update -qq && apt-get install -qq -y --no-install-recommends $packages; } >/dev/null 2>&1; then
        echo "skipped: apt-get could not install $packages"
        exit 0
    fi
fi
python=$1
shift
[ $# -gt 0 ] || set -- tests/ceph
exec tests/kvm/run.sh "$python" "$@"
