"""updateVolume deleteprotection=true: what a VM was made with is kept when the VM goes, by calls and by races."""

import pytest

from tests.commands.virtual_machines.test_devices import Owned
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, refused
from tests.support.zones.fleet import Fleet


@pytest.fixture
def made_with(api_url: str, fleet: Fleet) -> tuple[Owned, str]:
    """A running VM of acme with a data volume that was made with it, and the volume."""
    disk = fleet.id_of("disk_offerings", "20 GiB")
    fleet.deploy(1, account="acme", domain_id=fleet.id_of("domains", "acme"), disk_offering_id=disk)
    fleet.run()
    owned = Owned(fleet, ApiClient(api_url, *ACME))
    (volume,) = owned.client.call("listVolumes", virtualmachineid=owned.vm, type="DATADISK")["volume"]
    return owned, volume["id"]


@pytest.mark.parametrize("protected", [True, False])
def test_a_protected_data_volume_outlives_its_vm(made_with: tuple[Owned, str], *, protected: bool) -> None:
    """Detached as the VM is expunged, with room and counts; one that is not protected goes with the VM."""
    owned, volume = made_with
    client = owned.client
    job = owned.poll(owned.call("updateVolume", id=volume, name="keep", deleteprotection=protected))
    assert (job["cmd"].rpartition(".")[2], job["jobresult"]["volume"]["name"]) == ("UpdateVolumeCmd", "keep")
    (root,) = client.call("listVolumes", virtualmachineid=owned.vm, type="ROOT")["volume"]
    owned.poll(owned.call("updateVolume", id=root["id"], deleteprotection=True))
    owned.fleet.zone.change(
        "INSERT INTO configuration_values VALUES ('Global', 0, 'allow.user.expunge.recover.vm', 'true')"
    )
    assert owned.done("destroyVirtualMachine", id=owned.vm, expunge=True)["jobstatus"] == 1
    left = client.call("listVolumes").get("volume", [])
    assert [(row["id"], row["state"], "virtualmachineid" in row) for row in left] == (
        [(volume, "Ready", False)] if protected else []
    )
    assert {str(uuid) for uuid in owned.fleet.volumes()} == ({volume} if protected else set())
    if protected:
        assert refused(client, "deleteVolume", id=volume).status == 431
    owned.fleet.assert_intact()


def test_a_volume_is_not_protected_behind_its_vms_end(made_with: tuple[Owned, str]) -> None:
    """Once a job works on the VM it is too late for what was made with it; a volume protected meanwhile stays."""
    owned, volume = made_with
    own = owned.volume("own")
    assert owned.done("attachVolume", id=own, virtualmachineid=owned.vm)["jobstatus"] == 1
    job = owned.call("destroyVirtualMachine", id=owned.vm, volumeids=own)
    failure = refused(owned.client, "updateVolume", id=volume, deleteprotection=True)
    assert (failure.status, "its virtual machine has an unfinished job" in failure.errortext) == (431, True)
    owned.poll(owned.call("updateVolume", id=own, deleteprotection=True))
    owned.again()
    assert owned.poll(job)["jobstatus"] == 1
    assert owned.row(own)["deleteprotection"] is True
    owned.fleet.assert_intact()
