"""Where a running VM may move, and the claim that moves it: destination and source held at once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.placement.model import Reason
from bulkdeploy.placement.rooms import suitable_hosts
from bulkdeploy.scheduling.need import PlacementNeed
from bulkdeploy.scheduling.place import Place, claim_place, plan_in_zone, zone_as_seen
from bulkdeploy.scheduling.virtual_machine import VmToPlace, read_vm_to_place
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.virtual_machine_migration import take_over_source

BOUND = "its volumes or its address bind it to where it is"


def find_destination(
    connection: Connection, vm_id: int, *, host_id: int | None, avoid_host_ids: frozenset[int]
) -> Place | str:
    """Another host for a running VM, or why there is none; nothing is claimed.

    ``avoid_host_ids`` has the host it runs on. All rules of placement hold but the clusters' thresholds.
    """
    vm = movable(connection, vm_id, host_id=host_id)
    if vm is None:
        return BOUND
    configuration = read_configuration(connection)
    planned = plan_in_zone(connection, configuration, vm.need, count=1, seed=vm_id, avoid_host_ids=avoid_host_ids)
    if planned.plan.placed == 0:
        return f"no other host can take it ({_reasons(planned.plan.excluded)})"
    return Place(vm, vm.need, planned)


def claim_destination(connection: Connection, place: Place, migration: UUID) -> None:
    """Claim a running VM's destination; what it holds passes to the migration.

    Raises:
        TransactionConflict: repeat the whole transaction.
    """
    take_over_source(connection, place.vm.uuid, migration)
    claim_place(connection, place)


def movable(connection: Connection, vm_id: int, *, host_id: int | None = None) -> VmToPlace | None:
    """The VM as something to move; None where what it has keeps it from ``host_id``, or from any other host."""
    vm = read_vm_to_place(connection, vm_id, host_id=host_id)
    return None if vm is None else replace(vm, need=replace(vm.need, is_move=True))


@dataclass(frozen=True, slots=True)
class Destinations:
    """Hosts a VM could move to: ``suitable`` ones may take it now; ``need`` says which it could reach at all."""

    need: PlacementNeed
    suitable: frozenset[int]


def find_destinations(connection: Connection, vm_id: int, avoid_host_id: int) -> Destinations | None:
    """Where a running VM may move now; None where what it has binds it to where it is."""
    vm = movable(connection, vm_id)
    if vm is None:
        return None
    snapshot, request = zone_as_seen(
        connection,
        read_configuration(connection),
        vm.need,
        count=1,
        seed=vm_id,
        avoid_host_ids=frozenset({avoid_host_id}),
    )
    return Destinations(vm.need, frozenset(suitable_hosts(snapshot, request).tolist()))


def _reasons(excluded: Mapping[Reason, int]) -> str:
    return "hosts ruled out: " + ", ".join(f"{count} by {reason}" for reason, count in excluded.items())
