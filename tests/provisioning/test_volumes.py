"""Data volumes made on their own outlive their VMs; deleted, they leave nothing on any pool."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.volume_removal import VolumeRemoval
from bulkdeploy.services.accounts.account_removal import remove
from bulkdeploy.services.ownership import NamedOwner
from bulkdeploy.services.virtual_machines.virtual_machines import destroy_virtual_machine
from bulkdeploy.services.volumes.volume_attachment import attach_volume, detach_volume
from bulkdeploy.services.volumes.volumes import create_volume, delete_volume
from tests.support.zones.fleet import Fleet, OneDriver


def ref(fleet: Fleet, kind: Entity, table: str, name: str) -> EntityRef:
    """A live row as a handler is given it."""
    (row,) = fleet.zone.rows(f"SELECT id, uuid FROM {table} WHERE name = :name AND removed IS NULL", name=name)
    return EntityRef(kind, row.id, row.uuid, name)


def make(fleet: Fleet, name: str) -> EntityRef:
    """A new volume without a place."""
    zone = ref(fleet, Entity.ZONE, "zones", "small")
    offering = ref(fleet, Entity.DISK_OFFERING, "disk_offerings", "20 GiB")
    fleet.change(create_volume, fleet.caller, NamedOwner(), name, zone, offering, None)
    return ref(fleet, Entity.VOLUME, "volumes", name)


def attach(fleet: Fleet, name: str) -> UUID:
    """A new volume that the only VM has, and its guest."""
    volume = make(fleet, name)
    vm = fleet.vms()[0]
    fleet.change(
        attach_volume,
        fleet.system,
        fleet.caller,
        volume,
        EntityRef(Entity.VIRTUAL_MACHINE, vm.id, vm.uuid, vm.name),
        None,
    )
    fleet.run()
    return volume.uuid


@pytest.fixture
def attached(fleet: Fleet) -> tuple[Fleet, UUID, UUID]:
    """A running VM with two volumes."""
    fleet.deploy(1)
    fleet.run()
    return fleet, attach(fleet, "one"), attach(fleet, "other")


def test_volumes_of_their_own_outlive_their_vms(attached: tuple[Fleet, UUID, UUID]) -> None:
    """Expunging a VM removes its root disk and detaches what createVolume made: data, room and counts stay."""
    fleet, one, other = attached
    fleet.assert_intact()
    fleet.run(fleet.make_job(DESTROY, fleet.vms()[0].id, expunge=True))
    assert fleet.results()[-1] == {"virtualmachine": {}}
    assert fleet.vms()[0].removed is not None
    assert fleet.volumes() == {one, other}
    rows = fleet.zone.rows("SELECT uuid, vm_id, device_id, attached, state FROM volumes WHERE removed IS NULL")
    assert {tuple(row) for row in rows} == {(uuid, None, None, None, "Ready") for uuid in (one, other)}
    assert fleet.zone.scalar("SELECT count(*) FROM storage_claims") == 2
    fleet.assert_intact()


@pytest.mark.parametrize("expunge", [False, True])
def test_volumes_that_are_named_go_with_their_vm(attached: tuple[Fleet, UUID, UUID], *, expunge: bool) -> None:
    """``volumeids``: once the VM is destroyed they are deleted, with room and counts; others are refused."""
    fleet, one, other = attached
    vm = ref(fleet, Entity.VIRTUAL_MACHINE, "virtual_machines", fleet.vms()[0].name)
    named = [ref(fleet, Entity.VOLUME, "volumes", "one")]
    with pytest.raises(InvalidParameter, match="volumeids"):
        fleet.change(
            destroy_virtual_machine,
            fleet.system,
            fleet.caller,
            vm,
            expunge=expunge,
            volumes=[*named, make(fleet, "of nobody")],
        )
    fleet.change(destroy_virtual_machine, fleet.system, fleet.caller, vm, expunge=expunge, volumes=named)
    assert states(fleet)["one"] == "Ready"
    fleet.run()
    assert states(fleet)["one"] == "Destroy"
    sweep(fleet)
    assert states(fleet) == {"one": "Expunged", "other": "Ready", "of nobody": "Allocated"}
    assert one not in fleet.volumes()
    left = fleet.zone.rows(
        "SELECT uuid, vm_id FROM volumes WHERE standalone AND pool_id IS NOT NULL AND removed IS NULL"
    )
    assert [(row.uuid, row.vm_id) for row in left] == [(other, None if expunge else vm.id)]
    assert counted(fleet) == (2 if expunge else 3, 1)
    fleet.assert_intact()


def detach(fleet: Fleet, uuid: UUID) -> EntityRef:
    """Take a volume from its VM, and from the guest."""
    name = fleet.zone.scalar("SELECT name FROM volumes WHERE uuid = :uuid", uuid=uuid)
    volume = ref(fleet, Entity.VOLUME, "volumes", name)
    fleet.change(detach_volume, fleet.system, fleet.caller, volume, None, None)
    fleet.run()
    return volume


def counted(fleet: Fleet) -> tuple[int, int]:
    """Volumes that the account has by its count, and claims that pools hold for volumes of their own."""
    claims = "SELECT count(*) FROM storage_claims c JOIN volumes v ON v.uuid = c.consumer WHERE v.standalone"
    count = "SELECT amount FROM resource_counts WHERE owner_kind = 'account' AND resource_type = 2"
    return int(fleet.zone.scalar(count)), int(fleet.zone.scalar(claims))


def states(fleet: Fleet) -> dict[str, str]:
    """States of the volumes made on their own, by name."""
    return {row.name: row.state for row in fleet.zone.rows("SELECT name, state FROM volumes WHERE standalone")}


def sweep(fleet: Fleet, *, sweepers: int = 1) -> None:
    """The pass, by several processes at once; what was put off is due."""
    fleet.zone.change("UPDATE volumes SET removal_due = now() WHERE removal_due IS NOT NULL")
    passes = [VolumeRemoval(fleet.engine, OneDriver(fleet.driver), 30) for _ in range(sweepers)]
    with ThreadPoolExecutor(sweepers) as threads:
        for done in [threads.submit(one.remove_volumes) for one in passes]:
            done.result()


def test_deleted_volumes_are_removed_from_their_pools(attached: tuple[Fleet, UUID, UUID]) -> None:
    """Counts come back at once, room when the pool has it no more: not while a guest uses it or a driver fails."""
    fleet, one, other = attached
    for uuid in (one, other):
        fleet.change(delete_volume, fleet.caller, detach(fleet, uuid))
    fleet.change(delete_volume, fleet.caller, make(fleet, "nowhere"))
    assert states(fleet) == {"one": "Destroy", "other": "Destroy", "nowhere": "Expunged"}
    assert counted(fleet) == (1, 2)
    fleet.assert_intact()
    plugged = "UPDATE simulator.guests SET volume_uuids = volume_uuids || %s"
    fleet.control.execute(plugged, [[one]])
    sweep(fleet, sweepers=2)
    assert (states(fleet)["one"], states(fleet)["other"]) == ("Destroy", "Expunged")
    assert counted(fleet) == (1, 1)
    fleet.control.execute("UPDATE simulator.guests SET volume_uuids = array_remove(volume_uuids, %s)", [one])
    fleet.fault(Step.DELETE, remaining=1)
    for expected in ("Destroy", "Expunged"):
        assert one in fleet.volumes()
        sweep(fleet)
        assert states(fleet)["one"] == expected
        fleet.assert_intact()
    assert (one in fleet.volumes(), counted(fleet)) == (False, (1, 0))
    fleet.run(fleet.make_job(DESTROY, fleet.vms()[0].id, expunge=True))
    fleet.assert_nothing_held()


def test_what_could_not_be_removed_is_due_later(attached: tuple[Fleet, UUID, UUID]) -> None:
    """A failure puts it off, and is not asked for again in the same breath."""
    fleet, one, _ = attached
    fleet.change(delete_volume, fleet.caller, detach(fleet, one))
    fleet.fault(Step.DELETE)
    VolumeRemoval(fleet.engine, OneDriver(fleet.driver), 30).remove_volumes()
    assert fleet.zone.scalar("SELECT removal_due > now() + interval '30 s' FROM volumes WHERE state = 'Destroy'")


def test_volumes_go_with_their_owner(attached: tuple[Fleet, UUID, UUID]) -> None:
    """Deleting an account deletes the volumes that no VM has, and the others when their VMs are expunged."""
    fleet, _, other = attached
    detach(fleet, other)
    owner = fleet.caller.owner.account_id
    fleet.change(remove, fleet.system.job_queue, fleet.caller, [owner])
    assert states(fleet) == {"one": "Ready", "other": "Destroy"}
    fleet.run()
    assert states(fleet) == {"one": "Destroy", "other": "Destroy"}
    sweep(fleet)
    fleet.assert_nothing_held()


def test_volumes_of_deleted_owners_are_removed(fleet: Fleet) -> None:
    """One that lost its VM at the moment when its owner was deleted goes all the same."""
    make(fleet, "left")
    fleet.zone.change("UPDATE accounts SET removed = now() WHERE id = :id", id=fleet.caller.owner.account_id)
    VolumeRemoval(fleet.engine, OneDriver(fleet.driver), 30).destroy_ownerless()
    assert states(fleet) == {"left": "Expunged"}
    fleet.assert_nothing_held()
