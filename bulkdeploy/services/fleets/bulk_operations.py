"""Bulk operations: many VMs are selected and checked together, and one job per VM does the work.

All checks come first. Then the transaction of the call claims the hosts of its VMs, and writes the operation, its
jobs, their events and their outbox rows with a constant number of statements. The jobs are the same as those of
calls for single VMs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.errors import BulkDeployError, InvalidParameter
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.services.fleets.bulk_rows import make_changes, make_jobs
from bulkdeploy.services.fleets.vm_selection import VmSelection, find_selected
from bulkdeploy.services.ownership import require_all_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import find_undestroyable, find_unready
from bulkdeploy.services.virtual_machines.vm_work import (
    NoHostForVm,
    PreparedVms,
    VmChange,
    VmJob,
    VmOperation,
    VmWork,
    refusal,
)
from bulkdeploy.store.jobs.bulk_operations import find_operation_by_token, insert_operation
from bulkdeploy.store.virtual_machines.guests import lock_vm_states, lock_vms, read_pending_vms

MOST_REASONS = 100
"""An error names at most this number of VMs that cannot be processed."""


class VmsRefused(InvalidParameter):
    """Raised when VMs cannot be processed and the call does not leave them out, or no VM would remain.

    Attributes:
        failed: the VMs with their reasons, as response fields.
    """

    def __init__(self, parameter: str, value: str, rule: str, failed: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(parameter, value, rule)
        self.failed = failed


FindRefused: TypeAlias = Callable[[Connection, Sequence[Row[Any]]], Mapping[int, str]]
"""Returns for each locked VM that an operation must not touch the rule that forbids it, by VM id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRequest:
    """A request for one operation on many VMs.

    Attributes:
        command: the name of the API command.
        operation: the operation.
        partial: leave out VMs that cannot be processed, instead of rejecting the call.
        max_parallel: the number of jobs that may be under way at once; None: all of them.
        max_failures: the operation is cancelled if more jobs fail than this number, or this percentage (``10%``).
        token, fingerprint: the request token, and the digest of the call's other parameters.
    """

    command: str
    operation: VmOperation
    selection: VmSelection
    partial: bool = False
    max_parallel: int | None = None
    max_failures: str | None = None
    token: str | None = None
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class BulkDryRun:
    """The result of a dry run: the VMs that the call would process, and the VMs that fail its checks."""

    vms: Sequence[tuple[Row[Any], VmWork]]
    failed: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """A stored bulk operation: pairs of the uuids of a job and its VM, and the VMs that were left out."""

    uuid: UUID
    created: datetime
    jobs: Sequence[tuple[UUID, UUID]]
    failed: Sequence[Mapping[str, Any]]


def check_bulk_operation(
    connection: Connection, system: System, caller: Caller, request: BulkRequest
) -> BulkDryRun:
    """Check all selected VMs of a bulk operation and return the result. Nothing is written or locked.

    Raises:
        BulkDeployError: under the same conditions as ``run_bulk_operation``, but VMs that cannot be processed are
            no error.
    """
    vms = read_pending_vms(connection, select_requested(connection, request))
    return check_vms(connection, system, caller, request.operation, vms)[1]


def run_bulk_operation(
    connection: Connection, system: System, caller: Caller, request: BulkRequest
) -> BulkOperation:
    """Check all selected VMs and create one job for each of them.

    If an earlier call used the same token with the same parameters, the earlier operation is returned.

    Raises:
        PermissionDenied: the caller may not access a selected VM.
        InvalidCombination: the call has no filter.
        InvalidParameter: the caller cannot see a VM of ``ids``; no VM is selected, or not the expected number; the
            token was used with other parameters.
        VmsRefused: VMs cannot be processed, and the call is not partial or no VM is left.
    """
    if request.token is not None:
        earlier = find_operation_by_token(connection, caller.user_id, request.token)
        if earlier is not None:
            if earlier.fingerprint != request.fingerprint:
                rule = "the token was used before with other parameters; use a new token"
                raise InvalidParameter("requesttoken", request.token, rule)
            return BulkOperation(earlier.uuid, earlier.created, earlier.jobs, earlier.failed)
    read = read_pending_vms if request.operation.claims_hosts else lock_vms
    vms = read(connection, select_requested(connection, request))
    prepared, checked = check_vms(connection, system, caller, request.operation, vms)
    if checked.failed and not (request.partial and checked.vms):
        raise _rejection(request, checked.failed, len(vms))
    if prepared.hosts is not None:
        prepared.hosts.claim(connection)
        prepared.hosts.keep(connection, vms, lock_vm_states(connection, [vm.id for vm, _ in checked.vms]))
    return _write(connection, system, caller, request, prepared, checked.vms, checked.failed)


def select_requested(connection: Connection, request: BulkRequest) -> list[int]:
    """Return the ids of the VMs that a request selects, in ascending order.

    Raises:
        InvalidCombination, InvalidParameter: under the same conditions as ``run_bulk_operation``.
    """
    count_or_share("maxfailures", request.max_failures, 0)
    return find_selected(connection, request.selection, request.operation.states)


def check_vms(
    connection: Connection, system: System, caller: Caller, operation: VmOperation, vms: Sequence[Row[Any]]
) -> tuple[PreparedVms, BulkDryRun]:
    """Check VMs for a bulk operation.

    Returns the data that the operation prepared for the VMs, and the VMs that passed or failed.

    Raises:
        PermissionDenied: the caller may not access one of the VMs.
    """
    of_account = {f"virtual machine {vm.uuid}": vm.account_id for vm in {vm.account_id: vm for vm in vms}.values()}
    require_all_access(connection, caller, of_account)
    prepared = operation.prepare(connection, system, caller, vms)
    ready: list[tuple[Row[Any], VmWork]] = []
    failed: list[dict[str, Any]] = []
    for vm in vms:
        try:
            ready.append((vm, prepared.work_of(vm)))
        except (NoHostForVm, BulkDeployError) as error:
            failed.append(_failed(vm, *refusal(error)))
    return prepared, BulkDryRun(ready, failed)


def destruction(*, expunge: bool) -> VmOperation:
    """Return the bulk operation that destroys VMs. VMs that must not be destroyed are reported as failed."""
    return jobs_of_kind(DESTROY, {"expunge": expunge}, find_undestroyable)


def jobs_of_kind(kind: JobKind, params: Mapping[str, Any], find_refused: FindRefused | None = None) -> VmOperation:
    """Return the bulk operation that creates one job of this kind, with these parameters, for each VM.

    ``find_refused`` checks rules that apply in addition to the rules of the job kind.
    """
    prepare = partial(_prepare_jobs, kind=kind, params=params, find_refused=find_refused)
    return replace(VmOperation.of_kind(kind, prepare), accepts_alike=True)


def _prepare_jobs(
    connection: Connection,
    system: System,
    caller: Caller,
    vms: Sequence[Row[Any]],
    *,
    kind: JobKind,
    params: Mapping[str, Any],
    find_refused: FindRefused | None,
) -> PreparedVms:
    del caller
    refused = {} if find_refused is None else dict(find_refused(connection, vms))
    refused |= find_unready(connection, system, vms, kind)

    def work_of(vm: Row[Any]) -> VmJob:
        if vm.id in refused:
            raise InvalidParameter("id", str(vm.uuid), refused[vm.id])
        return VmJob(kind, params)

    return PreparedVms(work_of)


def _failed(vm: Row[Any], code: int, text: str) -> dict[str, Any]:
    return {"virtualmachineid": str(vm.uuid), "name": vm.name, "errorcode": code, "errortext": text}


def _rejection(request: BulkRequest, failed: Sequence[Mapping[str, Any]], selected: int) -> VmsRefused:
    name, value = request.selection.first_filter
    reasons = "; ".join(
        f"{vm['name']} ({vm['virtualmachineid']}): {vm['errortext']}" for vm in failed[:MOST_REASONS]
    )
    more = f"; and {len(failed) - MOST_REASONS} more" if len(failed) > MOST_REASONS else ""
    hint = "" if request.partial else " (partial=true processes the others)"
    rule = f"cannot {request.operation.verb} {len(failed)} of {selected} virtual machines{hint}: {reasons}{more}"
    return VmsRefused(name, value, rule, failed)


def _write(
    connection: Connection,
    system: System,
    caller: Caller,
    request: BulkRequest,
    prepared: PreparedVms,
    works: Sequence[tuple[Row[Any], VmWork]],
    failed: Sequence[Mapping[str, Any]],
) -> BulkOperation:
    operation_id, uuid, created = insert_operation(
        connection,
        {
            "command": request.command,
            "account_id": caller.owner.account_id,
            "user_id": caller.user_id,
            "vm_count": len(works),
            "max_parallel": request.max_parallel,
            "max_failures": count_or_share("maxfailures", request.max_failures, len(works)),
            "failed": list(failed),
            "request_token": request.token,
            "request_fingerprint": request.fingerprint if request.token is not None else None,
        },
    )
    changes = [(vm, work) for vm, work in works if isinstance(work, VmChange)]
    jobs = [(vm, work) for vm, work in works if isinstance(work, VmJob)]
    job_of = make_changes(connection, caller, request.operation, prepared, changes, operation_id)
    job_of |= make_jobs(connection, system, caller, jobs, operation_id, request.max_parallel)
    return BulkOperation(uuid, created, [(job_of[vm.id], vm.uuid) for vm, _ in works], failed)


def count_or_share(parameter: str, given: str | None, vms: int) -> int | None:
    """Return the number of VMs that a parameter such as ``maxfailures`` allows, or None if it is not given.

    A percentage such as ``10%`` is calculated from the number of VMs and rounded down.

    Raises:
        InvalidParameter: the value is neither a number nor a percentage from 0% to 100%.
    """
    if given is None:
        return None
    number, is_percentage = given.removesuffix("%"), given.endswith("%")
    if not number.isascii() or not number.isdigit() or (is_percentage and int(number) > 100) or len(number) > 9:
        rule = "it must be a number such as 5, or a percentage of the virtual machines such as 10%"
        raise InvalidParameter(parameter, given, rule)
    return int(number) * vms // 100 if is_percentage else int(number)
