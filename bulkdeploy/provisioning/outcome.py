"""The outcome of a try of a job: the job's result, and the state of its instance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.queue.job_queue import JobMessage

INTERNAL_ERROR = 530
INSUFFICIENT_CAPACITY = 533
RESOURCE_UNAVAILABLE = 534
LIMIT_EXCEEDED = 535
"""``errorcode`` inside a failed job's result (cloudstack-protocol.md 5.6)."""


NOTHING_EXCLUDED: Mapping[str, int] = {}


class LeaseLost(Exception):
    """Another process holds the job now. Whatever this process still does for it is refused."""


Release = Callable[[Connection, Sequence[int]], None]
"""Gives back what instances hold, many at a time, by their ids: such as ``store.ledger.release.release_hosts``."""


@dataclass(frozen=True, slots=True)
class FinalState:
    """The changes that a finished job writes about its VM, or its host.

    Attributes:
        state: the VM's state from now on; None: it stays what it is.
        release: gives back what it no longer holds; None: it holds what it held.
        volumes_ready: its volumes exist now.
        removed: the VM is removed.
        deleted_volumes: ids of volumes that are deleted with it.
        host_state: the host's resource state from now on, unless maintenance was cancelled meanwhile.
    """

    state: VmState | None = None
    release: Release | None = None
    volumes_ready: bool = False
    removed: bool = False
    deleted_volumes: tuple[int, ...] = ()
    host_state: HostResourceState | None = None


UNCHANGED = FinalState()


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The job is done; its kind says what its result shows, unless ``shown`` is that."""

    final: FinalState
    shown: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The job is done and did not reach its aim; ``text`` says why, to clients that poll it.

    ``excluded``, which root admins see: hosts by the reason of the placement rule that excluded them.
    """

    error_code: int
    text: str
    final: FinalState
    excluded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Paused:
    """The job goes on later: something may be left on a hypervisor that does not answer now.

    ``progress`` is added to what the job has noted; ``made``: messages of jobs that this one made, to be sent.
    """

    after_s: float
    progress: Mapping[str, Any]
    made: Sequence[JobMessage] = ()


@dataclass(frozen=True, slots=True)
class Requeued:
    """The job was not begun, and this process is about to end: another one takes it at once."""


Outcome = Succeeded | Failed | Paused | Requeued
