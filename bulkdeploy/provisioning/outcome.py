"""How a try of a job ends, as a value: what becomes of the job, and what is left of its VM."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bulkdeploy.domain.topology import HostResourceState
from bulkdeploy.domain.virtual_machines import VmState

INTERNAL_ERROR = 530
INSUFFICIENT_CAPACITY = 533
RESOURCE_UNAVAILABLE = 534
LIMIT_EXCEEDED = 535
"""``errorcode`` inside a failed job's result (reference section 5.6)."""


class LeaseLost(Exception):
    """Another process holds the job now; whatever this one still does for it is refused."""


class GiveBack(Enum):
    """What a VM gives back when its job ends (``store.release``); of a migration one of its two hosts.

    GROWTH: what it claimed to be scaled up (``store.virtual_machine_scaling``).
    """

    NOTHING = "nothing"
    HOST = "host"
    COMPUTE = "compute"
    EVERYTHING = "everything"
    SOURCE = "source"
    DESTINATION = "destination"
    GROWTH = "growth"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a finished job writes about its VM, or its host.

    Attributes:
        state: the VM's state from now on; None: it stays what it is.
        give_back: what it no longer holds.
        volumes_ready: its volumes exist now.
        removed: the VM is gone for good.
        host_state: the host's resource state from now on, unless maintenance was cancelled meanwhile.
    """

    state: VmState | None = None
    give_back: GiveBack = GiveBack.NOTHING
    volumes_ready: bool = False
    removed: bool = False
    host_state: HostResourceState | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The job is done; its result is the VM as it is then."""

    settlement: Settlement


@dataclass(frozen=True, slots=True)
class Failed:
    """The job is done and did not reach its aim; ``text`` says why, to whoever polls it."""

    error_code: int
    text: str
    settlement: Settlement


@dataclass(frozen=True, slots=True)
class Paused:
    """The job goes on later: something may be left on a hypervisor that does not answer now.

    ``progress`` is added to what the job has noted.
    """

    after_s: float
    progress: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The job was not begun, and this process is about to end: another one takes it at once."""


Outcome = Succeeded | Failed | Paused | HandedBack
