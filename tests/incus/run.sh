#!/bin/bash
# Real containers: run.sh PYTHON [pytest's arguments, or -m MODULE]. Gets what it needs where it may; skips, and says why, where it may not.
set -euo pipefail
python=$(realpath --no-symlinks "$1"); shift
skip() { echo "skipped: $1"; exit 0; }
[ "$(id -u)" = 0 ] || skip "a cluster of Incus needs root"
packages=(incus-base incus-client dnsmasq-base busybox-static openssl iproute2)
installed=$(dpkg-query --show --showformat '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep --count '^installed$' || true)
if [ "$installed" != ${#packages[@]} ]; then
    command -v apt-get > /dev/null || skip "install Incus 6.0, dnsmasq and a static busybox"
    release=()
    if [ -z "$(apt-cache search --names-only '^incus-base$')" ] && grep --quiet bookworm /etc/os-release; then
        mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -1)
        echo "deb $mirror bookworm-backports main" > /etc/apt/sources.list.d/backports.list
        apt-get update
    fi
    [ -z "$(apt-cache madison incus-base | grep backports)" ] || release=(--target-release bookworm-backports)
    apt-get install --yes --no-install-recommends "${release[@]}" "${packages[@]}" ||
        skip "no packages of Incus: Debian 13 has them, Debian 12 in bookworm-backports"
fi
directory=$(mktemp --directory)
chmod 711 "$directory"  # containers run as users of their own
trap 'rm -rf "$directory"' EXIT
[ $# -gt 0 ] || set -- tests/incus
[ "$1" = -m ] || set -- -m pytest "$@"
"$(dirname "$0")/cluster.sh" 2 "$directory/cluster" "$python" "$@"
