"""The cloud behind decides on the addresses of its VMs: rows here follow it, and no import breaks off over them."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import Caller
from bulkdeploy.drivers.errors import DriverError
from tests.cloudstack.driven import HOSTS, ORDER, SUBJECTS, driven
from tests.cloudstack.orders import FixedOrders

LEFT, RIGHT = HOSTS


def test_an_address_that_nobody_named_is_chosen_there(engine: Engine) -> None:
    """The address that was planned here is used there by a router: the first call deploys the VM all the same."""
    guest = SUBJECTS.new_guest(volumes=1)
    guest = replace(guest, nics=(replace(guest.nics[0], ip_address="10.0.0.10"),))
    with driven(engine) as (upstream, driver):
        upstream.used_ips.add("10.0.0.10")
        Caller(driver).run(LEFT, guest)
        assert upstream.calls["deployVirtualMachine"] == 1
        (vm,) = upstream.vms.values()
        assert [nic["ipaddress"] for nic in vm["nic"]] == ["10.0.0.11"]


def test_an_address_that_was_named_and_is_used_there_fails_on_every_host(engine: Engine) -> None:
    """The error contains CloudStack's words, and no other host is tried."""
    guest = SUBJECTS.new_guest(volumes=1)
    nic = replace(guest.nics[0], ip_address="10.0.0.10", has_requested_ip=True)
    with driven(engine) as (upstream, driver):
        upstream.used_ips.add("10.0.0.10")
        with pytest.raises(DriverError, match=r"10\.0\.0\.10 is not available") as refused:
            Caller(driver).run(LEFT, replace(guest, nics=(nic,)))
        assert refused.value.on_any_host


@pytest.mark.parametrize("is_custom", [True, False])
def test_a_data_volume_has_the_size_of_its_offering(engine: Engine, is_custom: bool) -> None:
    """CloudStack requires a size for a customized offering, and rejects a size for any other."""
    guest = SUBJECTS.new_guest(volumes=2)
    with driven(engine) as (upstream, driver):
        if not is_custom:
            offering = ORDER.disk_offerings[guest.volumes[1].uuid]
            upstream.fixed_disks[str(offering)] = 2
            order = replace(ORDER, custom_disks=frozenset())
            driver.use_records(replace(driver._records, orders=FixedOrders(order)))
        Caller(driver).run(LEFT, guest)
        sizes = [volume["size"] for volume in upstream.volumes.values() if volume["type"] != "ROOT"]
        assert sizes == [guest.volumes[1].size_bytes]
        assert upstream.calls["deployVirtualMachine"] == 1
