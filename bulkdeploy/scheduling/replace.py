"""A VM gets another place: the old one is given back, the new one claimed, in one step and the order of locks."""

from collections.abc import Callable, Sequence
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.scheduling.place import Place, claim_place, plan_in_zone
from bulkdeploy.scheduling.virtual_machine import read_vm_to_place
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.ledger import lock_move, release_hosts_of, release_pools_of
from bulkdeploy.store.placed_vms import forget_pools, lock_affinity_groups, read_vm, read_vm_groups

NO_ROOM = "no other host has room for it"


def replace_place(
    connection: Connection,
    vm_id: int,
    *,
    give_back: Callable[[], Sequence[UUID] | None],
    find: Callable[[], Place | str],
    claim: Callable[[Connection, Place], None] = claim_place,
) -> str | None:
    """Give back what a VM holds and claim another place; None, or why there is none and everything is as it was.

    Where the VM goes depends on what it gives back, and both must be locked before either changes (ADR 5). So it
    is found out in a trial that is undone. No moment shows a VM with two places or with none.

    Args:
        connection: in a transaction.
        vm_id: the VM.
        give_back: gives back the VM's host, and the volumes it answers (uuids), if any.
        find: a place, as things are once that is done.
        claim: claims it.

    Raises:
        TransactionConflict: repeat the whole transaction.
    """
    if groups := read_vm_groups(connection, vm_id):
        lock_affinity_groups(connection, groups)
    trial = connection.begin_nested()
    volumes = give_back() or ()
    place = find()
    trial.rollback()
    if isinstance(place, str):
        return place
    plan = place.planned.plan
    lock_move(connection, place.vm.uuid, volumes, plan.host_ids.tolist(), plan.pool_ids.ravel().tolist())
    give_back()
    claim(connection, place)
    return None


def move_claim(connection: Connection, vm_id: int, avoid_host_ids: frozenset[int]) -> bool:
    """Plan a VM that never ran anew, without the avoided hosts, and move its claims there.

    False: no other place has room, or the VM's address is bound to its pod; the old claims are kept
    for the caller to release. The volumes' old rooms are given back, too: nothing of the failed try
    is left on the hypervisor when this is called.

    Raises:
        TransactionConflict: repeat the whole transaction.
    """
    configuration = read_configuration(connection)

    def give_back() -> list[UUID]:
        volumes = forget_pools(connection, vm_id)
        release_hosts_of(connection, [read_vm(connection, vm_id).uuid])
        release_pools_of(connection, volumes)
        return volumes

    def find() -> Place | str:
        vm = read_vm_to_place(connection, vm_id)
        if vm is None:
            return "its address binds it to where it is"
        planned = plan_in_zone(
            connection, configuration, vm.need, count=1, seed=vm_id, avoid_host_ids=avoid_host_ids
        )
        return Place(vm, vm.need, planned) if planned.plan.placed else NO_ROOM

    return replace_place(connection, vm_id, give_back=give_back, find=find) is None
