# One image for every program of the service: bulkdeploy api | worker | sweeper | db upgrade.
# Every dependency is downloaded with its hash checked; the image gets only what runs in production
# (no embedded servers, no developer tools).
# --build-arg EXTRA=opentelemetry: with the packages of that extra, which have a lock file of their own.

FROM python:3.13-slim AS build
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

FROM python:3.13-slim
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
