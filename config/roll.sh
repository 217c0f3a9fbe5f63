#!/bin/sh
# Replaces the containers of services one by one, each by one of the release that .env names (BULKDEPLOY_VERSION):
#   config/roll.sh api worker sweeper
# A new one is healthy before an old one is told to end; none is killed before its time (stop_grace_period).
set -eu
for service in "$@"; do
    old=$(docker compose ps --quiet "$service")
    count=$(echo "$old" | wc -w)
    for container in $old; do
        docker compose up --detach --wait --no-deps --no-recreate --scale "$service=$((count + 1))" "$service"
        docker stop "$container" > /dev/null
        docker rm "$container" > /dev/null
    done
done
