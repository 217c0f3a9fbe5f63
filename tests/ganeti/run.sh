#!/bin/bash
# Runs the tests on a virtual Ganeti cluster: run.sh PYTHON NODES [-m MODULE ARGUMENTS...], or another module beside it.
# Installs Ganeti where it is root on Debian.
set -euo pipefail
python=$(realpath --no-symlinks "$1") nodes=$2
shift 2
if [ $# = 0 ]; then set -- -m pytest tests/ganeti; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "skipped: a virtual Ganeti cluster needs root on Debian"
    exit 0
fi
packages=(ganeti ganeti-haskell-3.0 ganeti-htools-3.0 ganeti-os-noop socat iproute2)
installed=$(dpkg-query --show --showformat '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null | grep --count '^installed$' || true)
if [ "$installed" != ${#packages[@]} ]; then
    apt-get install --yes --no-install-recommends "${packages[@]}" || { echo "skipped: no packages of Ganeti"; exit 0; }
fi
directory=$(mktemp --directory)
chmod 755 "$directory"  # daemons of Ganeti run as users of their own
trap 'rm -rf "$directory"' EXIT
export GANETI_CLUSTER="$directory/cluster" GANETI_ALLOCATOR="$(dirname "$python")/bulkdeploy-iallocator"
"$(dirname "$0")/cluster.sh" "$nodes" "$GANETI_CLUSTER" \
    bash -c 'cd "$1"; shift; exec "$@"' bash "$PWD" "$python" "$@"
