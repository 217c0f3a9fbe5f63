"""The choice of hosts: by the planner itself, or by allocator programs (docs/how-to/allocators.md).

If a program chooses the hosts, the planner plans only on these hosts, with all rules, and the plan is claimed as
usual. Therefore a wrong or outdated answer of a program can only be rejected.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import structlog
from sqlalchemy import Connection, Engine

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.iallocator.running import NoAnswer, allocated, evacuated, host_of, run_allocator
from bulkdeploy.iallocator.zone_document import NamedZone, PlacedInstance, new_instance, zone_document
from bulkdeploy.placement.batch import BatchPlan, plan_batch
from bulkdeploy.placement.capacity import measure_capacity
from bulkdeploy.placement.catalog import PlacementCatalog
from bulkdeploy.placement.claimed_plans import add_members, after, with_members
from bulkdeploy.placement.model import Flags, PlacementRequest, Purpose, ZoneSnapshot
from bulkdeploy.placement.planner import plan
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.database.engine import call_outside
from bulkdeploy.store.ledger.exported_zone import an_owner, read_claims, read_places, read_zone_name
from bulkdeploy.store.ledger.snapshot import read_snapshot

log = structlog.get_logger(__name__)

BUILTIN = "builtin"
DIRECTORY = "bulkdeploy_allocator_directory"
"""Execution option of engines: where allocator programs are."""

TURNS = (1, 2)
"""A program whose answer does not stand any more is asked once more."""

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Allocation:
    """Plans, and the name of the allocator that chose their hosts. The name is empty if no allocator chose.

    ``allocator_texts`` has the reasons why earlier allocators gave no usable answer.
    """

    made: BatchPlan
    allocator: str
    allocator_texts: tuple[str, ...] = ()


def use_allocators_of(engine: Engine, directory: Path | None) -> None:
    """Set the directory of allocator programs for transactions of this engine, or None for no programs.

    Programs run in another working directory, so a relative path is resolved here.
    """
    engine.update_execution_options(**{DIRECTORY: None if directory is None else directory.absolute()})


def allocate(
    connection: Connection,
    configuration: Configuration,
    zone_id: int,
    snapshot: ZoneSnapshot,
    requests: Sequence[PlacementRequest],
    catalog: PlacementCatalog,
    *,
    account_id: int,
    vm_uuid: UUID | None = None,
) -> Allocation:
    """Plan an account's VMs with the first allocator of the zone's setting that places them.

    ``vm_uuid`` is given if the request is for one existing VM. Programs are not called for VMs that are pinned to a
    host, nor for an empty request.

    Raises:
        PlannerNotInstalled: a request names a planner that is not installed.
    """
    moves = vm_uuid is not None and requests[0].purpose is Purpose.MOVE
    allocator_texts: list[str] = []
    for name in allocators(configuration, "relocate" if moves else "allocate", zone_id):
        if name == BUILTIN or all(request.host_id is not None or not request.count for request in requests):
            return Allocation(plan_batch(snapshot, requests, catalog), BUILTIN, tuple(allocator_texts))
        for turn in TURNS:
            question = _Question(
                name,
                program_of(connection, name),
                named_zone(connection, zone_id),
                snapshot,
                requests,
                catalog,
                configuration.number(TIMEOUT, Scope.ZONE, zone_id),
                str(vm_uuid) if moves else None,
            )
            key = (name, turn, zone_id, account_id, vm_uuid, tuple(request.count for request in requests))
            chosen = call_outside(connection, key, question.answer)
            if isinstance(chosen, str):
                allocator_texts.append(f"allocator {name}: {chosen}")
                break
            made = plan_batch(snapshot, _bound(requests, chosen), catalog)
            if not made.refused:
                return Allocation(made, name, tuple(allocator_texts))
        else:
            allocator_texts.append(f"allocator {name}: hosts that it chose did not take their VMs, twice")
    return Allocation(
        plan_batch(snapshot, _bound(requests, [{}] * len(requests)), catalog), "", tuple(allocator_texts)
    )


def evacuate(
    connection: Connection, zone_id: int, host_id: int, vms: Mapping[int, str]
) -> Iterator[Mapping[int, int] | str | None]:
    """Yield the answers of the zone's allocators for VMs that leave a host: a mapping from VM to host.

    A value of None means that the planner is next in the setting. A text is the reason why an allocator did not
    answer. The caller continues the iteration if an answer cannot be used: a program is called once more, then the
    next allocator. ``vms`` maps ids to uuids.
    """
    configuration = read_configuration(connection)
    for name in allocators(configuration, "evacuate", zone_id):
        if name == BUILTIN:
            yield None
            return
        for turn in TURNS:
            choose = partial(
                _evacuation,
                name,
                program_of(connection, name),
                exported_zone(connection, zone_id),
                {node: host for host, node in named_zone(connection, zone_id).hosts.items()},
                vms,
                configuration.number(TIMEOUT, Scope.ZONE, zone_id),
            )
            answer = call_outside(connection, ("evacuate", name, turn, host_id), choose)
            yield answer
            if isinstance(answer, str):
                break


def _evacuation(
    name: str,
    program: Path | None,
    document: Mapping[str, Any],
    nodes: Mapping[str, int],
    vms: Mapping[int, str],
    timeout_s: float,
) -> Mapping[int, int] | str:
    wanted = {"type": "node-evacuate", "instances": list(vms.values()), "evac_mode": "primary-only"}
    try:
        result = answered(program, name, {**document, "request": wanted}, timeout_s)
        moved = evacuated(result, list(vms.values()), nodes)
    except NoAnswer as error:
        log.warning("allocator_refused", allocator=name, reason=str(error))
        return f"allocator {name}: {error}"
    log.info("allocator_answered", allocator=name, vms=len(moved))
    return {vm_id: moved[uuid] for vm_id, uuid in vms.items() if uuid in moved}


TIMEOUT = "placement.allocators.timeout"


def allocators(configuration: Configuration, task: str, zone_id: int) -> list[str]:
    """Return the names of the allocators for a task in a zone, in the order of the setting."""
    return configuration.text(f"placement.allocators.{task}", Scope.ZONE, zone_id).split(",")


def program_of(connection: Connection, name: str) -> Path | None:
    """Return the path of an allocator program, or None if the settings name no directory of programs."""
    directory: Path | None = connection.get_execution_options().get(DIRECTORY)
    return None if directory is None else directory / name


def named_zone(connection: Connection, zone_id: int) -> NamedZone:
    """Return the names of a zone's hosts and clusters and the claims on its hosts, for an allocator program.

    Names that are used twice are made unique.
    """
    hosts, clusters = read_places(connection, zone_id)
    return NamedZone(
        read_zone_name(connection, zone_id),
        {host.id: host.name for host in hosts},
        {cluster.id: (str(cluster.uuid), cluster.name) for cluster in clusters},
        [
            PlacedInstance(str(row.consumer), row.host_id, row.cpu_mhz, row.memory_mib, -(-row.local_bytes // MIB))
            for row in read_claims(connection, zone_id)
        ],
    )


def exported_zone(connection: Connection, zone_id: int) -> dict[str, Any]:
    """Return the zone in the form that allocator programs read, without a request."""
    account_id = an_owner(connection)
    snapshot = read_snapshot(
        connection,
        zone_id,
        owners_by_id(connection, [account_id])[account_id],
        read_configuration(connection),
        with_tags=False,
        with_local_storage=True,
        with_owner_hosts=False,
    )
    return zone_document(named_zone(connection, zone_id), snapshot)


def answered(program: Path | None, name: str, document: Mapping[str, Any], timeout_s: float) -> Any:
    """Run an allocator program with this document as its input, and return its result.

    Raises:
        NoAnswer: there is no such program, or the program failed, timed out or returned no valid result.
    """
    if program is None or not program.is_file():
        raise NoAnswer(f"allocator_directory has no program {name}")
    return run_allocator(program, document, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True)
class _Question:
    """The input of a call of an allocator program. The program runs while no transaction is open.

    ``moving`` is the VM that moves if the request is for a move.
    """

    name: str
    program: Path | None
    zone: NamedZone
    snapshot: ZoneSnapshot
    requests: Sequence[PlacementRequest]
    catalog: PlacementCatalog
    timeout_s: float
    moving: str | None

    def answer(self) -> list[Mapping[int, int]] | str:
        """Return the number of VMs per host for each request, or why the program did not place them."""
        try:
            chosen = list(self._of_each_request())
        except NoAnswer as error:
            log.warning("allocator_refused", allocator=self.name, reason=str(error))
            return str(error)
        log.info("allocator_answered", allocator=self.name, vms=sum(request.count for request in self.requests))
        return chosen

    def _of_each_request(self) -> Iterator[Mapping[int, int]]:
        """Yield the number of VMs per host for each request.

        The program is called for a request after the ones before it.
        """
        snapshot, placed = self.snapshot, list(self.zone.instances)
        members: dict[int, Mapping[int, int]] = {}
        for number, given in enumerate(self.requests):
            request = with_members(given, members)
            zone = replace(self.zone, instances=placed)
            chosen = self._of_one(zone, snapshot, request, f"vm-{number}-")
            yield chosen
            made = plan(snapshot, replace(request, most_by_host=chosen), self.catalog)
            snapshot = after(snapshot, request, made)
            add_members(request, made, members)
            cpu_mhz = request.cpu_number * request.cpu_mhz
            placed += [
                PlacedInstance(f"vm-{number}-{at}", host, cpu_mhz, request.memory_mib)
                for at, host in enumerate(made.host_ids.tolist())
            ]

    def _of_one(
        self, zone: NamedZone, snapshot: ZoneSnapshot, request: PlacementRequest, prefix: str
    ) -> Mapping[int, int]:
        document = zone_document(zone, snapshot, _usable(snapshot, request, self.catalog))
        nodes = {node: host for host, node in zone.hosts.items()}
        if self.moving is not None:
            (leaving,) = (one for one in zone.instances if one.name == self.moving)
            wanted = {
                "type": "relocate",
                "name": leaving.name,
                "required_nodes": 1,
                "disk_space_total": leaving.local_disk_mib,
                "relocate_from": [zone.hosts[leaving.host_id]],
            }
            result = answered(self.program, self.name, {**document, "request": wanted}, self.timeout_s)
            return {host_of(result, nodes): 1}
        names = [f"{prefix}{at}" for at in range(request.count)]
        instances = [new_instance(name, request) for name in names]
        wanted = {"type": "multi-allocate", "instances": instances}
        result = answered(self.program, self.name, {**document, "request": wanted}, self.timeout_s)
        return allocated(result, names, nodes)


def _usable(snapshot: ZoneSnapshot, request: PlacementRequest, catalog: PlacementCatalog) -> Flags:
    """Return which hosts can take a VM of the request according to all rules."""
    found = measure_capacity(snapshot, request, catalog)
    usable = np.zeros(len(snapshot.hosts.id), dtype=bool)
    usable[found.candidates.at[found.of_candidates() > 0]] = True
    return usable


def _bound(requests: Sequence[PlacementRequest], chosen: Sequence[Mapping[int, int]]) -> list[PlacementRequest]:
    return [replace(request, most_by_host=hosts) for request, hosts in zip(requests, chosen, strict=True)]
