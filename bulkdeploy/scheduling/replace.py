"""A deployment that failed on its host gets another one: claim the new, release the old, in one step."""

from sqlalchemy import Connection

from bulkdeploy.scheduling.place import claim_plan, plan_in_zone, write_placed
from bulkdeploy.scheduling.virtual_machine import read_vm_to_place
from bulkdeploy.store.configuration import read_configuration
from bulkdeploy.store.ledger import release_hosts_of, release_pools_of
from bulkdeploy.store.placed_vms import forget_pools


def move_claim(connection: Connection, vm_id: int, avoid_host_ids: frozenset[int]) -> bool:
    """Plan a VM that never ran anew, without the avoided hosts, and move its claims there.

    False: no other place has room, or the VM's address is bound to its pod; the old claims are kept
    for the caller to release. The volumes' old rooms are given back first: nothing of the failed try
    is left on the hypervisor when this is called. Runs in the caller's transaction, so no moment shows
    a VM with two hosts or with none.

    Raises:
        TransactionConflict: repeat the whole transaction.
    """
    configuration = read_configuration(connection)
    savepoint = connection.begin_nested()
    volumes = forget_pools(connection, vm_id)
    vm = read_vm_to_place(connection, vm_id)
    if vm is None:
        savepoint.rollback()
        return False
    release_hosts_of(connection, [vm.uuid])
    release_pools_of(connection, volumes)
    planned = plan_in_zone(connection, configuration, vm.need, count=1, seed=vm_id, avoid_host_ids=avoid_host_ids)
    if planned.plan.placed == 0:
        savepoint.rollback()
        return False
    claim_plan(connection, planned, vm.need, [vm.uuid], [[volume] for volume in vm.unplaced_volumes])
    write_placed(connection, vm, planned.plan)
    savepoint.commit()
    return True
