"""The work of a bulk operation on one VM: a job, or a change that the call writes immediately."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.errors import BulkDeployError, InvalidParameter, ParameterError, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import NOTHING, ResourceAmounts
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.scheduling.batch_moves import BatchPlan
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.ledger.ledger import ConsumerKind

INVALID_PARAMETER, PERMISSION_DENIED, INSUFFICIENT_CAPACITY = 431, 531, 533
"""The codes with which a single call, or the job of one, answers these errors."""


@dataclass(frozen=True, slots=True)
class VmJob:
    """A job for a VM, as the work of a bulk operation.

    Attributes:
        kind: the kind of the job.
        params: the parameters of the job.
        host_id: the host that the plan of the operation chose for the VM, or None.
        uuid: the job's uuid if the host was claimed for the job.
    """

    kind: JobKind
    params: Mapping[str, Any] = field(default_factory=dict)
    host_id: int | None = None
    uuid: UUID | None = None


@dataclass(frozen=True, slots=True)
class VmChange:
    """New values of a VM's columns and the change of its owner's resource counts. The VM's job ends immediately."""

    event_type: EventType
    columns: Mapping[str, Any]
    amounts: ResourceAmounts = NOTHING


VmWork: TypeAlias = VmJob | VmChange


NO_HOST = "no host has capacity for it"
"""What callers read who do not see hosts."""


class NoHostForVm(Exception):
    """Raised when a bulk operation finds no host with capacity for a VM.

    A call for a single VM creates a job instead, which fails with this text.
    """


@dataclass(frozen=True, slots=True)
class ClaimedHosts:
    """The planned hosts of a bulk operation's VMs, which the transaction of the call claims.

    Attributes:
        plan: the plan of all VMs.
        consumers: the consumer of each VM's host claim, by VM id: the VM itself or its job.
        kind: the kind of these consumers.
    """

    plan: BatchPlan
    consumers: Mapping[int, UUID]
    kind: ConsumerKind = ConsumerKind.VM

    def claim(self, connection: Connection) -> None:
        """Claim the hosts, before the rows of the VMs are locked.

        Raises:
            TransactionConflict: another transaction claimed the capacity since the plan; the whole transaction must
                be repeated.
        """
        self.plan.claim(connection, self.consumers, self.kind)

    def keep(self, connection: Connection, seen: Sequence[Row[Any]], locked: Sequence[Row[Any]]) -> None:
        """Write the hosts to the locked rows of the VMs, unless the VMs have changed since the plan.

        VMs that move keep their present hosts until their jobs start.

        Raises:
            TransactionConflict: a VM changed; the whole transaction must be repeated.
        """
        before, now = ({vm.id: (vm.state, vm.has_job, vm.host_id) for vm in vms} for vms in (seen, locked))
        if any(before[vm_id] != now.get(vm_id) for vm_id in self.consumers):
            raise TransactionConflict
        self.plan.require_unchanged(connection)
        if self.kind is ConsumerKind.VM:
            self.plan.write(connection)


@dataclass(frozen=True, slots=True)
class PreparedVms:
    """The data that a bulk operation has read for all of its VMs.

    Attributes:
        work_of: checks one locked VM as the call for a single VM does and returns its work. Raises NoHostForVm,
            ParameterError or PermissionDenied. It executes no statement per VM.
        write_more: writes further changes of the VMs, besides their columns.
        hosts: the hosts that the VMs get, or None if the operation assigns no hosts.
    """

    work_of: Callable[[Row[Any]], VmWork]
    write_more: Callable[[Connection, Sequence[Row[Any]]], None] | None = None
    hosts: ClaimedHosts | None = None


PrepareVms: TypeAlias = Callable[[Connection, System, Caller, Sequence[Row[Any]]], PreparedVms]
"""Reads what an operation needs of these VMs, with a constant number of statements.

The rows of the VMs are locked, unless the operation claims hosts: VMs come after hosts in the order of locks.
"""


@dataclass(frozen=True, slots=True)
class VmOperation:
    """An operation that can be done on many VMs.

    Attributes:
        verb: the verb for the operation, such as "stop".
        states: the states in which the operation accepts VMs, including states of removed VMs.
        command_class: the value of ``cmd`` of its jobs, which root admins see.
        prepare: a function that reads the data for all VMs (``PrepareVms``).
        claims_hosts: whether the operation assigns hosts to its VMs.
        accepts_alike: whether ``prepare`` and ``PreparedVms.work_of`` read only columns of ``AlikeVms.vm``.
    """

    verb: str
    states: frozenset[Any]
    command_class: str
    prepare: PrepareVms
    claims_hosts: bool = False
    accepts_alike: bool = False

    @classmethod
    def of_kind(cls, kind: JobKind, prepare: PrepareVms, *, claims_hosts: bool = False) -> "VmOperation":
        """Return the operation whose jobs are of this kind."""
        return cls(kind.verb, kind.states, kind.command_class, prepare, claims_hosts)


def refusal(error: NoHostForVm | BulkDeployError) -> tuple[int, str]:
    """Return the error code and text of a VM that cannot be processed, as the call for a single VM returns them.

    Raises:
        BulkDeployError: the error is none that ``PreparedVms.work_of`` may raise; it is raised again.
    """
    if isinstance(error, NoHostForVm):
        return INSUFFICIENT_CAPACITY, str(error)
    if isinstance(error, InvalidParameter):
        return INVALID_PARAMETER, error.rule
    if isinstance(error, ParameterError):
        return INVALID_PARAMETER, str(error)
    if isinstance(error, PermissionDenied):
        return PERMISSION_DENIED, str(error)
    raise error
