"""The deploy calls, bulk and single: check, plan, claim and write in ONE transaction, then send.

The synchronous half of DESIGN section 4. A call that answers an error has changed nothing; a call
that dies before its commit has changed nothing; one that dies after it leaves outbox rows, which
the sweeper sends.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Address
from typing import Any

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from bulkdeploy.crash_points import CrashPoint
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.deployment import DeployAsk, DeploySpec, NetworkFacts
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    InvalidParameter,
    ResourceUnavailable,
)
from bulkdeploy.domain.jobs import JobKind
from bulkdeploy.placement.model import Disk, Plan
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage, bulk_queue
from bulkdeploy.scheduling.need import PlacementNeed
from bulkdeploy.scheduling.place import Planned, claim_plan, plan_in_zone
from bulkdeploy.services.deployment_checks import check_deployment
from bulkdeploy.services.deployment_names import virtual_machine_names
from bulkdeploy.services.deployment_record import is_pinned, plan_record, shared_config
from bulkdeploy.services.sending import send_jobs
from bulkdeploy.services.system import System
from bulkdeploy.store import deployment_rows as rows
from bulkdeploy.store.addresses import Address, take_addresses, take_named_address
from bulkdeploy.store.configuration import Configuration, read_configuration
from bulkdeploy.store.deployments import DeployedVms, find_by_token
from bulkdeploy.store.engine import TransactionConflict, run_transaction
from bulkdeploy.store.ledger import lock_zone
from bulkdeploy.store.resource_counts import add_amounts, check_limits

log = structlog.get_logger(__name__)

TOKEN_INDEX = "uq_deployments_request_token"  # noqa: S105 - the name of an index
L2 = "L2"


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a deploy call would do: its plan, and the names of what it mentions by id."""

    plan: Mapping[str, Any]
    asked: int
    fits: int


@dataclass(frozen=True, slots=True)
class _Written:
    """What the transaction hands on: the answer, and what is to be sent."""

    deployed: DeployedVms
    messages: tuple[JobMessage, ...] = ()


class _DryRunDone(Exception):
    """Carries a dry run's result out of its transaction, which is rolled back."""

    def __init__(self, result: DryRun) -> None:
        self.result = result
        super().__init__("dry run")


def deploy(system: System, caller: Caller, ask: DeployAsk) -> DeployedVms | DryRun:
    """Deploy ``ask.count`` alike VMs, or say why not; answers before any of them runs.

    With ``minimum_count`` fewer are accepted: as many as fit. With ``request_token`` the same call made
    again answers the same jobs. With ``dry_run`` nothing is kept.

    Raises:
        ParameterError, PermissionDenied, OwnerDisabled: a rule is broken (``services.deployment_checks``).
        ResourceLimitExceeded: the batch would pass a limit of the owner or of a domain above it.
        InsufficientCapacity, InsufficientAddresses: not all of them fit.
    """
    most = ask.count
    while True:
        try:
            work = partial(_deploy, caller=caller, ask=ask, most=most)
            written = run_transaction(system.engine, work, CrashPoint.DEPLOY_COMMIT)
            break
        except _DryRunDone as done:
            return done.result
        except InsufficientAddresses as error:
            if ask.minimum_count is None or not ask.minimum_count <= error.free < most:
                raise
            most = error.free
    if written.messages:
        log.info("deployed", deployment=str(written.deployed.uuid), vms=len(written.messages))
    send_jobs(system, written.messages)
    return written.deployed


def _deploy(connection: Connection, *, caller: Caller, ask: DeployAsk, most: int) -> _Written:
    """The whole transaction, for at most ``most`` VMs.

    Lock order: zone, groups, hosts, pools, ranges, counts, rows.
    """
    if ask.request_token is not None:
        repeated = _repeated(connection, caller, ask)
        if repeated is not None:
            return _Written(repeated)
    configuration = read_configuration(connection)
    spec = check_deployment(connection, configuration, caller, ask)
    if ask.bulk:
        lock_zone(connection, spec.zone.id)
    check_limits(connection, spec.owner, spec.per_vm.times(ask.count))
    need = _need(configuration, spec)
    planned = _plan(connection, configuration, spec, need, most) if ask.start_vm else None
    count = most if planned is None else planned.plan.placed
    new = rows.reserve_identities(connection, count, len(spec.disks))
    if planned is not None:
        claim_plan(connection, planned, need, new.uuids, new.volume_uuids)
    addresses = _addresses(connection, spec, None if planned is None else planned.plan, count)
    if ask.dry_run:
        raise _DryRunDone(DryRun(plan_record(planned), ask.count, count))
    new = replace(new, names=virtual_machine_names(connection, configuration, spec, new))
    add_amounts(connection, spec.owner, spec.per_vm.times(count))
    return _write(connection, configuration, caller, spec, planned, new, addresses)


def _repeated(connection: Connection, caller: Caller, ask: DeployAsk) -> DeployedVms | None:
    """The jobs of the earlier call with this token; another call under the same token is refused."""
    found = find_by_token(connection, caller.user_id, ask.request_token or "")
    if found is None:
        return None
    fingerprint, deployed = found
    if fingerprint != ask.fingerprint:
        raise InvalidParameter(
            "requesttoken", ask.request_token, "the token was used before with other parameters: take a new one"
        )
    return deployed


def _need(configuration: Configuration, spec: DeploySpec) -> PlacementNeed:
    """What placement must find for each VM; the planner by call, offering, setting (reference section 6.1)."""
    planner = spec.ask.planner or spec.offering.planner
    if planner is None and not spec.ask.bulk:
        planner = configuration.text("vm.deployment.planner")
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
        pod_id=spec.ask.pod_id if spec.ask.cluster_id is None and spec.ask.host_id is None else None,
        cluster_id=spec.ask.cluster_id if spec.ask.host_id is None else None,
        host_id=spec.ask.host_id,
        planner=planner,
    )


def _plan(
    connection: Connection, configuration: Configuration, spec: DeploySpec, need: PlacementNeed, most: int
) -> Planned:
    """The plan for at most ``most`` VMs, or the refusal that says how many would fit and what ruled hosts out."""
    seed = int.from_bytes(bytes.fromhex(rows.random_uuids(1)[0][:8]))
    planned = plan_in_zone(connection, configuration, need, count=most, seed=seed)
    least = spec.ask.minimum_count or spec.ask.count
    if planned.plan.placed >= least:
        return planned
    if not planned.pool_limits:
        raise ResourceUnavailable(f"No primary storage pool is available in zone {spec.zone.name}")
    if spec.ask.host_id is not None:
        scope = "the pinned host"
    elif spec.ask.cluster_id is not None:
        scope = "the pinned cluster"
    elif spec.ask.pod_id is not None:
        scope = "the pinned pod"
    else:
        scope = f"zone {spec.zone.name}"
    raise InsufficientCapacity(
        asked=spec.ask.count,
        fits=planned.plan.placed,
        scope=scope,
        reasons={reason.value: hosts for reason, hosts in planned.plan.excluded.items()},
        with_affinity=bool(spec.affinity_groups),
    )


def _addresses(
    connection: Connection, spec: DeploySpec, placed: Plan | None, count: int
) -> list[list[Address] | None]:
    """Per network one address per VM; None for L2 networks, which have none."""
    pods: list[int | None] = [None] * count if placed is None else list(placed.pod_ids.tolist())
    taken: list[list[Address] | None] = []
    for position, network in enumerate(spec.networks):
        if network.guest_type == L2:
            taken.append(None)
        elif position == 0 and spec.ask.ip_address is not None:
            taken.append([_named_address(connection, network, spec.ask.ip_address)])
        else:
            taken.append(take_addresses(connection, network.id, network.name, pods))
    return taken


def _named_address(connection: Connection, network: NetworkFacts, ip: str) -> Address:
    try:
        IPv4Address(ip)
    except ValueError:
        raise InvalidParameter("ipaddress", ip, "it must be an IPv4 address such as 10.1.0.17") from None
    named = take_named_address(connection, network.id, ip)
    if named is None:
        raise InvalidParameter("ipaddress", ip, f"it is in use, or outside the ranges of network {network.name}")
    return named


def _write(
    connection: Connection,
    configuration: Configuration,
    caller: Caller,
    spec: DeploySpec,
    planned: Planned | None,
    new: rows.NewVms,
    addresses: list[list[Address] | None],
) -> _Written:
    """All rows of the call."""
    try:
        deployment = rows.write_deployment_row(
            connection,
            spec=spec,
            caller=caller,
            count=new.count,
            pinned=is_pinned(configuration, spec),
            config=shared_config(spec),
            plan=plan_record(planned),
        )
    except IntegrityError as error:
        if TOKEN_INDEX in str(error.orig):
            raise TransactionConflict from error
        raise
    display = [spec.ask.display_name] * new.count if spec.ask.display_name is not None else new.names
    rows.write_vms(
        connection,
        spec=spec,
        caller=caller,
        deployment_id=deployment.id,
        new=new,
        placed=None if planned is None else planned.plan,
        display_names=display,
        instance_suffix=configuration.text("instance.name"),
        group_id=rows.ensure_instance_group(connection, spec.owner, spec.ask.group),
    )
    rows.write_volumes(connection, spec=spec, new=new, placed=None if planned is None else planned.plan)
    rows.write_nics(connection, spec=spec, new=new, addresses=addresses)
    rows.write_groups(connection, spec=spec, new=new)
    queue = bulk_queue(new.count) if spec.ask.bulk else INTERACTIVE
    rows.write_jobs(connection, spec=spec, caller=caller, deployment_id=deployment.id, new=new, queue=queue)
    deployed = DeployedVms(deployment.uuid, deployment.created, new.job_uuids, new.uuids)
    messages = tuple(JobMessage(job_id, JobKind.DEPLOY, queue) for job_id in new.job_ids)
    return _Written(deployed, messages)
