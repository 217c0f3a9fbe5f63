"""What the clients were told, to be held against the system afterwards."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any


@dataclass
class BulkCall:
    """One bulk or single deploy call, and what came of it.

    ``prefix`` is in the names of its VMs and of no others. ``broken`` counts attempts that got no answer, or
    one that leaves open what an earlier attempt did.
    """

    command: str
    prefix: str
    count: int
    parameters: Mapping[str, Any]
    jobs: list[str] | None = None
    refusal: str | None = None
    broken: int = 0

    @property
    def dry(self) -> bool:
        """Whether it was only to be tried."""
        return "dryrun" in self.parameters

    @property
    def may_be_repeated(self) -> bool:
        """Whether making it again is the same call."""
        return "requesttoken" in self.parameters

    @property
    def is_open(self) -> bool:
        """Whether nobody knows what it did."""
        return self.jobs is None and self.refusal is None


@dataclass
class RequestedCall:
    """Calls of one command for one thing: the jobs that were answered, and how many got no answer."""

    jobs: list[str] = field(default_factory=list)
    answered: int = 0
    broken: int = 0


@dataclass
class Journal:
    """Everything that clients know. Safe to share between threads."""

    bulk_calls: list[BulkCall] = field(default_factory=list)
    requested: dict[tuple[str, str], RequestedCall] = field(default_factory=lambda: defaultdict(RequestedCall))
    """By the id of a VM, host or deployment, and command."""

    refusals: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    first_ends: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By job: the status and result that a client saw first."""

    changed_ends: list[str] = field(default_factory=list)
    vms: list[str] = field(default_factory=list)
    """VMs that nobody has asked to destroy yet."""

    fleets: list[str] = field(default_factory=list)
    """Managed deployments. Their VMs are in no other list: the sweeper makes and destroys them, too."""

    lock: Lock = field(default_factory=Lock)

    def saw_end(self, job: str, status: int, result: str) -> None:
        """A client polled a finished job."""
        with self.lock:
            first = self.first_ends.setdefault(job, (status, result))
            if first != (status, result):
                self.changed_ends.append(f"job {job}: first {first}, then {(status, result)}")

    def all_jobs(self) -> list[str]:
        """Every job id that was answered."""
        made = [job for call in self.bulk_calls for job in call.jobs or ()]
        return made + [job for requested in self.requested.values() for job in requested.jobs]

    def some_job(self, dice: Random) -> str | None:
        """A job of one of the calls."""
        with self.lock:
            calls = [call for call in self.bulk_calls[-200:] if call.jobs]
        return dice.choice(dice.choice(calls).jobs or [""]) if calls else None

    def some_fleet(self, dice: Random) -> str | None:
        """A managed deployment."""
        with self.lock:
            return dice.choice(self.fleets) if self.fleets else None

    def some_vm(self, dice: Random, *, take: bool = False) -> str | None:
        """A VM; ``take``: to be destroyed, so that nobody else gets it."""
        with self.lock:
            if not self.vms:
                return None
            position = dice.randrange(len(self.vms))
            if take:
                self.vms[position], self.vms[-1] = self.vms[-1], self.vms[position]
                return self.vms.pop()
            return self.vms[position]
