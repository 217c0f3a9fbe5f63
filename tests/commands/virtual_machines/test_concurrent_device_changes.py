"""Devices of VMs, and what else happens to the VM or the device at the same moment."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import sleep
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from bulkdeploy.store.ledger.ledger import claim_pools, release_pools_of
from tests.commands.volumes.test_volumes import assert_audit_finds_nothing, requested
from tests.support.api.api_client import Answer
from tests.support.api.async_calls import change, refusal
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import ADMIN, USER, World

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


class Queue:
    """Calls that wait for one row, one behind the other."""

    def __init__(self, world: World, pool: ThreadPoolExecutor) -> None:
        self._world, self._pool, self._length = world, pool, 0

    def join(self, command: str, **parameters: object) -> Future[Answer]:
        """Make a root admin's call; returns when it waits behind those that joined before."""
        answer = self._pool.submit(self._world.client(ADMIN).post, command, **parameters)
        self._length += 1
        while not answer.done() and self._world.scalar(WAITING) < self._length:
            sleep(0.01)
        return answer


@contextmanager
def held(world: World, vm: str) -> Iterator[Queue]:
    """Calls that want the VM's row wait until the block is left."""
    with ThreadPoolExecutor(2) as pool, world.engine.begin() as connection:
        connection.execute(text("SELECT FROM virtual_machines WHERE uuid = :vm FOR UPDATE"), {"vm": vm})
        yield Queue(world, pool)


def refused(answer: Future[Answer]) -> tuple[int, Any]:
    """Status and text of an answer that is none."""
    found = answer.result()
    return found.status, found.body.get("errortext")


@pytest.mark.parametrize("device", ["volume", "nic"])
def test_a_vm_that_is_given_away_gets_nothing_of_its_old_owner(owned_world: World, device: str) -> None:
    """A call that was allowed for the old owner is judged anew when the VM turns out to be another's."""
    world = owned_world
    vm = deployed_vm(world, f"given-with-{device}", state="Stopped")
    new_owner = {"account": "customers-admin", "domainid": world.id_of("domains", "customers")}
    if device == "volume":
        thing = change(world, "createVolume", USER, **requested(world, "kept"))["id"]
        give = ("attachVolume", {"id": thing, "virtualmachineid": vm})
    else:
        offering = world.id_of("network_offerings", "DefaultIsolatedNetworkOfferingWithSourceNatService")
        place = {"zoneid": world.id_of("zones", "small"), "networkofferingid": offering}
        net = {"gateway": "10.78.0.1", "netmask": "255.255.255.0"}
        thing = change(world, "createNetwork", USER, name="kept", **place, **net)["id"]
        give = ("addNicToVirtualMachine", {"networkid": thing, "virtualmachineid": vm})
    with held(world, vm) as queue:
        moved = queue.join("assignVirtualMachine", virtualmachineid=vm, **new_owner)
        given = queue.join(give[0], **give[1])
    assert moved.result().status == 200, moved.result().text
    assert refused(given)[0] == {"volume": 431, "nic": 531}[device]
    assert len(world.rows("listNics", ADMIN, virtualmachineid=vm)) == 1
    if device == "volume":
        assert "virtualmachineid" not in world.rows("listVolumes", USER, id=thing)[0]
    assert_audit_finds_nothing(world)


def test_volumes_attached_at_once_can_run_with_their_vm(owned_world: World) -> None:
    """Two volumes in pools that no host reaches both of: a stopped VM gets one of them."""
    world = owned_world
    vm = deployed_vm(world, "two-clusters", state="Stopped")
    (root,) = world.rows("listVolumes", USER, virtualmachineid=vm)
    with world.engine.begin() as connection:
        release_pools_of(connection, [UUID(root["id"])])
    world.change("UPDATE volumes SET pool_id = NULL, state = 'Allocated' WHERE uuid = :root", root=root["id"])
    world.change("UPDATE virtual_machines SET host_id = NULL WHERE uuid = :vm", vm=vm)
    volumes = [_in_pool(world, pool) for pool in ("a-1-primary", "b-1-primary")]
    with held(world, vm) as queue:
        answers = [queue.join("attachVolume", id=volume, virtualmachineid=vm) for volume in volumes]
    assert [answer.result().status for answer in answers] == [200, 431]
    assert "cannot use the storage pool" in refused(answers[1])[1]
    assert_audit_finds_nothing(world)


def test_a_pool_of_another_hypervisor_is_out_of_reach(owned_world: World) -> None:
    """A volume in a zone-wide pool for one hypervisor type goes to VMs of that type only."""
    world = owned_world
    vm = deployed_vm(world, "on-kvm", state="Stopped")
    volume = _in_pool(world, "zone-wide")
    world.change("UPDATE storage_pools SET hypervisor = 'XenServer' WHERE name = 'zone-wide'")
    failure = refusal(world, "attachVolume", USER, id=volume, virtualmachineid=vm)
    assert (failure.status, "cannot use the storage pool" in failure.errortext) == (431, True)
    world.change("UPDATE storage_pools SET hypervisor = 'KVM' WHERE name = 'zone-wide'")
    assert change(world, "attachVolume", USER, id=volume, virtualmachineid=vm)["virtualmachineid"] == vm
    world.change("UPDATE storage_pools SET hypervisor = NULL WHERE name = 'zone-wide'")
    assert_audit_finds_nothing(world)


def _in_pool(world: World, pool: str) -> str:
    """A volume of acme that exists in this pool, as far as rows say."""
    volume = change(world, "createVolume", USER, **requested(world, f"in {pool}"))
    pool_id = world.scalar("SELECT id FROM storage_pools WHERE name = :pool", pool=pool)
    with world.engine.begin() as connection:
        claim_pools(connection, {pool_id: 2**62}, [pool_id], [volume["size"]], [volume["id"]])
    seen = {"pool": pool_id, "volume": volume["id"]}
    world.change("UPDATE volumes SET state = 'Ready', pool_id = :pool WHERE uuid = :volume", **seen)
    return str(volume["id"])
