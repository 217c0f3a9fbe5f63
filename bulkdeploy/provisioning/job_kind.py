"""The declaration of a kind of job: its properties and its steps.

A kind is one file in ``provisioning/kinds``. Workers, sweepers, services and the events of jobs read what they need
of it there, and nowhere else is any of it written again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Semaphore
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import Engine

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType, class_for
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState, one_of
from bulkdeploy.drivers.abilities.ability import Ability
from bulkdeploy.provisioning.assignment import Assignment, Work
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, NOTHING_EXCLUDED, UNCHANGED, Failed, FinalState, Outcome
from bulkdeploy.provisioning.power_calls import PowerCalls
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import LeasedJob, NewJob

W = TypeVar("W", bound=Work)

PLANNERS_AT_ONCE = 4
"""Planning one VM reads a zone's snapshot; when many hosts die at once, a process must not do that for every VM at
once, nor take all its database connections for it."""


class JobResult(StrEnum):
    """The content of ``jobresult`` of a successful job. The value is the key under which the content is shown.

    VOLUME, VM_SNAPSHOT, SNAPSHOT and TEMPLATE show the objects that the job's params name as ``volume_id``,
    ``snapshot_id`` and ``template_id``. If the object is deleted by then, the result is a plain success. BALANCE
    and HOST_MIGRATION show what the job itself has done. CUSTOM_ACTION and OUT_OF_BAND_MANAGEMENT show
    ``Succeeded.shown``.
    """

    VIRTUAL_MACHINE = "virtualmachine"
    HOST = "host"
    VOLUME = "volume"
    VM_SNAPSHOT = "vmsnapshot"
    SNAPSHOT = "snapshot"
    TEMPLATE = "template"
    BALANCE = "balance"
    HOST_MIGRATION = "hostmigration"
    CUSTOM_ACTION = "customactionresult"
    OUT_OF_BAND_MANAGEMENT = "outofbandmanagement"
    SUCCESS = "success"


@dataclass(frozen=True, slots=True)
class Move:
    """The state change of a VM while a job runs.

    When the job begins, a VM in one of ``sources`` changes to ``state``, and keeps this state until the job ends.
    """

    sources: frozenset[VmState]
    state: VmState


@dataclass(frozen=True, slots=True)
class StepTools:
    """The objects that steps work with.

    Attributes:
        engine: the database; transactions of steps are short.
        calls: the drivers.
        power: the management controllers of hosts.
        lease_seconds: how long a transaction prolongs the lease.
        planning: held while a place is looked for, but not while an allocator program is asked.
    """

    engine: Engine
    calls: DriverCalls
    power: PowerCalls
    lease_seconds: float
    planning: Semaphore = field(default_factory=lambda: Semaphore(PLANNERS_AT_ONCE))


class JobSteps(ABC, Generic[W]):
    """The steps of all jobs of one kind. All threads share one object, which keeps no state of any job.

    Args:
        kind: the kind.
        tools: see StepTools.
    """

    def __init__(self, kind: "JobKind", tools: StepTools) -> None:
        self.kind, self.tools = kind, tools

    def moves(self, job: LeasedJob) -> bool:
        """Return whether the VM moves as the kind declares when this job begins."""
        del job
        return True

    def at_once(self, work: W) -> Outcome | None:
        """Return the outcome if the rows that were read with the lease decide it, else None.

        After None, ``run`` is called.
        """
        del work
        return None

    @abstractmethod
    def run(self, work: W) -> Outcome:
        """Run the job, resuming where an earlier try stopped, and block until this try ends.

        Steps that cannot be kept are undone.

        Raises:
            LeaseLost: stop, and write nothing.
        """

    def failed(
        self,
        work: W,
        code: int,
        why: str,
        final: FinalState = UNCHANGED,
        excluded: Mapping[str, int] = NOTHING_EXCLUDED,
    ) -> Failed:
        """Return a failure with a text such as ``VM v-1 was not stopped: ...``.

        ``excluded`` counts the hosts that rules excluded, by rule.
        """
        return Failed(code, f"{work.label} {self.kind.not_done}: {why}", final, excluded)


class VmSteps(JobSteps[Assignment]):
    """Steps of a kind that works on VMs."""

    def at_once(self, work: Assignment) -> Outcome | None:
        """Refuse a VM that is in no state for it by now."""
        if work.state in self.kind.states_at_run:
            return None
        why = f"it is {work.state.value}; it must be {one_of(self.kind.states)}"
        return self.failed(work, INTERNAL_ERROR, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """The declaration of a kind of job.

    No field has a default, so that the file of each kind declares all of its properties.

    Attributes:
        name: as rows and messages name it: the short name of its Celery task.
        instance_type: what its jobs work on.
        command_class: ``cmd`` of its jobs as a root admin's call shows it; clients match it by keyword.
        event_type: the type of its events.
        verb, action, not_done: it in words: "stop", "stopping", "was not stopped".
        states: those in which it can be asked for, and in which a job of it does something.
        move: the VM's state while it runs; None: it keeps its own.
        ability: what its hypervisor must be able to do where the VM runs; None: nothing special.
        spoils_snapshots: a VM that has snapshots is refused: they are of what it would no longer be.
        if_abandoned: what is left where a job is given up on that cannot even be cleaned up after, because worker
            after worker died under it. Only what is certain may be given back.
        if_never_begun: what is left where no worker ever ran it.
        result: what its result shows.
        failpoints: the commits and driver calls on its way and on its way back, besides those of every job.
        steps: makes its steps.
    """

    name: str
    instance_type: InstanceType
    command_class: str
    event_type: EventType
    verb: str
    action: str
    not_done: str
    states: frozenset[StrEnum]
    move: Move | None
    ability: Ability | None
    spoils_snapshots: bool
    if_abandoned: FinalState
    if_never_begun: FinalState
    result: JobResult
    failpoints: frozenset[str]
    steps: Callable[["JobKind", StepTools], JobSteps[Any]]

    def __str__(self) -> str:
        return self.name

    @property
    def states_at_run(self) -> frozenset[StrEnum]:
        """The states that the instance of an accepted job can have when the job runs."""
        return self.states if self.move is None else (self.states - self.move.sources) | {self.move.state}

    def describe(self, name: str) -> str:
        """Return the description of a job for events: ``stopping Vm v-1``."""
        return f"{self.action} {self.instance_type.noun} {name}"

    def cmd(self, *, is_root_admin: bool) -> str:
        """Return the job's ``cmd``: the name of CloudStack's command class for this kind of caller."""
        return class_for(self.command_class, is_root_admin=is_root_admin)

    def new_job(
        self,
        instance: Instance,
        description: str,
        *,
        account_id: int,
        user_id: int,
        is_root_admin: bool = True,
        params: Mapping[str, Any] | None = None,
        parent_id: int | None = None,
        uuid: UUID | None = None,
    ) -> NewJob:
        """Return a job of this kind for ``insert_jobs``; see ``NewJob``."""
        return NewJob(
            kind=self.name,
            cmd=self.cmd(is_root_admin=is_root_admin),
            account_id=account_id,
            user_id=user_id,
            instance=instance,
            params=params or {},
            event_type=self.event_type,
            description=description,
            parent_id=parent_id,
            uuid=uuid,
        )
