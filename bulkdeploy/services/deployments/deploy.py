"""The deploy calls, of one VM, of many alike and of a list, in ONE transaction (one file: the way of a call).

Check, plan, claim and write; jobs are sent after the commit.

The synchronous half of DESIGN section 4. A call that answers an error has changed nothing; a call
that dies before its commit has changed nothing; one that dies after it leaves outbox rows, which
the sweeper sends.
"""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import structlog
from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.deployment import DeployBatch, DeployRequest, DeploySpec
from bulkdeploy.domain.device_parameters import is_device_parameter
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    InvalidParameter,
    ResourceLimitExceeded,
    ResourceUnavailable,
)
from bulkdeploy.drivers.abilities import Ability
from bulkdeploy.placement.model import Disk, HostAnswer, Ints
from bulkdeploy.provisioning.kinds.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage, bulk_queue
from bulkdeploy.scheduling.need import PlacementNeed, choose_planners
from bulkdeploy.scheduling.nics import take_address
from bulkdeploy.scheduling.place import PlacedVms, Planned, claim_plans, plan_kinds_in_zone
from bulkdeploy.scheduling.reasons import in_words
from bulkdeploy.services.abilities import require_ability, require_device_parameters, require_driver
from bulkdeploy.services.deployments.batch_parts import Kind, Part, Wanted
from bulkdeploy.services.deployments.deployment_checks import check_deployments
from bulkdeploy.services.deployments.deployment_names import virtual_machine_names
from bulkdeploy.services.deployments.deployment_record import is_pinned, list_config, plan_record, shared_config
from bulkdeploy.services.deployments.list_entries import entry_of
from bulkdeploy.services.deployments.shown_plans import places_of, shown_plan
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.resource_counts import add_amounts, check_limits, most_within_limits
from bulkdeploy.store.configuration.configuration import Configuration, read_configuration
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.deployments import deployment_rows as rows
from bulkdeploy.store.deployments.deployments import DeployedVms, find_by_token, plan_hosts
from bulkdeploy.store.deployments.plans import keep_plan
from bulkdeploy.store.ledger.addresses import Address, lock_ranges, take_addresses
from bulkdeploy.store.ledger.zone_locks import keep_zone_rules, lock_plans

log = structlog.get_logger(__name__)

L2 = "L2"


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a deploy call would do: its plan, by ids, how many VMs it would make, and what was asked of hosts.

    ``parts``: the VMs that it would make, at their places. ``failures``: those of a partial call that it would not.
    ``kinds``: the places of each kind, as they are kept under ``index``.
    """

    plan: Mapping[str, Any]
    requested: int
    fits: int
    hosts: Sequence[HostAnswer]
    parts: Sequence[Part] = ()
    failures: Sequence[Mapping[str, Any]] = ()
    kinds: Sequence[Mapping[str, Any]] = ()
    index: int | None = None


class _Fewer(Exception):
    """Some VMs of a call that accepts fewer get no address: leave these out and begin anew."""

    def __init__(self, vms: Ints, error: InsufficientAddresses) -> None:
        self.vms, self.error = vms, error


def deploy(connection: Connection, system: System, caller: Caller, request: DeployRequest) -> DeployedVms | DryRun:
    """Deploy a batch of one request: ``deploy_batch``."""
    return deploy_batch(connection, system, caller, DeployBatch((request,)))


def deploy_batch(
    connection: Connection, system: System, caller: Caller, batch: DeployBatch
) -> DeployedVms | DryRun:
    """Deploy all VMs of a call, or say why not; their jobs are sent after the commit.

    With ``minimum_count`` fewer are accepted: as many as fit, by room, addresses and limits; a ``partial`` batch
    leaves out what does not fit, and says of each why. With ``request_token`` the same call made again answers the
    same jobs. With ``dry_run`` nothing is kept.

    Raises:
        ParameterError, PermissionDenied, OwnerDisabled: a rule is broken (``deployment_checks``).
        ResourceLimitExceeded: the batch would pass a limit of the owner or of a domain above it.
        InsufficientCapacity, InsufficientAddresses: not all of them fit, or of a partial batch none.
        TransactionConflict: another transaction was faster; repeat the whole transaction.
    """
    shared = batch.shared
    if shared.minimum_count is None and not batch.partial and not shared.dry_run:
        return _deploy(connection, system, caller, batch, [])
    without: list[_Fewer] = []
    while True:  # ends: each turn asks for fewer
        savepoint = connection.begin_nested()
        try:
            result = _deploy(connection, system, caller, batch, without)
        except _Fewer as fewer:
            without.append(fewer)
            savepoint.rollback()
        else:
            (savepoint.rollback if shared.dry_run else savepoint.commit)()
            return keep_shown(connection, caller, shared, result) if isinstance(result, DryRun) else result


def _deploy(
    connection: Connection, system: System, caller: Caller, batch: DeployBatch, without: Sequence[_Fewer]
) -> DeployedVms | DryRun:
    """The whole call, without VMs that were found to get no address.

    Lock order: zone, groups, clusters, hosts, pools, ranges, counts, rows.
    """
    shared = batch.shared
    if shared.request_token is not None:
        repeated = _repeated(connection, caller, shared)
        if repeated is not None:
            return repeated
    keep_zone_rules(connection, shared.zone_id)
    configuration = read_configuration(connection)
    specs = check_deployments(connection, configuration, caller, batch)
    _check_drivers(system, specs)
    if shared.bulk:
        lock_plans(connection, shared.zone_id, **_pins_of_all(batch))
    wanted = Wanted.of(batch, specs, [placement_need(configuration, spec) for spec in specs])
    for fewer in without:
        wanted.leave_out(fewer.vms, fewer.error)
    _keep_within_limits(connection, wanted)
    planned = _plan(connection, configuration, caller, wanted) if shared.start_vm else None
    parts = wanted.parts(wanted.kinds(), planned)
    only = shared.vms[0] if shared.vms and batch.count == 1 else None
    new = rows.reserve_identities(connection, int(wanted.kept.sum()), only)
    of_parts = [new.of(part.at, len(part.spec.disks)) for part in parts]
    if planned is not None and parts:
        _claim(connection, planned, parts, of_parts)
    if len(parts) > 1:
        lock_ranges(connection, [network.id for part in parts for network in part.spec.networks])
    addresses = [_addresses(connection, wanted, part) for part in parts]
    of_parts = _with_names(connection, configuration, batch, parts, of_parts)
    if shared.dry_run:
        shown = planned or _look(
            connection, configuration, wanted, [Kind(kind.need, kind.vms[:0]) for kind in wanted.kinds()]
        )
        record = plan_record(shown)
        kinds = [places_of(each) for each in planned or ()]
        return DryRun(record, batch.count, new.count, shown[0].hosts, parts, list(wanted.failures()), kinds)
    new = new.named([(part.at, each.names) for part, each in zip(parts, of_parts, strict=True)])
    add_amounts(connection, specs[0].owner, wanted.amounts())
    deployed, messages = _write(connection, configuration, caller, wanted, planned, parts, of_parts, addresses, new)
    after_commit(connection, lambda _: log.info("deployed", deployment=str(deployed.uuid), vms=new.count))
    send_jobs(connection, system.job_queue, messages)
    return deployed


def keep_shown(connection: Connection, caller: Caller, request: DeployRequest, shown: DryRun) -> DryRun:
    """A dry run whose plan is kept, so that it can be applied; one that places nothing has no index."""
    if not shown.kinds:
        return shown
    return replace(shown, index=keep_plan(connection, caller.user_id, request.plan_fingerprint, shown.kinds))


def _claim(
    connection: Connection, planned: Sequence[Planned], parts: Sequence[Part], of_parts: Sequence[rows.NewVms]
) -> None:
    placed = [
        PlacedVms(part.need, part.plan, new.uuids, new.volume_uuids)
        for part, new in zip(parts, of_parts, strict=True)
        if part.plan is not None
    ]
    claim_plans(connection, planned, placed)


def _with_names(
    connection: Connection,
    configuration: Configuration,
    batch: DeployBatch,
    parts: Sequence[Part],
    of_parts: Sequence[rows.NewVms],
) -> list[rows.NewVms]:
    """The parts' new VMs with names, which no two of the call share."""
    given: set[str] = set()
    named = []
    for part, new in zip(parts, of_parts, strict=True):
        names = virtual_machine_names(
            connection, configuration, part.spec, part.named, new, given, listed=batch.listed
        )
        given.update(name.lower() for name in names if batch.listed)
        named.append(replace(new, names=names))
    return named


def _pins_of_all(batch: DeployBatch) -> dict[str, int | None]:
    """The place that all requests of a batch are pinned to; where they differ, none."""
    pins = {(each.pod_id, each.cluster_id, each.host_id) for each in batch.requests}
    pod, cluster, host = pins.pop() if len(pins) == 1 else (None, None, None)
    return {"pod_id": pod, "cluster_id": cluster, "host_id": host}


def _check_drivers(system: System, specs: Sequence[DeploySpec]) -> None:
    """Every hypervisor has a driver, and one that knows all that guests shall have."""
    for spec in specs:
        require_driver(system.drivers, spec.hypervisor, *_chosen_by(spec.request))
        if len(spec.disks) > 1:
            data_disk = _data_disk_of(spec.request)
            require_ability(system.drivers, spec.hypervisor, Ability.DATA_VOLUMES, *data_disk)
        if (variant := spec.request.variant.name) is not None:
            require_ability(system.drivers, spec.hypervisor, Ability.TEMPLATE_VARIANTS, "templatevariant", variant)
        if spec.uefi is not None:
            require_ability(system.drivers, spec.hypervisor, Ability.UEFI, *_firmware_of(spec.request))
        _check_device_parameters(system, spec)


def _check_device_parameters(system: System, spec: DeploySpec) -> None:
    """The driver knows those of the call and of its offerings; whose they are to give ``given_details`` says.

    Raises:
        InvalidParameter: the driver knows one not.
    """
    request = spec.request
    given = sorted(name for name in request.details if is_device_parameter(name))
    sources = [("details", ", ".join(given), request.details)]
    offering = request.shown("serviceofferingid", spec.offering.id)
    sources.append(("serviceofferingid", offering, spec.offering.details))
    for disk in spec.disks:
        shown = request.shown("diskofferingid", disk.disk_offering_id or 0)
        sources.append(("diskofferingid", shown, disk.details))
    for parameter, value, details in sources:
        require_device_parameters(system.drivers, spec.hypervisor, details, parameter, value)


def _firmware_of(request: DeployRequest) -> tuple[str, str]:
    """The parameter that asks for UEFI, and its value: the call's own, or the template."""
    if request.boot_type is not None:
        return "boottype", request.boot_type
    return "templateid", request.shown("templateid", request.template_id)


def _chosen_by(request: DeployRequest) -> tuple[str, str]:
    """The parameter that says which hypervisor, and its value."""
    if request.hypervisor is not None:
        return "hypervisor", request.hypervisor
    return "templateid", request.shown("templateid", request.template_id)


def _data_disk_of(request: DeployRequest) -> tuple[str, str]:
    """The parameter that asks for a data disk, and its value."""
    parameter, offering_id = "diskofferingid", request.disk_offering_id
    if request.data_disks:
        parameter, offering_id = request.data_disks[0].parameter, request.data_disks[0].offering_id
    return parameter, "" if offering_id is None else request.shown(parameter, offering_id)


def _repeated(connection: Connection, caller: Caller, request: DeployRequest) -> DeployedVms | None:
    """The jobs of the earlier call with this token; another call under the same token is refused."""
    found = find_by_token(connection, caller.user_id, request.request_token or "")
    if found is None:
        return None
    fingerprint, deployed = found
    if fingerprint != request.fingerprint:
        raise InvalidParameter(
            "requesttoken", request.request_token, "the token was used before with other parameters: take a new one"
        )
    return deployed


def placement_need(configuration: Configuration, spec: DeploySpec) -> PlacementNeed:
    """What placement must find for each VM."""
    planner, offering_planner = choose_planners(
        configuration, bulk=spec.request.bulk, named=spec.request.planner, offering=spec.offering.planner
    )
    tag = {spec.template.tag} if spec.template.tag else set()
    return PlacementNeed(
        owner=spec.owner,
        zone_id=spec.zone.id,
        hypervisor=spec.hypervisor,
        cpu_number=spec.cpu_number,
        cpu_mhz=spec.cpu_mhz,
        memory_mib=spec.memory_mib,
        disks=tuple(Disk(disk.size_bytes, disk.storage_type, disk.tags) for disk in spec.disks),
        host_tags=spec.offering.host_tags | tag,
        affinity_group_ids=tuple(group.id for group in spec.affinity_groups),
        pod_id=spec.request.pod_id if spec.request.cluster_id is None and spec.request.host_id is None else None,
        cluster_id=spec.request.cluster_id if spec.request.host_id is None else None,
        host_id=spec.request.host_id,
        planner=planner,
        offering_planner=offering_planner,
    )


def _keep_within_limits(connection: Connection, wanted: Wanted) -> None:
    """Leave out VMs, the last ones first, that limits do not let the owner have, where the call accepts fewer."""
    batch, spec = wanted.batch, wanted.specs[0]
    least = batch.shared.minimum_count
    if least is not None:
        check_limits(connection, spec.owner, spec.per_vm.times(least))
        most = most_within_limits(connection, spec.owner, spec.per_vm, batch.count)
        wanted.leave_out(np.arange(most, batch.count), None)
        return
    try:
        check_limits(connection, spec.owner, wanted.amounts())
    except ResourceLimitExceeded as error:
        if not batch.partial:
            raise
        most = bisect(range(batch.count), 0, key=lambda at: _passes(connection, wanted, at + 1))
        if most == 0:
            raise
        wanted.leave_out(np.flatnonzero(wanted.kept & (np.arange(batch.count) >= most)), error)


def _passes(connection: Connection, wanted: Wanted, most: int) -> bool:
    """Whether so many of the VMs pass a limit."""
    try:
        check_limits(connection, wanted.specs[0].owner, wanted.amounts(most))
    except ResourceLimitExceeded:
        return True
    return False


def _plan(connection: Connection, configuration: Configuration, caller: Caller, wanted: Wanted) -> list[Planned]:
    """The plans of all kinds, or the refusal that says how many VMs would fit and what ruled hosts out.

    Where the call accepts fewer, those that find no place are left out.
    """
    kinds = wanted.kinds()
    batch, shared = wanted.batch, wanted.batch.shared
    if shared.plan_index is None:
        planned = _look(connection, configuration, wanted, kinds)
    else:
        planned = shown_plan(connection, configuration, caller, shared, kinds)
    placed = sum(each.plan.placed for each in planned)
    least = shared.minimum_count or (1 if batch.partial else batch.count)
    if placed < least and not planned[0].pool_limits:
        raise ResourceUnavailable(f"No primary storage pool is available in zone {wanted.specs[0].zone.name}")
    hosts = [each.shortage.host_id for each in planned if each.shortage is not None]
    names = {host_id: row["hostname"] for host_id, row in plan_hosts(connection, hosts).items()} if hosts else {}
    for kind, each in zip(kinds, planned, strict=True):
        if each.plan.refused:
            error = InsufficientCapacity(
                requested=each.plan.requested,
                fits=each.plan.placed if each.allocator else None,
                scope=_scope(wanted.specs[wanted.needs.index(kind.need)]),
                why=_sentences(_missing(each, names), *each.said, in_words(each.plan.excluded)),
                with_affinity=bool(kind.need.affinity_group_ids),
            )
            wanted.leave_out(kind.vms[each.plan.placed :], error)
    if placed < least:
        raise _refusal(wanted, planned, placed)
    return planned


def _refusal(wanted: Wanted, planned: Sequence[Planned], fits: int) -> InsufficientCapacity:
    """That not all of the call's VMs fit: of a list, which is the first that does not."""
    batch = wanted.batch
    (refused, *_) = (each for each in planned if each.plan.refused)
    why = _sentences(*refused.said, in_words(refused.plan.excluded))
    if batch.listed:
        number = min(wanted.why)
        vm = wanted.vm(number)
        what = f"virtualmachines[{vm.entry}]" + (f" ({vm.name})" if vm.name else "")
        error = wanted.why[number]
        why = f"the first that does not fit is {what}"
        why += f": {error.why}" if isinstance(error, InsufficientCapacity) else ""
    return InsufficientCapacity(
        requested=batch.count,
        fits=fits if refused.allocator else None,
        scope=_scope(wanted.specs[0]),
        why=why.rstrip("."),
        with_affinity=not batch.listed and bool(wanted.specs[0].affinity_groups),
    )


def _sentences(*parts: str) -> str:
    """Those that say something, one after the other, without the last full stop."""
    return ". ".join(part[0].upper() + part[1:].rstrip(".") for part in parts if part)


def _missing(planned: Planned, names: Mapping[int, str]) -> str:
    """What the host that comes closest lacks, in words; empty where it is not room that is missing."""
    short = planned.shortage
    if short is None or short.host_id not in names:
        return ""
    parts = [
        f"{amount} {unit}"
        for amount, unit in (
            (short.cpu_mhz, "MHz of CPU"),
            (short.memory_mib, "MiB of memory"),
            (short.storage_bytes, "bytes of storage for one disk"),
        )
        if amount
    ]
    return f"host {names[short.host_id]}, which comes closest, lacks {' and '.join(parts)}"


def _scope(spec: DeploySpec) -> str:
    """Where the VMs of a request may go, in words."""
    if spec.request.host_id is not None:
        return "the pinned host"
    if spec.request.cluster_id is not None:
        return "the pinned cluster"
    if spec.request.pod_id is not None:
        return "the pinned pod"
    return f"zone {spec.zone.name}"


def _look(
    connection: Connection, configuration: Configuration, wanted: Wanted, kinds: Sequence[Kind]
) -> list[Planned]:
    seed = int.from_bytes(bytes.fromhex(rows.random_uuids(1)[0][:8]))
    return plan_kinds_in_zone(
        connection,
        configuration,
        [(kind.need, len(kind.vms)) for kind in kinds],
        seed=seed,
        explain_host_ids=wanted.batch.shared.explain_host_ids,
    )


def _addresses(connection: Connection, wanted: Wanted, part: Part) -> list[list[Address] | None]:
    """Per network one address per VM of the part; None for L2 networks, which have none.

    Raises:
        _Fewer: there are too few, and the call accepts fewer VMs.
    """
    spec = part.spec
    placed = None if part.plan is None else list(part.plan.pod_ids.tolist())
    pods: list[int | None] = [spec.request.pod_id] * part.count if placed is None else placed
    taken: list[list[Address] | None] = []
    for position, network in enumerate(spec.networks):
        named = spec.request.nic_in(position, network.id)
        if named.ip_address is not None:
            with entry_of(wanted.batch, spec.request):
                address = take_address(connection, network, named.ip_address, parameter=named.ip_parameter)
            taken.append(None if address is None else [address])
        elif network.guest_type == L2:
            taken.append(None)
        else:
            try:
                taken.append(take_addresses(connection, network.id, network.name, pods))
            except InsufficientAddresses as error:
                raise _fewer(wanted, part, error) from error
    return taken


def _fewer(wanted: Wanted, part: Part, error: InsufficientAddresses) -> Exception:
    """Leave out as many of the part's VMs, the last ones, as get no address; or the error itself."""
    least = wanted.batch.shared.minimum_count
    if not wanted.batch.partial and (least is None or error.free < least):
        return error
    numbers = np.flatnonzero(wanted.kept)[part.at]
    gone = numbers[len(numbers) - (error.requested - error.free) :]
    if wanted.batch.partial and len(gone) == wanted.kept.sum():
        return error
    return _Fewer(gone, error)


def _write(
    connection: Connection,
    configuration: Configuration,
    caller: Caller,
    wanted: Wanted,
    planned: Sequence[Planned] | None,
    parts: Sequence[Part],
    of_parts: Sequence[rows.NewVms],
    addresses: Sequence[list[list[Address] | None]],
    new: rows.NewVms,
) -> tuple[DeployedVms, Sequence[JobMessage]]:
    """All rows of the call; the jobs to send. The first part's row is the call's, to which all jobs belong."""
    whole: Row[Any] | None = None
    more = list_config(wanted) if wanted.batch.listed else {}
    for part, part_new, taken in zip(parts, of_parts, addresses, strict=True):
        spec = part.spec
        row = rows.write_deployment_row(
            connection,
            spec=spec,
            caller=caller,
            count=new.count if whole is None else part.count,
            requested=wanted.batch.count if whole is None else part.count,
            batch_id=None if whole is None else whole.id,
            pinned=is_pinned(configuration, spec),
            config={**shared_config(spec), **({} if whole is not None else more)},
            plan=plan_record(planned if whole is None else None),
        )
        whole = whole or row
        _write_part(connection, configuration, caller, part, part_new, taken, row.id)
    if whole is None:
        raise TypeError("a call that makes no VM is refused before")
    deployed = DeployedVms(whole.uuid, whole.created, new.job_uuids, new.uuids, more)
    return deployed, _write_jobs(connection, caller, wanted.specs[0], whole.id, new)


def _write_part(
    connection: Connection,
    configuration: Configuration,
    caller: Caller,
    part: Part,
    new: rows.NewVms,
    addresses: list[list[Address] | None],
    deployment_id: int,
) -> None:
    """The rows of VMs that are configured alike."""
    spec = part.spec
    shown = (
        [vm.display_name or name for vm, name in zip(part.named, new.names, strict=True)]
        if part.named
        else new.names
    )
    rows.write_vms(
        connection,
        spec=spec,
        caller=caller,
        deployment_id=deployment_id,
        new=new,
        placed=part.plan,
        display_names=shown,
        instance_suffix=configuration.text("instance.name"),
        group_id=rows.ensure_instance_group(connection, spec.owner, spec.request.group),
    )
    rows.write_volumes(connection, spec=spec, new=new, placed=part.plan)
    rows.write_nics(connection, spec=spec, new=new, addresses=addresses)
    rows.write_groups(connection, spec=spec, new=new)


def _write_jobs(
    connection: Connection, caller: Caller, spec: DeploySpec, deployment_id: int, new: rows.NewVms
) -> list[JobMessage]:
    """One job per VM; their messages."""
    queue = bulk_queue(new.count) if spec.request.bulk else INTERACTIVE
    rows.write_jobs(
        connection,
        spec=spec,
        caller=caller,
        deployment_id=deployment_id,
        new=new,
        queue=queue,
        kind=DEPLOY.name,
        cmd=DEPLOY.command_class,
        event_type=DEPLOY.event_type,
        description=DEPLOY.describe(""),
    )
    return [JobMessage(job_id, DEPLOY.name, queue) for job_id in new.job_ids]
