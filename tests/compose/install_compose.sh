#!/bin/sh
# Compose's plugin for Docker, from the first Debian release that has it; nothing of the machine's own sources changes.
set -eu
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > "$apt/sources"
set -- -o "Dir::Etc::SourceList=$apt/sources" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$apt/lists" \
    -o "Dir::Cache=$apt/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root
cd "$apt"
apt-get "$@" update
apt-get "$@" download docker-compose
dpkg --extract docker-compose_*.deb plugin
install -D plugin/usr/libexec/docker/cli-plugins/docker-compose "${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins/docker-compose"
