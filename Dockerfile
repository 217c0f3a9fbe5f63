# One image for every program of the service: bulkdeploy api | worker | sweeper | db upgrade.
# Every dependency is downloaded with its hash checked; the image gets only what runs in production
# (no embedded servers, no developer tools).
# --build-arg EXTRA=opentelemetry: with the packages of that extra, which have a lock file of their own.

# The base image is python:3.13.15-slim-trixie, by its digest: the tag may name another image tomorrow. To move to a newer
# one, `docker buildx imagetools inspect python:3.13-slim` shows the digest to write here.
# --build-arg IMAGE_BASE=IMAGE: another base image with Python 3.13, such as one from a registry of your own.

ARG IMAGE_BASE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${IMAGE_BASE} AS build
ARG EXTRA=
WORKDIR /source
COPY config/image.lock config/image-opentelemetry.lock ./
RUN pip download --no-cache-dir --require-hashes --dest /wheels --requirement image${EXTRA:+-$EXTRA}.lock
COPY pyproject.toml README.md LICENSE ./
COPY bulkdeploy ./bulkdeploy
COPY workers ./workers
COPY config ./config
RUN python -m venv /opt/bulkdeploy \
    && /opt/bulkdeploy/bin/pip install --no-cache-dir --no-index --find-links /wheels --no-compile ".${EXTRA:+[$EXTRA]}" \
    && /opt/bulkdeploy/bin/pip uninstall --yes pip \
    && python -m compileall -q /opt/bulkdeploy/lib

FROM ${IMAGE_BASE}
RUN groupadd --system --gid 10001 bulkdeploy \
    && useradd --system --uid 10001 --gid 10001 --create-home --home-dir /var/lib/bulkdeploy bulkdeploy
COPY --from=build /opt/bulkdeploy /opt/bulkdeploy
ENV PATH=/opt/bulkdeploy/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    BULKDEPLOY_DATA_DIR=/var/lib/bulkdeploy \
    BULKDEPLOY_LISTEN=0.0.0.0:8080
USER 10001:10001
WORKDIR /var/lib/bulkdeploy
EXPOSE 8080
ENTRYPOINT ["bulkdeploy"]
CMD ["api"]
