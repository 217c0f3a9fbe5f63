"""The OpenAPI 3.1 description of all commands. Callers need no credentials to read it."""

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
    """Add the path that returns the OpenAPI description. The description is created at the first request."""

    @cache
    def description() -> bytes:
        return orjson.dumps(openapi(commands.values(), version("bulkdeploy")))

    def answer() -> Response:
        return Response(description(), headers=SECURITY_HEADERS, content_type=JSON_TYPE)

    app.add_url_rule(DESCRIPTION, DESCRIPTION, answer, methods=["GET"], provide_automatic_options=False)
