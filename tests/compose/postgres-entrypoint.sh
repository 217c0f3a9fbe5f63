#!/bin/bash
# What the public image of PostgreSQL does at its start, as far as docker-compose.yml relies on it.
set -eu
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chown -R postgres:postgres /var/lib/postgresql /var/run/postgresql
    exec gosu postgres "$0" "$@"
fi
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    POSTGRES_PASSWORD=${POSTGRES_PASSWORD:-$(cat "$POSTGRES_PASSWORD_FILE")}
    : "${POSTGRES_USER:=postgres}" "${POSTGRES_DB:=$POSTGRES_USER}"
    mkdir -p "$PGDATA" && chmod 700 "$PGDATA"
    initdb --username "$POSTGRES_USER" --pwfile <(echo "$POSTGRES_PASSWORD") --encoding UTF8 --auth-local trust \
        --auth-host scram-sha-256
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
    pg_ctl --wait --options "-c listen_addresses=''" start
    export PGUSER=$POSTGRES_USER
    [ "$POSTGRES_DB" = postgres ] || psql --dbname postgres --set ON_ERROR_STOP=1 --command "CREATE DATABASE \"$POSTGRES_DB\""
    export PGDATABASE=$POSTGRES_DB POSTGRES_USER POSTGRES_DB
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
        *.sh) if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
        *.sql) psql --set ON_ERROR_STOP=1 --no-psqlrc --file "$file" ;;
        esac
    done
    pg_ctl --wait --mode fast stop
fi
exec "$@"
