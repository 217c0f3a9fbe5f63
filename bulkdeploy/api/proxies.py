"""The trusted proxies of a process. Their names are resolved every second; the last result is kept on errors."""

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
"""Looking it up for every call would be a statement more for each."""


class TrustedProxies:
    """The proxies that may name the address of a client.

    Usable from any number of threads, and without database access from the event loop.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._settings = ProxySettings()
        self._due = 0.0
        self._looking = Lock()

    def client(self, peer: str, header: Callable[[str], str | None]) -> str:
        """Return the address of who calls; ``header`` finds a header of the request by name."""
        if time.monotonic() >= self._due and self._looking.acquire(blocking=self._due == 0):
            try:
                self._look()
            finally:
                self._looking.release()
        return self._settings.client(peer, header)

    def trusts(self, peer: str) -> bool:
        """Return whether the peer is a trusted proxy according to the cached settings."""
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
