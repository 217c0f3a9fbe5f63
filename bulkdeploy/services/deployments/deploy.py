"""The deploy calls, bulk and single: check, plan, claim and write in ONE transaction, sent after its commit.

The synchronous half of DESIGN section 4. A call that answers an error has changed nothing; a call
that dies before its commit has changed nothing; one that dies after it leaves outbox rows, which
the sweeper sends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.deployment import DeployRequest, DeploySpec
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    InvalidParameter,
    ResourceUnavailable,
)
from bulkdeploy.placement.model import Disk, HostAnswer, Plan
from bulkdeploy.provisioning.kinds.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage, bulk_queue
from bulkdeploy.scheduling.need import PlacementNeed, choose_planners
from bulkdeploy.scheduling.nics import take_address
from bulkdeploy.scheduling.place import Planned, claim_plan, plan_in_zone
from bulkdeploy.scheduling.reasons import in_words
from bulkdeploy.services.abilities import require_driver
from bulkdeploy.services.deployments.deployment_checks import check_deployment
from bulkdeploy.services.deployments.deployment_names import virtual_machine_names
from bulkdeploy.services.deployments.deployment_record import is_pinned, plan_record, shared_config
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.resource_counts import add_amounts, check_limits, most_within_limits
from bulkdeploy.store.configuration.configuration import Configuration, read_configuration
from bulkdeploy.store.database.engine import after_commit
from bulkdeploy.store.deployments import deployment_rows as rows
from bulkdeploy.store.deployments.deployments import DeployedVms, find_by_token
from bulkdeploy.store.ledger.addresses import Address, take_addresses
from bulkdeploy.store.ledger.zone_locks import keep_zone_rules, lock_plans

log = structlog.get_logger(__name__)

L2 = "L2"


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a deploy call would do: its plan, by ids, how many VMs it would make, and what was asked of hosts."""

    plan: Mapping[str, Any]
    requested: int
    fits: int
    hosts: Sequence[HostAnswer]


def deploy(connection: Connection, system: System, caller: Caller, request: DeployRequest) -> DeployedVms | DryRun:
    """Deploy ``ask.count`` alike VMs, or say why not; their jobs are sent after the commit.

    With ``minimum_count`` fewer are accepted: as many as fit, by room, addresses and limits. With
    ``request_token`` the same call made again answers the same jobs. With ``dry_run`` nothing is kept.

    Raises:
        ParameterError, PermissionDenied, OwnerDisabled: a rule is broken (``deployment_checks``).
        ResourceLimitExceeded: the batch would pass a limit of the owner or of a domain above it.
        InsufficientCapacity, InsufficientAddresses: not all of them fit.
        TransactionConflict: somebody else was faster; repeat the whole transaction.
    """
    most = request.count
    if request.minimum_count is None and not request.dry_run:
        return _deploy(connection, system, caller, request, most)
    while True:  # ends: each turn asks for fewer
        savepoint = connection.begin_nested()
        try:
            result = _deploy(connection, system, caller, request, most)
        except InsufficientAddresses as error:
            if request.minimum_count is None or not request.minimum_count <= error.free < most:
                raise
            most = error.free
            savepoint.rollback()
        else:
            (savepoint.rollback if request.dry_run else savepoint.commit)()
            return result


def _deploy(
    connection: Connection, system: System, caller: Caller, request: DeployRequest, most: int
) -> DeployedVms | DryRun:
    """The whole call, for at most ``most`` VMs.

    Lock order: zone, groups, clusters, hosts, pools, ranges, counts, rows.
    """
    if request.request_token is not None:
        repeated = _repeated(connection, caller, request)
        if repeated is not None:
            return repeated
    keep_zone_rules(connection, request.zone_id)
    configuration = read_configuration(connection)
    spec = check_deployment(connection, configuration, caller, request)
    require_driver(system.drivers, spec.hypervisor, *_chosen_by(request))
    if request.bulk:
        pins = {"pod_id": request.pod_id, "cluster_id": request.cluster_id, "host_id": request.host_id}
        lock_plans(connection, spec.zone.id, **pins)
    most = _within_limits(connection, spec, most)
    need = _need(configuration, spec)
    planned = _plan(connection, configuration, spec, need, most) if request.start_vm else None
    count = most if planned is None else planned.plan.placed
    new = rows.reserve_identities(connection, count, len(spec.disks))
    if planned is not None:
        claim_plan(connection, planned, need, new.uuids, new.volume_uuids)
    addresses = _addresses(connection, spec, None if planned is None else planned.plan, count)
    if request.dry_run:
        shown = planned or _look(connection, configuration, spec, need, count=0)
        return DryRun(plan_record(shown), request.count, count, shown.hosts)
    new = replace(new, names=virtual_machine_names(connection, configuration, spec, new))
    add_amounts(connection, spec.owner, spec.per_vm.times(count))
    deployed, messages = _write(connection, configuration, caller, spec, planned, new, addresses)
    after_commit(connection, lambda _: log.info("deployed", deployment=str(deployed.uuid), vms=new.count))
    send_jobs(connection, system.job_queue, messages)
    return deployed


def _chosen_by(request: DeployRequest) -> tuple[str, str]:
    """The parameter that says which hypervisor, and its value."""
    if request.hypervisor is not None:
        return "hypervisor", request.hypervisor
    return "templateid", request.shown("templateid", request.template_id)


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


def _need(configuration: Configuration, spec: DeploySpec) -> PlacementNeed:
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


def _plan(
    connection: Connection, configuration: Configuration, spec: DeploySpec, need: PlacementNeed, most: int
) -> Planned:
    """The plan for at most ``most`` VMs, or the refusal that says how many would fit and what ruled hosts out."""
    planned = _look(connection, configuration, spec, need, count=most)
    least = spec.request.minimum_count or spec.request.count
    if planned.plan.placed >= least:
        return planned
    if not planned.pool_limits:
        raise ResourceUnavailable(f"No primary storage pool is available in zone {spec.zone.name}")
    if spec.request.host_id is not None:
        scope = "the pinned host"
    elif spec.request.cluster_id is not None:
        scope = "the pinned cluster"
    elif spec.request.pod_id is not None:
        scope = "the pinned pod"
    else:
        scope = f"zone {spec.zone.name}"
    raise InsufficientCapacity(
        requested=spec.request.count,
        fits=planned.plan.placed,
        scope=scope,
        why=in_words(planned.plan.excluded),
        with_affinity=bool(spec.affinity_groups),
    )


def _look(
    connection: Connection, configuration: Configuration, spec: DeploySpec, need: PlacementNeed, *, count: int
) -> Planned:
    seed = int.from_bytes(bytes.fromhex(rows.random_uuids(1)[0][:8]))
    hosts = spec.request.explain_host_ids
    return plan_in_zone(connection, configuration, need, count=count, seed=seed, explain_host_ids=hosts)


def _within_limits(connection: Connection, spec: DeploySpec, most: int) -> int:
    """How many of so many VMs the limits let the owner have; all of them, unless the call accepts fewer."""
    least = spec.request.minimum_count
    if least is None:
        check_limits(connection, spec.owner, spec.per_vm.times(most))
        return most
    check_limits(connection, spec.owner, spec.per_vm.times(least))
    return most_within_limits(connection, spec.owner, spec.per_vm, most)


def _addresses(
    connection: Connection, spec: DeploySpec, placed: Plan | None, count: int
) -> list[list[Address] | None]:
    """Per network one address per VM; None for L2 networks, which have none."""
    pods: list[int | None] = [spec.request.pod_id] * count if placed is None else list(placed.pod_ids.tolist())
    taken: list[list[Address] | None] = []
    for position, network in enumerate(spec.networks):
        named = spec.request.nic_in(position, network.id)
        if named.ip_address is not None:
            address = take_address(connection, network, named.ip_address, parameter=named.ip_parameter)
            taken.append(None if address is None else [address])
        elif network.guest_type == L2:
            taken.append(None)
        else:
            taken.append(take_addresses(connection, network.id, network.name, pods))
    return taken


def _write(
    connection: Connection,
    configuration: Configuration,
    caller: Caller,
    spec: DeploySpec,
    planned: Planned | None,
    new: rows.NewVms,
    addresses: list[list[Address] | None],
) -> tuple[DeployedVms, Sequence[JobMessage]]:
    """All rows of the call; the jobs to send."""
    deployment = rows.write_deployment_row(
        connection,
        spec=spec,
        caller=caller,
        count=new.count,
        pinned=is_pinned(configuration, spec),
        config=shared_config(spec),
        plan=plan_record(planned),
    )
    display = [spec.request.display_name] * new.count if spec.request.display_name is not None else new.names
    rows.write_vms(
        connection,
        spec=spec,
        caller=caller,
        deployment_id=deployment.id,
        new=new,
        placed=None if planned is None else planned.plan,
        display_names=display,
        instance_suffix=configuration.text("instance.name"),
        group_id=rows.ensure_instance_group(connection, spec.owner, spec.request.group),
    )
    rows.write_volumes(connection, spec=spec, new=new, placed=None if planned is None else planned.plan)
    rows.write_nics(connection, spec=spec, new=new, addresses=addresses)
    rows.write_groups(connection, spec=spec, new=new)
    deployed = DeployedVms(deployment.uuid, deployment.created, new.job_uuids, new.uuids)
    return deployed, _write_jobs(connection, caller, spec, deployment.id, new)


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
