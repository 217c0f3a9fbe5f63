#!/bin/sh
# Real guests: run.sh PYTHON [pytest's arguments, or -m MODULE]. Gets what it needs where it may; skips, and says why, where it may not.
set -eu
python=$1
shift
PATH=$PATH:/usr/sbin:/sbin
packages="libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils ovmf libvirt-dev pkg-config gcc"
missing() {
    for program in libvirtd qemu-system-x86_64 qemu-img pkg-config; do
        command -v "$program" >/dev/null || return 0
    done
    ! pkg-config --exists libvirt
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
"$python" -c 'import libvirt, pycdlib' 2>/dev/null ||
    "$python" -m pip --disable-pip-version-check --no-input --quiet install 'libvirt-python>=9' 'pycdlib>=1.14'
export BULKDEPLOY_REAL_GUESTS=1
[ "${1-}" != -m ] || exec "$python" "$@"
[ $# -gt 0 ] || set -- tests/kvm
exec "$python" -m pytest "$@"
