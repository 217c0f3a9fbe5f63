"""The declaration of a kind of job: its properties and its steps.

Each kind is declared in one file in ``provisioning/kinds``. Workers, sweepers, services and events read the
properties of a kind only from its declaration.
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
    """The content of the response field ``jobresult`` of a successful job. The value is the key of the content.

    VOLUME, VM_SNAPSHOT, SNAPSHOT and TEMPLATE show the objects that the job's parameters name as ``volume_id``,
    ``snapshot_id`` and ``template_id``. If the object has been deleted, the result is a plain success. BALANCE and
    HOST_MIGRATION show what the job itself has done. CUSTOM_ACTION and OUT_OF_BAND_MANAGEMENT show
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
    """The objects that the steps of jobs use.

    Attributes:
        engine: the database; transactions of steps are short.
        calls: the calls to drivers.
        power: the calls to management controllers of hosts.
        lease_seconds: the number of seconds by which a transaction renews the lease.
        planning: a semaphore that is acquired while a host is planned, but not while an allocator program runs.
    """

    engine: Engine
    calls: DriverCalls
    power: PowerCalls
    lease_seconds: float
    planning: Semaphore = field(default_factory=lambda: Semaphore(PLANNERS_AT_ONCE))


class JobSteps(ABC, Generic[W]):
    """The steps of all jobs of one kind. All threads share one object, which stores no state of any job.

    Args:
        kind: the kind.
        tools: the objects that the steps use.
    """

    def __init__(self, kind: "JobKind", tools: StepTools) -> None:
        self.kind, self.tools = kind, tools

    def moves(self, job: LeasedJob) -> bool:
        """Return whether the VM changes to the state ``JobKind.move`` when this job begins."""
        del job
        return True

    def at_once(self, work: W) -> Outcome | None:
        """Return the outcome if the rows that were read with the lease already determine it.

        Returns None if the driver is needed; then ``run`` is called.
        """
        del work
        return None

    @abstractmethod
    def run(self, work: W) -> Outcome:
        """Run the job, resuming where an earlier attempt stopped, and block until this attempt ends.

        Changes that must not remain are undone.

        Raises:
            LeaseLost: another worker has the job. The caller must not write anything.
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
    """The base class of the steps of job kinds for VMs."""

    def at_once(self, work: Assignment) -> Outcome | None:
        """Return a failure if the VM is now in a state that the kind does not accept, otherwise None."""
        if work.state in self.kind.states_at_run:
            return None
        why = f"it is {work.state.value}; it must be {one_of(self.kind.states)}"
        return self.failed(work, INTERNAL_ERROR, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """The declaration of a kind of job.

    No field has a default, so that the file of each kind declares all of its properties.

    Attributes:
        name: the name in rows and messages: the short name of the kind's Celery task.
        instance_type: the type of the instances of its jobs.
        command_class: the value of ``cmd`` of its jobs for root admins; clients search it by keyword.
        event_type: the type of its events.
        verb, action, not_done: the operation in words, such as "stop", "stopping", "was not stopped".
        states: the states of an instance in which a job of this kind can be requested and does something.
        move: the state of the VM while the job runs, or None if the state does not change.
        ability: the ability that the hypervisor of a running VM must have, or None.
        spoils_snapshots: whether the job would make snapshots of the VM unusable; a VM with snapshots is rejected.
        if_abandoned: the final state if the job is given up without clean-up, because several workers died while
            they ran it. Only resources that are certainly unused may be released.
        if_never_begun: the final state if no worker ever ran the job.
        result: the content of the job's result.
        failpoints: the commits and driver calls of the job and of its clean-up, in addition to those of every job.
        steps: a function that creates its steps.
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
    ability: type[Ability] | None
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
        """The states that the instance of an accepted job can be in when the job runs."""
        return self.states if self.move is None else (self.states - self.move.sources) | {self.move.state}

    def describe(self, name: str) -> str:
        """Return the description of a job for events: ``stopping Vm v-1``."""
        return f"{self.action} {self.instance_type.noun} {name}"

    def cmd(self, *, is_root_admin: bool) -> str:
        """Return the value of the job's field ``cmd`` for a root admin or for another caller."""
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
        """Create the description of a job of this kind, which ``insert_jobs`` accepts."""
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
