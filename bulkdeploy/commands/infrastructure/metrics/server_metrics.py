"""Metrics of the database, and of the usage server, which this service does not have."""

import platform
from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.response_fields import constant, large_number, moment, number, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.store.infrastructure.metrics.server_metrics import read_database_metrics, read_time


def list_database_metrics(call: Call) -> Mapping[str, Any]:
    """Return the metrics that PostgreSQL reports about itself."""
    return read_database_metrics(call.connection)


def list_usage_server_metrics(call: Call) -> Mapping[str, Any]:
    """Return the state of the usage server, which is down because this service records no usage."""
    return {"collectiontime": read_time(call.connection), "hostname": platform.node()}


COMMANDS = (
    Command(
        name="listDbMetrics",
        authorized=ROOT_ADMIN_ONLY,
        roles=ROOT_ADMIN_ONLY,
        description="Returns metrics of the database",
        handler=list_database_metrics,
        shape=Shape.OBJECT,
        response=Response(
            "dbMetrics",
            (
                moment("collectiontime", "when the metrics were read"),
                text("hostname", "the address of the database; localhost for a socket", ROOT_ADMIN_ONLY),
                texts("replicas", "the addresses of standbys that receive changes"),
                number("connections", "the connections to the database"),
                large_number("uptime", "the time since the start of the database, in seconds"),
                large_number("queries", "the transactions since the database's statistics began"),
                texts("dbloadaverages", "transactions per second since the database started, one value"),
                text("version", "the version of the database"),
                text("versioncomment", "the version of the database and how it was built"),
            ),
        ),
    ),
    Command(
        name="listUsageServerMetrics",
        authorized=ROOT_ADMIN_ONLY,
        roles=ROOT_ADMIN_ONLY,
        description="Returns the state of the usage server. There is none, so no usage records are created.",
        handler=list_usage_server_metrics,
        shape=Shape.OBJECT,
        response=Response(
            "usageMetrics",
            (
                moment("collectiontime", "when the state was read"),
                text("hostname", "the host of the process that answers", ROOT_ADMIN_ONLY),
                constant("state", "Down", "no usage records are created"),
            ),
        ),
    ),
)
