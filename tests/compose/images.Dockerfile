# Stand-ins for the public images that docker-compose.yml names, for machines that reach Debian's packages and no
# registry of images: the same programs under the same names, users and paths. Each target is one image.

FROM bulkdeploy-debian AS base
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
ENV DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8

FROM base AS python
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/bin/python3 /usr/local/bin/python
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
CMD ["python3"]

FROM base AS postgres
RUN groupadd --system --gid 999 postgres && useradd --system --uid 999 --gid 999 --home-dir /var/lib/postgresql postgres \
    && apt-get update && apt-get install -y --no-install-recommends postgresql gosu && rm -rf /var/lib/apt/lists/* \
    && rm -rf /var/lib/postgresql /var/run/postgresql \
    && install -d -o postgres -g postgres /var/lib/postgresql /var/run/postgresql /docker-entrypoint-initdb.d \
    && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/
ENV PGDATA=/var/lib/postgresql/18/docker
VOLUME /var/lib/postgresql
COPY postgres-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
ENTRYPOINT ["docker-entrypoint.sh"]
STOPSIGNAL SIGINT
EXPOSE 5432
CMD ["postgres"]

FROM base AS redis
RUN groupadd --system --gid 999 redis && useradd --system --uid 999 --gid 999 redis \
    && apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/* \
    && install -d -o redis -g redis /data
WORKDIR /data
VOLUME /data
EXPOSE 6379
CMD ["redis-server"]

FROM base AS caddy
RUN apt-get update && apt-get install -y --no-install-recommends caddy && rm -rf /var/lib/apt/lists/*
ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data
WORKDIR /srv
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
