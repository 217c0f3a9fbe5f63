"""customid and customjobid: root admins choose the ids of VMs, volumes and jobs, each of them once for ever."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.api.callers import ACME, refused
from tests.support.zones.fleet import Fleet
from tests.support.zones.zone_queries import Zone

NOT_ALLOWED = "Please check your permissions, you are not allowed to create/update custom id"


def one_vm(zone: Zone, **more: object) -> dict[str, Any]:
    """Parameters of deployVirtualMachine."""
    return {
        "zoneid": zone.id_of("zones", "small"),
        "serviceofferingid": zone.id_of("service_offerings", "Small"),
        "templateid": zone.id_of("templates", "Debian 12"),
        **more,
    }


def test_a_vm_and_its_job_have_the_ids_that_were_chosen(client: ApiClient, fleet: Fleet) -> None:
    """The answer names them, both are found by them, and the VM that runs has its id."""
    vm, job = str(uuid4()), str(uuid4())
    made = client.call("deployVirtualMachine", **one_vm(fleet.zone, customid=vm, customjobid=job))
    assert made == {"id": vm, "jobid": job}
    fleet.run()
    done = client.call("queryAsyncJobResult", jobid=job)
    assert (done["jobstatus"], done["jobresult"]["virtualmachine"]["id"]) == (1, vm)
    (listed,) = client.call("listVirtualMachines", id=vm)["virtualmachine"]
    assert listed["state"] == "Running"
    assert {str(guest.uuid) for guest in fleet.driver.list_guests()} == {vm}


def test_an_id_is_never_given_twice(client: ApiClient, fleet: Fleet) -> None:
    """While the first lives and after it is gone; CloudStack's text says so, and nothing is made."""
    vm, job = str(uuid4()), str(uuid4())
    client.call("deployVirtualMachine", **one_vm(fleet.zone, customid=vm, customjobid=job))
    fleet.run()
    client.call("destroyVirtualMachine", id=vm, expunge="true")
    fleet.run()
    assert client.call("listVirtualMachines", listall="true") == {}
    for chosen in ({"customid": vm}, {"customjobid": job}):
        (value,) = chosen.values()
        failure = refused(client, "deployVirtualMachine", **one_vm(fleet.zone, **chosen))
        text = f"UUID: {value} already exists so can't create/update with custom id"
        assert (failure.status, failure.cserrorcode, text in failure.errortext) == (431, 4350, True)
    assert client.call("listVirtualMachines", listall="true") == {}
    fleet.assert_intact()


@pytest.mark.parametrize("wrong", ["vm-1", "3F0C2B66-0000-4000-8000-000000000001", "3f0c2b6600004000800000000001"])
@pytest.mark.parametrize("parameter", ["customid", "customjobid"])
def test_what_is_no_uuid_in_lower_case_is_refused(
    client: ApiClient, fleet: Fleet, parameter: str, wrong: str
) -> None:
    """As CloudStack does; the error names parameter and value."""
    failure = refused(client, "deployVirtualMachine", **one_vm(fleet.zone, **{parameter: wrong}))
    assert (failure.status, f"UUID: {wrong} doesn't follow the UUID format" in failure.errortext) == (431, True)
    assert parameter in failure.errortext
    assert fleet.vms() == []


def test_only_root_admins_choose(api_url: str, fleet: Fleet) -> None:
    """Users are refused a customid, and an customjobid of theirs has no effect, as it always had."""
    user, chosen = ApiClient(api_url, *ACME), str(uuid4())
    failure = refused(user, "deployVirtualMachine", **one_vm(fleet.zone, customid=chosen))
    assert (failure.status, failure.errortext) == (531, NOT_ALLOWED)
    failure = refused(
        user,
        "createVolume",
        zoneid=fleet.zone.id_of("zones", "small"),
        diskofferingid=fleet.zone.id_of("disk_offerings", "20 GiB"),
        customid=chosen,
    )
    assert (failure.status, failure.errortext) == (531, NOT_ALLOWED)
    assert user.call("deployVirtualMachine", **one_vm(fleet.zone, customjobid=chosen))["jobid"] != chosen


def test_many_vms_have_no_chosen_ids(client: ApiClient, fleet: Fleet) -> None:
    """The bulk call refuses customid by name."""
    failure = refused(client, "bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(2), customid=str(uuid4()))
    assert (failure.status, "customid" in failure.errortext) == (431, True)


def test_a_volume_has_the_id_that_was_chosen(client: ApiClient, fleet: Fleet) -> None:
    """Once for ever, too."""
    chosen = str(uuid4())
    wanted = {
        "name": "data",
        "zoneid": fleet.zone.id_of("zones", "small"),
        "diskofferingid": fleet.zone.id_of("disk_offerings", "20 GiB"),
        "customid": chosen,
    }
    assert client.call("createVolume", **wanted)["id"] == chosen
    client.call("deleteVolume", id=chosen)
    failure = refused(client, "createVolume", **wanted)
    assert (failure.status, "already exists" in failure.errortext) == (431, True)


def test_of_four_calls_with_one_id_one_makes_a_vm(client: ApiClient, fleet: Fleet) -> None:
    """At the same moment: the others are told that it exists."""
    vm, job = str(uuid4()), str(uuid4())

    def deploy(_: int) -> int:
        try:
            client.call("deployVirtualMachine", **one_vm(fleet.zone, customid=vm, customjobid=job))
        except ApiFailure as failure:
            return failure.status
        return 200

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(deploy, range(4))) == [200, 431, 431, 431]
    fleet.run()
    assert [vm.state for vm in fleet.vms()] == ["Running"]
    fleet.assert_intact()
