#!/bin/sh
# Sees to a Docker engine with Compose and to base images, then runs tests.compose. Uses the engine that is here; as root
# on Debian it installs one and ends it again; elsewhere it says that it can not, and nothing has failed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=$1
shift

skip() {
    echo "test-compose: skipped: $1"
    exit 0
}

on_debian_as_root() {
    [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get > /dev/null
}

if ! docker info > /dev/null 2>&1; then
    on_debian_as_root || skip "no Docker engine answers (as root on Debian one would be installed)"
    command -v dockerd > /dev/null || { apt-get update && apt-get install -y --no-install-recommends docker.io iptables; } \
        || skip "Debian's package docker.io can not be installed"
    place=$(mktemp -d)
    export DOCKER_HOST="unix://$place/socket"
    dockerd --data-root "$place/data" --exec-root "$place/run" --pidfile "$place/pid" --host "$DOCKER_HOST" \
        > "$place/log" 2>&1 &
    engine=$!
    trap 'kill "$engine"; wait "$engine" || true; umount "$place/run/netns/default" 2> /dev/null || true; rm -rf "$place"' EXIT
    trap 'exit 130' INT TERM
    for _ in $(seq 60); do
        docker info > /dev/null 2>&1 && break
        sleep 1
    done
    docker info > /dev/null 2>&1 || { tail "$place/log"; skip "dockerd does not run here"; }
fi
if ! docker compose version > /dev/null 2>&1; then
    on_debian_as_root || skip "docker compose is not here"
    "$here/install_compose.sh" || skip "docker compose can not be installed"
fi
for image in python:3.13-slim postgres:18 redis:8 caddy:2; do
    docker image inspect "$image" > /dev/null 2>&1 || timeout 120 docker pull --quiet "$image" 2> /dev/null && continue
    on_debian_as_root || skip "the image $image can not be had"
    command -v debootstrap > /dev/null || apt-get install -y --no-install-recommends debootstrap
    "$here/make_images.sh"
    break
done
"$python" -m tests.compose "$@"
