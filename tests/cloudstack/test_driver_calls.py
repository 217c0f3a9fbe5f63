"""What the driver calls is what CloudStack 4.18 and later describe: commands, parameters, types."""

from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.cloudstack.cloudstack_call import host_id_of
from bulkdeploy.drivers.cloudstack.driver import CloudStackDriver
from bulkdeploy.drivers.contract import Caller
from bulkdeploy.drivers.hosts import HostAccess, HostPromise, NewHost
from bulkdeploy.manage.upstream.checking import CHANGING
from tests.cloudstack.driven import HOSTS, ORDER, SUBJECTS, driven
from tests.cloudstack.orders import FixedOrders
from tests.support.cloudstack.apis import APIS, OF_ANY_CALL, why_refused

LEFT, RIGHT = HOSTS

NEWER = {("deployVirtualMachine", "password"): "4.19", ("resetPasswordForVirtualMachine", "password"): "4.19"}
"""Parameters that 4.18 lacks, with the first version; docs/explanation/cloudstack-driver.md names them."""

READING = ("listCapabilities", "listClusters", "listHosts", "listVirtualMachines", "listVolumes")


def live(driver: CloudStackDriver) -> None:
    """All that a VM can be given and go through."""
    caller = Caller(driver)
    order = replace(ORDER, key_pairs={"laptop": "ssh-ed25519 AAAA"}, security_group_uuids=(uuid4(),))
    driver.use_records(replace(driver._records, orders=FixedOrders(order)))
    guest = replace(
        SUBJECTS.new_guest(),
        password="secret",
        user_data="aGVsbG8=",
        user_data_details={"colour": "red"},
        host_name="web-1",
    )
    driver.admit_host(
        NewHost(uuid4(), "KVM", HostAccess(f"cloudstack://{host_id_of(LEFT)}"), HostPromise(1, 1, 50)),  # type: ignore[arg-type]
        timeout_s=60,
    )
    caller.run(LEFT, guest)
    caller.migrate(LEFT, RIGHT, guest)
    guest = replace(guest, cpu_number=2)
    caller.scale(RIGHT, guest)
    extra = SUBJECTS.new_volume()
    more = replace(guest, volumes=(*guest.volumes, extra), nics=(*guest.nics, SUBJECTS.new_nic()))
    caller.devices(RIGHT, more)
    caller.devices(RIGHT, guest)
    caller.resize(RIGHT, guest, replace(guest.volumes[0], size_bytes=2 * guest.volumes[0].size_bytes))
    caller.stop(RIGHT, guest)
    caller.resize(None, guest, replace(guest.volumes[1], size_bytes=guest.volumes[1].size_bytes // 2))
    driver.use_records(
        replace(driver._records, orders=FixedOrders(replace(order, key_pairs={"other": "ssh-rsa B"})))
    )
    caller.run(LEFT, replace(guest, cpu_number=3, nics=(SUBJECTS.new_nic(),)))
    list(driver.list_guests())
    caller.remove(LEFT, guest)
    caller.remove_volume(SUBJECTS.pool_uuid, extra.uuid)


@pytest.mark.parametrize("regular", [False, True])
def test_all_that_is_called_is_described(engine: Engine, regular: bool) -> None:
    """What the check of a CloudStack looks up is what is called, as described; what is newer than 4.18 is named.

    Under whatever key answers stand.
    """
    with driven(engine) as (upstream, driver):
        upstream.habits.regular_envelopes = regular
        live(driver)
        assert (upstream.vms, upstream.volumes) == ({}, {})
        assert set(upstream.named) == {*CHANGING, *READING} - {"expungeVirtualMachine"}
        newer = {
            (command, name): APIS[command][name][1]
            for command, names in upstream.named.items()
            for name in names
            if name.lower() not in OF_ANY_CALL and (APIS[command][name][1] or "4.18") > "4.18"
        }
        assert newer == NEWER


@pytest.mark.parametrize(
    ("command", "parameters"),
    [
        ("deployVirtualMachines", {}),
        ("startVirtualMachine", {"id": str(uuid4()), "host": str(uuid4())}),
        ("startVirtualMachine", {"id": "web-1"}),
        ("resizeVolume", {"id": str(uuid4()), "size": "2.5"}),
        ("stopVirtualMachine", {"id": str(uuid4()), "forced": "True"}),
        ("scaleVirtualMachine", {"details": "cpuNumber"}),
        ("listZones", {"ids": str(uuid4())}),
    ],
)
def test_what_cloudstack_would_refuse_is_refused(command: str, parameters: dict[str, str]) -> None:
    """Unknown commands and parameters, values of another type, what is too new: the other tests would fail."""
    assert why_refused(command, parameters, "4.18") is not None
