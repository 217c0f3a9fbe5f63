"""The cache of catalogues on disk, so that help and completion work without the server."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bulkdeploy.cli.connection.catalogue import Catalogue, read_catalogue
from bulkdeploy.cli.connection.config_file import write_private
from bulkdeploy.cli.connection.profiles import Connection
from bulkdeploy.cli.failures import CommandFailed

if TYPE_CHECKING:
    from bulkdeploy.cli.connection.transport import Transport

FORM = 1
"""Grows when what is kept changes its form; caches of another form are read anew from the server."""


class CatalogueCache:
    """A cache of catalogues in files, one for each combination of API and caller.

    The response of listApis depends on both.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, connection: Connection) -> Path:
        """Return the path of a connection's cached catalogue; the name contains no key."""
        who = connection.apikey or f"{connection.domain} {connection.username}"
        mark = hashlib.sha256(f"{connection.url}\n{who}".encode()).hexdigest()[:16]
        safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in connection.profile)
        return self.directory / f"{safe}-{mark}.json"

    def load(self, connection: Connection) -> Catalogue | None:
        """Return the cached catalogue, or None if it does not exist or cannot be read."""
        try:
            kept = json.loads(self.path(connection).read_text(encoding="utf-8"))
            if not isinstance(kept, dict) or kept.get("form") != FORM:
                return None
            return read_catalogue(kept["apis"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def sync(self, transport: "Transport", **how: Any) -> Catalogue:
        """Read the catalogue from the server, store it in the cache, and return it.

        ``how`` is passed to ``Transport.call``.

        Raises:
            CommandFailed: the call failed, or the response contains no API.
        """
        answer = transport.call("listApis", {"listall": "true"}, **how)
        entries = answer.get("api")
        if not isinstance(entries, list):
            raise CommandFailed("the response of listApis contains no API", hint="The user's role may allow no API")
        catalogue = read_catalogue(entry for entry in entries if isinstance(entry, Mapping))
        self._keep(transport.connection, entries)
        return catalogue

    def _keep(self, connection: Connection, entries: list[Any]) -> None:
        content = {"form": FORM, "url": connection.url, "apis": entries}
        write_private(self.path(connection), json.dumps(content))
