"""The deploy calls, of one VM, of many alike and of a list, in ONE transaction (one file: the way of a call).

Check, plan, claim and write; jobs are sent after the commit.

This is the synchronous half of a deployment (docs/architecture.md). A call that answers an error has changed
nothing. A call that dies before its commit has changed nothing; a call that dies after its commit leaves outbox
rows, which the sweeper sends.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice
from typing import Any

import numpy as np
import structlog
from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.deployment import DeployBatch, DeployRequest, DeploySpec
from bulkdeploy.domain.device_parameters import is_device_parameter
from bulkdeploy.domain.errors import (
    BulkDeployError,
    InsufficientAddresses,
    InsufficientCapacity,
    InvalidParameter,
    ResourceLimitExceeded,
    ResourceUnavailable,
)
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.drivers.abilities import Ability
from bulkdeploy.placement.model import Disk, HostAnswer, Ints
from bulkdeploy.provisioning.kinds.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage, bulk_queue
from bulkdeploy.request_id import working_for
from bulkdeploy.scheduling.need import PlacementNeed, choose_planners
from bulkdeploy.scheduling.nics import take_address
from bulkdeploy.scheduling.place import PlacedVms, Planned, claim_plans, plan_kinds_in_zone
from bulkdeploy.scheduling.reasons import in_words
from bulkdeploy.services.abilities import (
    has_ability,
    require_ability,
    require_device_parameters,
    require_driver,
    require_driver_of_cloud,
)
from bulkdeploy.services.deployments.batch_parts import Kind, Part, Wanted
from bulkdeploy.services.deployments.deployment_checks import KnownSpecs, check_deployments
from bulkdeploy.services.deployments.deployment_names import virtual_machine_names
from bulkdeploy.services.deployments.deployment_record import is_pinned, list_config, plan_record, shared_config
from bulkdeploy.services.deployments.list_entries import entry_of
from bulkdeploy.services.deployments.shown_plans import places_of, shown_plan
from bulkdeploy.services.passwords import new_guest_password
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.resource_counts import add_amounts_of, check_limits, most_within_limits
from bulkdeploy.store.configuration.configuration import Configuration, read_configuration
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.database.shared_transaction import Apart
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


@dataclass(frozen=True, slots=True)
class DeployCall:
    """A deploy call: whose it is, and what it asks for."""

    origin: rows.Origin
    batch: DeployBatch

    @classmethod
    def of_this_thread(cls, caller: Caller, batch: DeployBatch) -> "DeployCall":
        """A call that this thread answers."""
        return cls(rows.Origin.of_this_thread(caller), batch)


def deploy(connection: Connection, system: System, caller: Caller, request: DeployRequest) -> DeployedVms | DryRun:
    """Deploy a batch of one request: ``deploy_batch``."""
    return deploy_batch(connection, system, DeployCall.of_this_thread(caller, DeployBatch((request,))))


def deploy_batch(connection: Connection, system: System, call: DeployCall) -> DeployedVms | DryRun:
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
    batch, shared = call.batch, call.batch.shared
    if shared.request_token is not None:
        repeated = _repeated(connection, call.origin.caller, shared)
        if repeated is not None:
            return repeated
    if shared.minimum_count is None and not batch.partial and not shared.dry_run:
        (result,) = _deploy(connection, system, [call], [])
        return result
    without: list[_Fewer] = []
    while True:  # ends: each turn asks for fewer
        savepoint = connection.begin_nested()
        try:
            (result,) = _deploy(connection, system, [call], without)
        except _Fewer as fewer:
            without.append(fewer)
            savepoint.rollback()
        else:
            (savepoint.rollback if shared.dry_run else savepoint.commit)()
            if isinstance(result, DryRun):
                return keep_shown(connection, call.origin.caller, shared, result)
            return result


def deploy_together(
    connection: Connection, system: System, calls: Sequence[DeployCall]
) -> Sequence[DeployedVms | DryRun]:
    """Deploy all VMs of several calls for one zone, each as ``deploy_batch`` would after those before it.

    Of several calls each wants all of its VMs or none, without a token; all are bulk calls or none is, and all are
    pinned to one part of the zone or none is.

    Raises:
        Apart: some of them are refused beside the others.
        BulkDeployError, TransactionConflict: as ``deploy_batch``; of several calls it is not known whose it is.
    """
    if len(calls) == 1:
        return [deploy_batch(connection, system, calls[0])]
    return _deploy(connection, system, calls, [])


class _Refusals:
    """Which of the calls are refused; the error of a call that is alone is raised as it is."""

    def __init__(self, calls: int) -> None:
        self._calls, self._refused = calls, set[int]()

    @contextmanager
    def of(self, number: int) -> Iterator[None]:
        """What is refused inside is the call of this number."""
        try:
            yield
        except BulkDeployError:
            if self._calls == 1:
                raise
            self._refused.add(number)

    def note(self, number: int, is_refused: bool) -> None:
        """Whether the call of this number is."""
        if is_refused:
            self._refused.add(number)

    def check(self) -> None:
        """End the transaction where there are any.

        Raises:
            Apart: there are.
        """
        if self._refused:
            raise Apart(self._refused)


@dataclass(slots=True, eq=False)
class _Deploying:
    """A call on its way; ``new`` has its VMs, ``of_parts`` those of each of ``parts``."""

    call: DeployCall
    wanted: Wanted
    planned: list[Planned] | None = None
    parts: Sequence[Part] = ()
    new: rows.NewVms = rows.NO_VMS
    of_parts: Sequence[rows.NewVms] = ()
    addresses: Sequence[Sequence[Sequence[Address] | None]] = ()


def _deploy(
    connection: Connection, system: System, calls: Sequence[DeployCall], without: Sequence[_Fewer]
) -> Sequence[DeployedVms | DryRun]:
    """All of the calls, step by step; a call that is alone without VMs that were found to get no address.

    Lock order: zone, groups, clusters, hosts, pools, ranges, counts, rows.
    """
    zone_id, refusals = calls[0].batch.shared.zone_id, _Refusals(len(calls))
    keep_zone_rules(connection, zone_id)
    configuration = read_configuration(connection)
    every = _checked(connection, system, configuration, calls, refusals)
    if calls[0].batch.shared.bulk:
        lock_plans(connection, zone_id, **_pins_of_all(calls[0].batch))
    for fewer in without:
        every[0].wanted.leave_out(fewer.vms, fewer.error)
    _keep_all_within_limits(connection, every, refusals)
    _plan_all(connection, configuration, every, refusals)
    _make_identities(connection, every)
    _claim(connection, every)
    _take_addresses(connection, every, refusals)
    _name(connection, configuration, every, refusals)
    if calls[0].batch.shared.dry_run:
        return [_shown(connection, configuration, every[0])]
    add_amounts_of(connection, [(each.wanted.specs[0].owner, each.wanted.amounts()) for each in every])
    return _write(connection, system, configuration, every)


def _checked(
    connection: Connection,
    system: System,
    configuration: Configuration,
    calls: Sequence[DeployCall],
    refusals: _Refusals,
) -> list[_Deploying]:
    """The calls, none of which breaks a rule."""
    known = KnownSpecs() if len(calls) > 1 else None
    every = []
    for number, call in enumerate(calls):
        with refusals.of(number):
            specs = check_deployments(connection, configuration, call.origin.caller, call.batch, known)
            _check_drivers(connection, system, specs)
            needs = [placement_need(configuration, spec) for spec in specs]
            every.append(_Deploying(call, Wanted.of(call.batch, specs, needs)))
    refusals.check()
    return every


def _make_identities(connection: Connection, every: Sequence[_Deploying]) -> None:
    wanted = []
    for each in every:
        shared = each.call.batch.shared
        only = shared.vms[0] if shared.vms and each.call.batch.count == 1 else None
        wanted.append((int(each.wanted.kept.sum()), only))
    for each, new in zip(every, rows.reserve_identities(connection, wanted), strict=True):
        each.parts = each.wanted.parts(each.wanted.kinds(), each.planned)
        each.new, each.of_parts = new, [new.of(part.at, len(part.spec.disks)) for part in each.parts]


def _shown(connection: Connection, configuration: Configuration, dry: _Deploying) -> DryRun:
    """What a call would do."""
    wanted = dry.wanted
    planned = dry.planned or _look(connection, configuration, wanted.batch, _none_of(wanted.kinds()))
    kinds = [places_of(each) for each in dry.planned or ()]
    hosts, failures = planned[0].hosts, list(wanted.failures())
    return DryRun(plan_record(planned), wanted.batch.count, dry.new.count, hosts, dry.parts, failures, kinds)


def _none_of(kinds: Sequence[Kind]) -> list[Kind]:
    return [Kind(kind.need, kind.vms[:0]) for kind in kinds]


def keep_shown(connection: Connection, caller: Caller, request: DeployRequest, shown: DryRun) -> DryRun:
    """A dry run whose plan is kept, so that it can be applied; one that places nothing has no index."""
    if not shown.kinds:
        return shown
    return replace(shown, index=keep_plan(connection, caller.user_id, request.plan_fingerprint, shown.kinds))


def _claim(connection: Connection, every: Sequence[_Deploying]) -> None:
    placed = [
        PlacedVms(part.need, part.plan, new.uuids, new.volume_uuids)
        for each in every
        for part, new in zip(each.parts, each.of_parts, strict=True)
        if part.plan is not None
    ]
    if placed:
        claim_plans(connection, [planned for each in every for planned in each.planned or ()], placed)


def _name(
    connection: Connection, configuration: Configuration, every: Sequence[_Deploying], refusals: _Refusals
) -> None:
    """Give the VMs names, which no two of a call share, nor two in one network."""
    by_network: dict[int, set[str]] = defaultdict(set)
    for number, each in enumerate(every):
        with refusals.of(number):
            _name_one(connection, configuration, each, by_network)
    refusals.check()


def _name_one(
    connection: Connection, configuration: Configuration, each: _Deploying, by_network: Mapping[int, set[str]]
) -> None:
    batch, of_call, named = each.call.batch, set[str](), []
    for part, new in zip(each.parts, each.of_parts, strict=True):
        given = of_call.union(*(by_network[network.id] for network in part.spec.networks))
        names = virtual_machine_names(
            connection, configuration, part.spec, part.named, new, given, listed=batch.listed
        )
        if batch.listed:
            of_call.update(name.lower() for name in names)
        named.append(replace(new, names=names))
    for part, new in zip(each.parts, named, strict=True):
        for network in part.spec.networks if part.spec.request.has_given_names else ():
            by_network[network.id].update(name.lower() for name in new.names)
    each.of_parts = named
    each.new = each.new.named([(part.at, new.names) for part, new in zip(each.parts, named, strict=True)])


def _pins_of_all(batch: DeployBatch) -> dict[str, int | None]:
    """The place that all requests of a batch are pinned to; where they differ, none."""
    pins = {(each.pod_id, each.cluster_id, each.host_id) for each in batch.requests}
    pod, cluster, host = pins.pop() if len(pins) == 1 else (None, None, None)
    return {"pod_id": pod, "cluster_id": cluster, "host_id": host}


def _check_drivers(connection: Connection, system: System, specs: Sequence[DeploySpec]) -> None:
    """Every hypervisor has a driver, and one that knows all that guests shall have."""
    for spec in specs:
        require_driver(system.drivers, spec.hypervisor, *_chosen_by(spec.request))
        require_driver_of_cloud(
            connection, system.drivers, spec.zone.id, spec.hypervisor, *_chosen_by(spec.request)
        )
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


def _keep_all_within_limits(connection: Connection, every: Sequence[_Deploying], refusals: _Refusals) -> None:
    """Each call beside those of its owner that came before it; asked one by one only where not all of them fit."""
    if len(every) == 1:
        _keep_within_limits(connection, every[0].wanted)
        return
    of_owner: dict[int, list[tuple[int, Wanted]]] = defaultdict(list)
    for number, each in enumerate(every):
        of_owner[each.wanted.specs[0].owner.account_id].append((number, each.wanted))
    for calls in of_owner.values():
        owner = calls[0][1].specs[0].owner
        so_far = list(accumulate((wanted.amounts() for _, wanted in calls), ResourceAmounts.plus))
        try:
            check_limits(connection, owner, so_far[-1])
        except ResourceLimitExceeded:
            for (number, _), amounts in zip(calls, so_far, strict=True):
                with refusals.of(number):
                    check_limits(connection, owner, amounts)
    refusals.check()


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


def _plan_all(
    connection: Connection, configuration: Configuration, every: Sequence[_Deploying], refusals: _Refusals
) -> None:
    """Plan those that are to be started: what several calls want alike as one kind, which is then divided."""
    starting = [each for each in every if each.call.batch.shared.start_vm]
    if len(every) == 1:
        for each in starting:
            each.planned = _plan(connection, configuration, each.call.origin.caller, each.wanted)
        return
    alike: dict[PlacementNeed, list[tuple[_Deploying, Kind]]] = {}
    for each in starting:
        for kind in each.wanted.kinds():
            alike.setdefault(kind.need, []).append((each, kind))
    together = [Kind(need, np.arange(sum(len(kind.vms) for _, kind in wanted))) for need, wanted in alike.items()]
    planned = _look(connection, configuration, starting[0].call.batch, together) if together else []
    own: dict[tuple[int, PlacementNeed], Planned] = {}
    for whole, (need, wanted) in zip(planned, alike.items(), strict=True):
        plans = whole.plan.split([len(kind.vms) for _, kind in wanted])
        own.update(
            {(id(each), need): replace(whole, plan=plan) for (each, _), plan in zip(wanted, plans, strict=True)}
        )
    for number, each in enumerate(every):
        if each in starting:
            each.planned = [own[id(each), kind.need] for kind in each.wanted.kinds()]
            refusals.note(number, any(part.plan.refused for part in each.planned))
    refusals.check()


def _plan(connection: Connection, configuration: Configuration, caller: Caller, wanted: Wanted) -> list[Planned]:
    """The plans of all kinds, or the refusal that says how many VMs would fit and what ruled hosts out.

    Where the call accepts fewer, those that find no place are left out.
    """
    kinds = wanted.kinds()
    batch, shared = wanted.batch, wanted.batch.shared
    if shared.plan_index is None:
        planned = _look(connection, configuration, batch, kinds)
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
                why=_sentences(_missing(each, names), *each.said, in_words(each.plan.limiting)),
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
    why = _sentences(*refused.said, in_words(refused.plan.limiting))
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
    connection: Connection, configuration: Configuration, batch: DeployBatch, kinds: Sequence[Kind]
) -> list[Planned]:
    return plan_kinds_in_zone(
        connection,
        configuration,
        [(kind.need, len(kind.vms)) for kind in kinds],
        explain_host_ids=batch.shared.explain_host_ids,
    )


def _take_addresses(connection: Connection, every: Sequence[_Deploying], refusals: _Refusals) -> None:
    parts = [part for each in every for part in each.parts]
    if len(parts) > 1:
        lock_ranges(connection, [network.id for part in parts for network in part.spec.networks])
    of_network = _taken_together(connection, parts) if len(every) > 1 else {}
    for number, each in enumerate(every):
        with refusals.of(number):
            each.addresses = [_addresses(connection, each.wanted, part, of_network) for part in each.parts]
    refusals.check()


def _taken_together(connection: Connection, parts: Sequence[Part]) -> dict[int, Iterator[Address]]:
    """By network: an address for each VM of these parts that asks for none by name."""
    names: dict[int, str] = {}
    pods: dict[int, list[int | None]] = defaultdict(list)
    for part in parts:
        for position, network in enumerate(part.spec.networks):
            if network.guest_type != L2 and part.spec.request.nic_in(position, network.id).ip_address is None:
                names[network.id] = network.name
                pods[network.id] += _pods_of(part)
    return {
        network_id: iter(take_addresses(connection, network_id, names[network_id], pods[network_id]))
        for network_id in sorted(names)
    }


def _pods_of(part: Part) -> list[int | None]:
    """The pod of each VM; of those that are not placed the one that is asked for."""
    if part.plan is None:
        return [part.spec.request.pod_id] * part.count
    return list(part.plan.pod_ids.tolist())


def _addresses(
    connection: Connection, wanted: Wanted, part: Part, of_network: Mapping[int, Iterator[Address]]
) -> list[list[Address] | None]:
    """Per network one address per VM of the part; None for L2 networks, which have none.

    ``of_network``: addresses that were taken for several calls.

    Raises:
        _Fewer: there are too few, and the call accepts fewer VMs.
    """
    spec = part.spec
    taken: list[list[Address] | None] = []
    for position, network in enumerate(spec.networks):
        named = spec.request.nic_in(position, network.id)
        if named.ip_address is not None:
            with entry_of(wanted.batch, spec.request):
                address = take_address(connection, network, named.ip_address, parameter=named.ip_parameter)
            taken.append(None if address is None else [address])
        elif network.guest_type == L2:
            taken.append(None)
        elif network.id in of_network:
            taken.append(list(islice(of_network[network.id], part.count)))
        else:
            try:
                taken.append(take_addresses(connection, network.id, network.name, _pods_of(part)))
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
    connection: Connection, system: System, configuration: Configuration, every: Sequence[_Deploying]
) -> list[DeployedVms]:
    """All rows of the calls; their jobs are sent after the commit."""
    written, lists = [], []
    for each in every:
        more = list_config(each.wanted) if each.call.batch.listed else {}
        parts = [
            _new_part(system, configuration, each, at, more if at == 0 else {}) for at in range(len(each.parts))
        ]
        if not parts:
            raise TypeError("a call that makes no VM is refused before")
        queue = bulk_queue(each.new.count) if each.call.batch.shared.bulk else INTERACTIVE
        described = (DEPLOY.name, DEPLOY.command_class, DEPLOY.event_type, DEPLOY.describe(""))
        written.append(rows.NewCall(parts, each.new, queue, *described))
        lists.append(more)
    deployed = []
    for call, row, more in zip(written, rows.write_deployments(connection, written), lists, strict=True):
        deployed.append(DeployedVms(row.uuid, row.created, call.new.job_uuids, call.new.uuids, more))
        tell = partial(_tell, call.parts[0].origin, str(row.uuid), call.new.count)
        after_commit(connection, tell)
    messages = [JobMessage(job_id, DEPLOY.name, call.queue) for call in written for job_id in call.new.job_ids]
    send_jobs(connection, system.job_queue, messages)
    return deployed


def _passwords(system: System, spec: DeploySpec, count: int) -> list[bytes] | None:
    """Return a new password for each guest; None if the template or the hypervisor takes no passwords."""
    if not spec.template.password_enabled:
        return None
    if not has_ability(system.drivers, spec.hypervisor, Ability.GUEST_PASSWORDS):
        return None
    return [new_guest_password(system.cipher) for _ in range(count)]


def _tell(origin: rows.Origin, deployment: str, vms: int, _: object) -> None:
    with working_for(origin.request_id):
        log.info("deployed", deployment=deployment, vms=vms)


def _new_part(
    system: System, configuration: Configuration, each: _Deploying, at: int, more: Mapping[str, Any]
) -> rows.NewPart:
    """VMs that are configured alike; the first part's row is the call's, with its plan and ``more``."""
    part, new, is_first = each.parts[at], each.of_parts[at], at == 0
    names = (
        [vm.display_name or name for vm, name in zip(part.named, new.names, strict=True)] if part.named else None
    )
    return rows.NewPart(
        origin=each.call.origin,
        spec=part.spec,
        new=new,
        placed=part.plan,
        display_names=names or new.names,
        instance_suffix=configuration.text("instance.name"),
        addresses=each.addresses[at],
        passwords_encrypted=_passwords(system, part.spec, new.count),
        record={
            "vm_count": each.new.count if is_first else part.count,
            "asked_count": each.call.batch.count if is_first else part.count,
            "pinned": is_pinned(configuration, part.spec),
            "config": {**shared_config(part.spec), **more},
            "plan": plan_record(each.planned if is_first else None),
        },
    )
