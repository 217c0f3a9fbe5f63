"""The destinations of a running VM, and the claims of a migration on its destination and its source."""

from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.placement.capacity import HostAnswers
from bulkdeploy.placement.model import Purpose
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.need import PlacementNeed
from bulkdeploy.scheduling.place import BOUND, NoPlace, Place, claim_place, find_place, zone_as_seen
from bulkdeploy.scheduling.virtual_machine import VmToPlace, read_vm_to_place
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.virtual_machines.virtual_machine_migration import take_over_source


def find_destination(
    connection: Connection, vm_id: int, *, host_id: int | None, avoid_host_ids: frozenset[int]
) -> Place | NoPlace:
    """Return another host for a running VM, or the reason why there is none. Claims nothing.

    ``avoid_host_ids`` includes the present host. All placement rules apply except for cluster thresholds.
    """
    configuration = read_configuration(connection)
    vm = movable(connection, configuration, vm_id, host_id=host_id)
    if vm is None:
        return BOUND
    return find_place(connection, configuration, vm, vm.need, avoid_host_ids)


def claim_destination(connection: Connection, place: Place, migration: UUID) -> None:
    """Claim the destination of a running VM. The migration takes over the VM's claim on the source.

    Raises:
        TransactionConflict: a concurrent transaction changed the host; the whole transaction must be repeated.
        SourceReleasedError: the VM has no claim on a host any more.
    """
    take_over_source(connection, place.vm.uuid, migration)
    claim_place(connection, place)


def movable(
    connection: Connection, configuration: Configuration, vm_id: int, *, host_id: int | None = None
) -> VmToPlace | None:
    """Return the VM with its need for a move.

    Returns None if its devices prevent a move to ``host_id``, or to any other host if ``host_id`` is None.
    """
    vm = read_vm_to_place(connection, configuration, vm_id, host_id=host_id)
    return None if vm is None else replace(vm, need=replace(vm.need, purpose=Purpose.MOVE))


@dataclass(frozen=True, slots=True)
class Destinations:
    """The hosts to which a VM could move.

    ``need`` determines which hosts the VM could access at all. ``hosts`` has the result of the placement rules for
    each host.
    """

    need: PlacementNeed
    hosts: HostAnswers


def find_destinations(connection: Connection, vm_id: int, avoid_host_id: int) -> Destinations | None:
    """Return the hosts to which a running VM can move now, or None if its devices bind it to its host.

    The function only reads.
    """
    configuration = read_configuration(connection)
    vm = movable(connection, configuration, vm_id)
    if vm is None:
        return None
    snapshot, request = zone_as_seen(
        connection,
        configuration,
        vm.need,
        count=1,
        seed=vm_id,
        avoid_host_ids=frozenset({avoid_host_id}),
        lock=False,
    )
    return Destinations(vm.need, HostAnswers(snapshot, request, placement_catalog()))
