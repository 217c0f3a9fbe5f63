#!/bin/sh
# Makes the stand-ins of images.Dockerfile where the engine has no images of these names. Needs Debian, root and debootstrap.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
have() { docker image inspect "$1" > /dev/null 2>&1; }

if ! have bulkdeploy-debian; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    debootstrap --variant=minbase --include=ca-certificates trixie "$root/debian" > "$root/log" 2>&1 \
        || { tail "$root/log"; exit 1; }
    rm -rf "$root"/debian/var/cache/apt/archives/*.deb
    tar --create --directory "$root/debian" . | docker import - bulkdeploy-debian > /dev/null
fi
context=$(mktemp -d)
cp "$here/images.Dockerfile" "$here/postgres-entrypoint.sh" /etc/ssl/certs/ca-certificates.crt "$context"
for image in python:3.13-slim postgres:18 redis:8 caddy:2; do
    have "$image" || docker build --quiet --network host --file "$context/images.Dockerfile" \
        --target "${image%%:*}" --tag "$image" "$context"
done
rm -rf "$context"
