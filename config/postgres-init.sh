#!/bin/sh
# Runs once, in an empty volume: the role of bulkdeploy, which owns its databases and is nothing else.
set -eu
psql --username postgres --set ON_ERROR_STOP=1 --set password="$(cat /run/secrets/database_password)" <<'END'
CREATE ROLE bulkdeploy LOGIN PASSWORD :'password';
CREATE DATABASE bulkdeploy OWNER bulkdeploy;
CREATE DATABASE bulkdeploy_simulator OWNER bulkdeploy;
END
