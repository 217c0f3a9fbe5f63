"""The commands as OpenAPI 3.1. Anyone may read it, because it contains only public documentation."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

import orjson
from flask import Flask, Response

from bulkdeploy.api.envelope import JSON_TYPE, SECURITY_HEADERS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.openapi import openapi

DESCRIPTION = "/client/api/openapi.json"


def add_description(app: Flask, commands: Mapping[str, Command]) -> None:
    """Serve the OpenAPI description, which is created at the first request for it."""

    @cache
    def description() -> bytes:
        return orjson.dumps(openapi(commands.values(), version("bulkdeploy")))

    def answer() -> Response:
        return Response(description(), headers=SECURITY_HEADERS, content_type=JSON_TYPE)

    app.add_url_rule(DESCRIPTION, DESCRIPTION, answer, methods=["GET"], provide_automatic_options=False)
