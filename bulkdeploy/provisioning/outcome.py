"""The outcome of an attempt to run a job: the job's result, and the state of its instance."""

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
    """Raised when another process has the job's lease now.

    All further writes of this process for the job are rejected.
    """


Release = Callable[[Connection, Sequence[int]], None]
"""Gives back what instances hold, many at a time, by their ids: such as ``store.ledger.release.release_hosts``."""


@dataclass(frozen=True, slots=True)
class FinalState:
    """The changes that a finished job writes to the rows of its VM or its host.

    Attributes:
        state: the new state of the VM, or None if it does not change.
        release: a function that releases claims, or None if all claims are kept.
        volumes_ready: whether the VM's volumes exist now.
        removed: whether the VM is marked as removed.
        deleted_volumes: the ids of volumes that are deleted with the VM.
        host_state: the new resource state of the host, unless maintenance was cancelled meanwhile.
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
    """The outcome of a successful job.

    Its kind determines the job result, unless ``shown`` is given as the result.
    """

    final: FinalState
    shown: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a failed job; ``text`` is the reason that clients read when they poll the job.

    ``excluded``, which only root admins see, lists hosts by the placement rule that excluded them.
    """

    error_code: int
    text: str
    final: FinalState
    excluded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Paused:
    """The outcome of an attempt after which the job continues later, for example if a hypervisor does not answer.

    ``progress`` is added to the notes of the job. ``made`` are the messages of child jobs, to be sent after the
    commit.
    """

    after_s: float
    progress: Mapping[str, Any]
    made: Sequence[JobMessage] = ()


@dataclass(frozen=True, slots=True)
class Requeued:
    """The outcome of a job that was not started because this process is ending.

    Another process runs the job soon.
    """


Outcome = Succeeded | Failed | Paused | Requeued
