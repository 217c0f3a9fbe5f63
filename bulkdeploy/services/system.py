"""What the synchronous half works with; built once per process by ``wiring``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine

from bulkdeploy.drivers.registry import Drivers, FindsDrivers
from bulkdeploy.queue.job_queue import JobQueue


class Cipher(Protocol):
    """Encrypts secrets that must be read again (API secret keys)."""

    def encrypt(self, secret: str) -> bytes:
        """The secret, unreadable at rest."""

    def decrypt(self, token: bytes) -> str:
        """The secret again."""


@dataclass(frozen=True, slots=True)
class System:
    """The parts a use case may touch. There is no other way to reach them: no globals.

    ``engine`` is for transactions; ``reader`` has connections that cannot write, of which each call holds one.
    ``drivers`` are for learning what hosts and pools have; what is done to VMs is for workers.
    """

    engine: Engine
    job_queue: JobQueue
    cipher: Cipher
    data_dir: Path
    drivers: FindsDrivers = field(default_factory=lambda: Drivers({}))
    driver_timeout_s: float = 30
    reader: Engine | None = None

    @property
    def reading(self) -> Engine:
        """For reading calls: ``reader``, or ``engine`` where there is none."""
        return self.engine if self.reader is None else self.reader
