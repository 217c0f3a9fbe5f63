"""The exchange of a VM's host and pools: old claims are released and new ones made in one step (ADR 5)."""

from collections.abc import Callable, Sequence
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.scheduling.place import BOUND, NoPlace, Place, claim_place, find_place
from bulkdeploy.scheduling.virtual_machine import read_vm_to_place
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.ledger.ledger import lock_move, release_hosts_of, release_pools_of
from bulkdeploy.store.ledger.placed_vms import forget_pools, lock_affinity_groups, read_vm, read_vm_groups
from bulkdeploy.store.ledger.zone_locks import keep_zone_rules


def replace_place(
    connection: Connection,
    vm_id: int,
    *,
    give_back: Callable[[], Sequence[UUID] | None],
    find: Callable[[], Place | NoPlace],
    claim: Callable[[Connection, Place], None] = claim_place,
) -> NoPlace | None:
    """Release the claims of a VM and claim another host and other pools for it in one step.

    Returns None, or the reason why there is no other host; then nothing is changed. The new place depends on the
    released claims, and both must be locked before either changes (ADR 5). Therefore the new host is determined in
    a trial that is rolled back. At no moment does the VM have claims on two hosts or on none.

    Args:
        connection: has an open transaction.
        vm_id: the VM.
        give_back: releases the VM's claim on its host, and returns the uuids of the volumes whose claims must be
            released, too.
        find: plans the VM after ``give_back``.
        claim: claims the planned host and pools.

    Raises:
        TransactionConflict: a concurrent transaction changed the same data; the whole transaction must be repeated.
    """
    found = find_other_place(connection, vm_id, give_back=give_back, find=find)
    if isinstance(found, NoPlace):
        return found
    place, volumes = found
    plan = place.planned.plan
    lock_move(
        connection,
        place.vm.uuid,
        volumes,
        plan.host_ids.tolist(),
        plan.pool_ids.ravel().tolist(),
        place.planned.thresholds,
    )
    give_back()
    claim(connection, place)
    return None


def find_other_place(
    connection: Connection,
    vm_id: int,
    *,
    give_back: Callable[[], Sequence[UUID] | None],
    find: Callable[[], Place | NoPlace],
) -> tuple[Place, Sequence[UUID]] | NoPlace:
    """Return the host and pools that a VM would get after releasing its claims, and the volumes to release.

    Returns the reason if there is no such host. Nothing is changed. The arguments are those of ``replace_place``.
    """
    keep_zone_rules(connection, read_vm(connection, vm_id).zone_id)
    if groups := read_vm_groups(connection, [vm_id])[vm_id]:
        lock_affinity_groups(connection, groups)
    trial = connection.begin_nested()
    volumes = give_back() or ()
    place = find()
    trial.rollback()
    return place if isinstance(place, NoPlace) else (place, volumes)


def move_claim(connection: Connection, vm_id: int, avoid_host_ids: frozenset[int]) -> NoPlace | None:
    """Plan a VM that never ran again, without the avoided hosts, and move its claims to the new host.

    Returns None, or the reason why there is no other host; then the claims are kept, and the caller releases them.
    The claims of volumes are released, too, because the hypervisor stores nothing of the failed attempt when this
    function is called.

    Raises:
        TransactionConflict: a concurrent transaction changed the same data; the whole transaction must be repeated.
    """
    configuration = read_configuration(connection)

    def give_back() -> list[UUID]:
        volumes = forget_pools(connection, vm_id)
        release_hosts_of(connection, [read_vm(connection, vm_id).uuid])
        release_pools_of(connection, volumes)
        return volumes

    def find() -> Place | NoPlace:
        vm = read_vm_to_place(connection, configuration, vm_id)
        if vm is None:
            return BOUND
        return find_place(connection, configuration, vm, vm.need, avoid_host_ids)

    return replace_place(connection, vm_id, give_back=give_back, find=find)
