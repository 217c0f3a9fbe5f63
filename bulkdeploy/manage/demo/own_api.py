"""Calls to the service's own API over HTTP, as its administrator."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bulkdeploy.cli.connection.clock import SystemClock
from bulkdeploy.cli.connection.profiles import Connection
from bulkdeploy.cli.connection.transport import Transport
from bulkdeploy.manage.admin import read_credentials
from bulkdeploy.wiring.settings import Settings

PAGE_SIZE = 500


@contextmanager
def own_api(settings: Settings) -> Iterator[Transport]:
    """Yield a client that signs and sends calls to the API of ``settings``, or of the running ``up``."""
    found = read_credentials(settings)
    connection = Connection("admin", found["url"], apikey=found["apikey"], secretkey=found["secretkey"])
    transport = Transport(connection, SystemClock(), lambda _: None)
    try:
        yield transport
    finally:
        transport.close()


def list_all(api: Transport, command: str, noun: str, **parameters: str) -> list[dict[str, Any]]:
    """Return all objects that a list command finds. The pages of the list are read one after the other."""
    rows: list[dict[str, Any]] = []
    while True:
        page = len(rows) // PAGE_SIZE + 1
        found = api.call(command, {**parameters, "page": str(page), "pagesize": str(PAGE_SIZE)}).get(noun, [])
        rows += found
        if len(found) < PAGE_SIZE:
            return rows
