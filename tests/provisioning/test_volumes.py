"""Data volumes made on their own: they outlive the VMs they are attached to."""

from uuid import UUID

import pytest

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.jobs import JobKind
from bulkdeploy.services.ownership import NamedOwner
from bulkdeploy.services.volume_attachment import attach_volume
from bulkdeploy.services.volumes import create_volume
from tests.support.fleet import Fleet


def ref(fleet: Fleet, kind: Entity, table: str, name: str) -> EntityRef:
    """A live row as a handler is given it."""
    (row,) = fleet.zone.rows(f"SELECT id, uuid FROM {table} WHERE name = :name AND removed IS NULL", name=name)
    return EntityRef(kind, row.id, row.uuid, name)


def make(fleet: Fleet, name: str) -> EntityRef:
    """A new volume without a place."""
    zone = ref(fleet, Entity.ZONE, "zones", "small")
    offering = ref(fleet, Entity.DISK_OFFERING, "disk_offerings", "20 GiB")
    create_volume(fleet.system, fleet.caller, NamedOwner(), name, zone, offering, None)
    return ref(fleet, Entity.VOLUME, "volumes", name)


def attach(fleet: Fleet, name: str) -> UUID:
    """A new volume, attached to the only VM."""
    volume = make(fleet, name)
    vm = fleet.vms()[0]
    attach_volume(
        fleet.system, fleet.caller, volume, EntityRef(Entity.VIRTUAL_MACHINE, vm.id, vm.uuid, vm.name), None
    )
    return volume.uuid


def restart(fleet: Fleet) -> None:
    """Stop and start the only VM: its guest gets what was attached."""
    vm = fleet.vms()[0].id
    for kind in (JobKind.STOP, JobKind.START):
        fleet.run(fleet.make_job(kind, vm))


@pytest.fixture
def attached(fleet: Fleet) -> tuple[Fleet, UUID, UUID]:
    """A running VM with a volume that is on a pool, and one that its guest did not get yet."""
    fleet.deploy(1)
    fleet.run()
    used = attach(fleet, "used")
    restart(fleet)
    return fleet, used, attach(fleet, "unused")


def test_volumes_of_their_own_outlive_their_vms(attached: tuple[Fleet, UUID, UUID]) -> None:
    """Expunging a VM removes its root disk and detaches what createVolume made: data, room and counts stay."""
    fleet, used, unused = attached
    fleet.assert_intact()
    assert used in fleet.volumes()
    fleet.run(fleet.make_job(JobKind.DESTROY, fleet.vms()[0].id, expunge=True))
    assert fleet.vms()[0].removed is not None
    assert fleet.volumes() == {used}
    rows = fleet.zone.rows("SELECT uuid, vm_id, device_id, attached, state FROM volumes WHERE removed IS NULL")
    assert {tuple(row) for row in rows} == {(uuid, None, None, None, "Ready") for uuid in (used, unused)}
    assert fleet.zone.scalar("SELECT count(*) FROM storage_claims") == 2
    fleet.assert_intact()
