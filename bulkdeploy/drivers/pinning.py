"""HTTPS to servers whose certificates no authority signed: one certificate is accepted, by its fingerprint."""

from typing import Any

from requests.adapters import HTTPAdapter

CONNECTIONS = 32
"""Connections to one server that are kept."""


class PinnedAdapter(HTTPAdapter):
    """For a session's ``mount``.

    ``fingerprint``: SHA-256 of the certificate. None: an authority must have signed it.
    """

    def __init__(self, fingerprint: str | None) -> None:
        self._fingerprint = fingerprint
        super().__init__(pool_connections=CONNECTIONS, pool_maxsize=CONNECTIONS)

    def init_poolmanager(self, *arguments: Any, **more: Any) -> None:
        """See HTTPAdapter."""
        if self._fingerprint is not None:
            more["assert_fingerprint"] = self._fingerprint
        super().init_poolmanager(*arguments, **more)
