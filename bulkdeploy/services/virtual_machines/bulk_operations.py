"""One operation on many VMs: selected, checked together, and done by one job per VM.

All checks come first. A call that passes them writes the operation, its jobs, their events and their outbox rows in
the transaction of the call, with a constant number of statements. The jobs are those of the single calls.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.virtual_machines import GONE
from bulkdeploy.provisioning.job_kind import JobKind
from bulkdeploy.queue.job_queue import JobMessage, bulk_queue
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.virtual_machines import find_unready
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.jobs.bulk_operations import find_operation_by_token, insert_operation
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.jobs import insert_jobs
from bulkdeploy.store.virtual_machines.guests import lock_vms
from bulkdeploy.store.virtual_machines.virtual_machines import select_vms
from bulkdeploy.store.visibility import Visibility

MOST_REASONS = 100
"""An error names at most this number of VMs that cannot be processed."""

REJECTED = 431
"""The HTTP status of InvalidParameter, which the single call would answer."""

FindRefused: TypeAlias = Callable[[Connection, Sequence[Row[Any]]], Mapping[int, str]]
"""Returns for each locked VM that an operation must not touch the rule that forbids it, by VM id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmSelection:
    """The VMs that a call selects.

    Attributes:
        filters: filters of listVirtualMachines, and ``deploymentid``; at least one.
        visible: the accounts whose VMs the filters select from.
        excluded: VMs that the filters do not select.
        expected_count: the number of selected VMs; None accepts any number.
    """

    filters: Arguments
    visible: Visibility
    excluded: Sequence[EntityRef] = ()
    expected_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRequest:
    """A call for one operation on many VMs.

    Attributes:
        command: the name of the API command.
        kind: the kind of the jobs.
        params: the parameters of each job.
        find_refused: rules of the command beyond those of the kind.
        partial: leave out VMs that cannot be processed, instead of rejecting the call.
        dry_run: check only.
        max_parallel: the number of jobs that may be under way at once; None: all of them.
        max_failures: the operation is cancelled if more jobs fail than this number, or this percentage (``10%``).
        token, fingerprint: the request token, and the digest of the call's other parameters.
    """

    command: str
    kind: JobKind
    selection: VmSelection
    params: Mapping[str, Any]
    find_refused: FindRefused | None = None
    partial: bool = False
    dry_run: bool = False
    max_parallel: int | None = None
    max_failures: str | None = None
    token: str | None = None
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class BulkDryRun:
    """The VMs that a call would process, and the rows of those that it would leave out or be rejected for."""

    vms: Sequence[Row[Any]]
    failed: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """An operation that was written: its jobs, as pairs of a job's and its VM's uuid, and the VMs left out."""

    uuid: UUID
    created: datetime
    jobs: Sequence[tuple[UUID, UUID]]
    failed: Sequence[Mapping[str, Any]]


def run_bulk_operation(
    connection: Connection, system: System, caller: Caller, request: BulkRequest
) -> BulkOperation | BulkDryRun:
    """Check all selected VMs and make one job for each; a call with a known token returns its earlier operation.

    Raises:
        PermissionDenied: the caller may not touch a selected VM.
        InvalidCombination: the call has no filter.
        InvalidParameter: the caller cannot see a VM of ``ids``; no VM is selected, or not the expected number; VMs
            cannot be processed, and the call is not partial or no VM is left; the token was used with other
            parameters.
    """
    if request.token is not None and not request.dry_run:
        earlier = find_operation_by_token(connection, caller.user_id, request.token)
        if earlier is not None:
            if earlier.fingerprint != request.fingerprint:
                rule = "the token was used before with other parameters; use a new token"
                raise InvalidParameter("requesttoken", request.token, rule)
            return BulkOperation(earlier.uuid, earlier.created, earlier.jobs, earlier.failed)
    _most_failures(request.max_failures, 0)
    vms = lock_vms(connection, _select(connection, request))
    for account_id, vm in {vm.account_id: vm for vm in vms}.items():
        require_access(connection, caller, account_id, f"virtual machine {vm.uuid}")
    refused = dict(find_unready(connection, system, vms, request.kind))
    if request.find_refused is not None:
        refused |= {**request.find_refused(connection, vms), **refused}
    ready = [vm for vm in vms if vm.id not in refused]
    failed = [_failed(vm, refused[vm.id]) for vm in vms if vm.id in refused]
    if request.dry_run:
        return BulkDryRun(ready, failed)
    if failed and not (request.partial and ready):
        raise _rejection(request, failed, len(vms))
    return _write(connection, system, caller, request, ready, failed)


def _select(connection: Connection, request: BulkRequest) -> list[int]:
    selection = request.selection
    if not selection.filters:
        rule = "the call must select virtual machines, by ids or by filters of listVirtualMachines"
        raise InvalidCombination(("ids",), rule)
    named = selection.filters.get("ids", ())
    if named:
        seen = set(select_vms(connection, selection.visible, {"ids": named}))
        for vm in named:
            if vm.id not in seen:
                raise InvalidParameter("ids", str(vm.uuid), "there is no virtual machine with this id")
    is_explicit = "ids" in selection.filters or "state" in selection.filters
    vm_ids = select_vms(
        connection,
        selection.visible,
        selection.filters,
        without=() if is_explicit else GONE - request.kind.states,
        excluded_ids=[vm.id for vm in selection.excluded],
    )
    if selection.expected_count not in (None, len(vm_ids)):
        rule = f"{len(vm_ids)} virtual machines are selected"
        raise InvalidParameter("expectedcount", selection.expected_count, rule)
    if not vm_ids:
        name, value = _first_filter(selection)
        raise InvalidParameter(name, value, "no virtual machine is selected")
    return vm_ids


def _first_filter(selection: VmSelection) -> tuple[str, str]:
    name = next(iter(selection.filters))
    value = selection.filters[name]
    if name == "ids":
        return name, ",".join(str(vm.uuid) for vm in value[:3]) + (",..." if len(value) > 3 else "")
    return name, str(value.uuid) if isinstance(value, EntityRef) else str(value)


def _failed(vm: Row[Any], rule: str) -> dict[str, Any]:
    return {
        "virtualmachineid": str(vm.uuid),
        "name": vm.name,
        "errorcode": REJECTED,
        "errortext": rule,
    }


def _rejection(request: BulkRequest, failed: Sequence[Mapping[str, Any]], selected: int) -> InvalidParameter:
    name, value = _first_filter(request.selection)
    reasons = "; ".join(
        f"{vm['name']} ({vm['virtualmachineid']}): {vm['errortext']}" for vm in failed[:MOST_REASONS]
    )
    more = f"; and {len(failed) - MOST_REASONS} more" if len(failed) > MOST_REASONS else ""
    hint = "" if request.partial else " (partial=true processes the others)"
    rule = f"cannot {request.kind.verb} {len(failed)} of {selected} virtual machines{hint}: {reasons}{more}"
    return InvalidParameter(name, value, rule)


def _write(
    connection: Connection,
    system: System,
    caller: Caller,
    request: BulkRequest,
    vms: Sequence[Row[Any]],
    failed: Sequence[Mapping[str, Any]],
) -> BulkOperation:
    operation_id, uuid, created = insert_operation(
        connection,
        {
            "command": request.command,
            "account_id": caller.owner.account_id,
            "user_id": caller.user_id,
            "vm_count": len(vms),
            "max_parallel": request.max_parallel,
            "max_failures": _most_failures(request.max_failures, len(vms)),
            "failed": list(failed),
            "request_token": request.token,
            "request_fingerprint": request.fingerprint if request.token is not None else None,
        },
    )
    kind, queue, in_turn = request.kind, bulk_queue(len(vms)), _spread_over_hosts(vms)
    jobs = insert_jobs(
        connection,
        [
            kind.new_job(
                Instance(kind.instance_type, vm.id, vm.uuid),
                f"asked to {kind.verb} Vm {vm.name}",
                account_id=caller.owner.account_id,
                user_id=caller.user_id,
                is_root_admin=caller.is_root_admin,
                params=request.params,
            )
            for vm in in_turn
        ],
        queue,
        operation_id,
        request.max_parallel,
    )
    messages = [JobMessage(job_id, kind.name, queue) for job_id, _ in jobs[: request.max_parallel]]
    send_jobs(connection, system.job_queue, messages)
    job_of = {vm.id: job_uuid for vm, (_, job_uuid) in zip(in_turn, jobs, strict=True)}
    return BulkOperation(uuid, created, [(job_of[vm.id], vm.uuid) for vm in vms], failed)


def _most_failures(given: str | None, vms: int) -> int | None:
    """Return the number that ``maxfailures`` allows, a percentage rounded down.

    Raises:
        InvalidParameter: it is neither a number nor a percentage from 0% to 100%.
    """
    if given is None:
        return None
    number, is_percentage = given.removesuffix("%"), given.endswith("%")
    if not number.isascii() or not number.isdigit() or (is_percentage and int(number) > 100) or len(number) > 9:
        rule = "it must be a number such as 5, or a percentage of the virtual machines such as 10%"
        raise InvalidParameter("maxfailures", given, rule)
    return int(number) * vms // 100 if is_percentage else int(number)


def _spread_over_hosts(vms: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Return the VMs in an order in which each host's VMs are as far apart as possible."""
    seen: Counter[int | None] = Counter()
    turns = []
    for at, vm in enumerate(vms):
        turns.append((seen[vm.host_id], at))
        seen[vm.host_id] += 1
    return [vms[at] for _, at in sorted(turns)]
