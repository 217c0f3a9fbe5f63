"""The objects that API processes use, created once per process by ``wiring``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine

from bulkdeploy.drivers.abilities.host_files import HostFile
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.power.registry import PowerDrivers
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.security.guarded_fetch import FetchRules
from bulkdeploy.security.guest_networks import GuestNetworks

PASSWORD_THREADS, WATCHING_THREADS = 2, 2
"""Threads of an API process beside those of calls: for calls with a password, and for monitoring."""


class Cipher(Protocol):
    """A cipher for secrets that must be readable again, such as API secret keys."""

    def encrypt(self, secret: str) -> bytes:
        """Encrypt a secret and return the encrypted bytes."""

    def decrypt(self, token: bytes) -> str:
        """Decrypt an encrypted secret and return it."""


@dataclass(frozen=True, slots=True)
class System:
    """The external parts that services use. Services reach them only through this object; there are no globals.

    ``engine`` is for transactions, which the callers of services open; ``reader`` has read-only connections.
    ``drivers`` are used to read the hardware of hosts and pools; only workers change VMs. ``power`` has the drivers
    of hosts' management controllers. ``host_files`` reads the files that new hosts get. ``fetch_rules`` define the
    URLs that callers may name. ``guest_networks`` are the networks that health checks of guests connect to.
    ``trusted_proxies`` are networks of trusted proxies in addition to the setting ``proxy.cidr``, as CIDRs
    separated by commas.
    """

    engine: Engine
    job_queue: JobQueue
    cipher: Cipher
    data_dir: Path
    drivers: Drivers = field(default_factory=lambda: Drivers({}))
    driver_timeout_s: float = 30
    power: PowerDrivers = field(default_factory=PowerDrivers)
    reader: Engine | None = None
    host_files: Callable[[], Sequence[HostFile]] = tuple
    fetch_rules: FetchRules = field(default_factory=FetchRules)
    guest_networks: GuestNetworks = field(default_factory=GuestNetworks)
    trusted_proxies: str = ""

    @property
    def reading(self) -> Engine:
        """The engine for calls that only read: ``reader``, or ``engine`` if there is no reader."""
        return self.engine if self.reader is None else self.reader
