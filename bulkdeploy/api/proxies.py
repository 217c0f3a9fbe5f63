"""The trusted proxies of a process.

Their addresses are read from the settings every second. If that fails, the last addresses remain.
"""

import time
from collections.abc import Callable
from threading import Lock

import structlog

from bulkdeploy.domain.networks.proxies import ProxySettings
from bulkdeploy.services.system import System
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.availability import is_unreachable

log = structlog.get_logger(__name__)

KNOWN_FOR_S = 1.0
"""The seconds for which the addresses are cached, so that not every call reads them."""


class TrustedProxies:
    """The proxies whose statement about a client's address is trusted. Threads may share the object."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._settings = ProxySettings()
        self._due = 0.0
        self._looking = Lock()

    def client(self, peer: str, header: Callable[[str], str | None]) -> str:
        """Return the address of the client that sent a request.

        Args:
            peer: the address of the other end of the connection, which may be a proxy.
            header: returns the value of a request header by name, or None.
        """
        if time.monotonic() >= self._due and self._looking.acquire(blocking=self._due == 0):
            try:
                self._look()
            finally:
                self._looking.release()
        return self._settings.client(peer, header)

    def trusts(self, peer: str) -> bool:
        """Return whether ``peer`` is the address of a trusted proxy. This does not read the database."""
        return self._settings.trusts(peer)

    def _look(self) -> None:
        try:
            with self._system.reading.connect() as connection:
                configuration = read_configuration(connection)
            self._settings = ProxySettings.of(configuration.text, self._system.trusted_proxies)
        except Exception as error:
            if not is_unreachable(error):
                raise
            log.warning("proxies_not_looked_up", why="the database cannot be reached")
        self._due = time.monotonic() + KNOWN_FOR_S
