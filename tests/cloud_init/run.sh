#!/bin/sh
# Renders network configurations with cloud-init of several Debian releases: run.sh PYTHON [pytest's arguments].
# It unpacks the packages into a folder of its own and installs nothing on the machine.
set -eu
python=$(realpath --no-symlinks "$1")
shift
skip() { echo "skipped: $1"; exit 0; }
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || skip "cloud-init comes from Debian's packages"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || skip "the package debian-archive-keyring is not here"
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian/*$' | head -n 1) || true
[ -n "$mirror" ] || skip "no mirror of Debian is configured; run apt-get update"
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
for suite in bullseye bookworm trixie; do
    state=$folder/apt-$suite
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$folder/releases/$suite"
    echo "deb [signed-by=$keyring] $mirror $suite main" > "$state/sources.list"
    set_options="-o Dir::Etc::SourceList=$state/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::Cache=$state/cache"
    set_options="$set_options -o Dir::State::Lists=$state/lists -o Dir::State::status=/dev/null -o Acquire::Languages=none"
    # shellcheck disable=SC2086
    (cd "$state" && apt-get $set_options update -qq && apt-get $set_options download -qq cloud-init) > "$state/log" 2>&1 ||
        skip "cloud-init of $suite cannot be downloaded: $(tail -n 1 "$state/log")"
    dpkg-deb -x "$state"/cloud-init_*.deb "$folder/releases/$suite"
done
"$python" -m venv "$folder/python"
# What cloud-init imports; bullseye's needs six, jsonpatch and netifaces, too.
"$folder/python/bin/python" -m pip --disable-pip-version-check --quiet install \
    PyYAML jinja2 jsonschema configobj requests oauthlib pyserial netifaces six jsonpatch || skip "Python packages cannot be had"
[ $# -gt 0 ] || set -- tests/cloud_init
CLOUD_INIT_RELEASES=$folder/releases CLOUD_INIT_PYTHON=$folder/python/bin/python "$python" -m pytest "$@"
