"""The unmodified PyPI clients cs and apache-libcloud deploy, poll, list and destroy."""

import time
from typing import Any

import pytest
from cs import CloudStack, CloudStackApiException
from libcloud.common.types import InvalidCredsError
from libcloud.compute.providers import get_driver
from libcloud.compute.types import Provider

from tests.acceptance.conftest import Cloud

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def strict(cloud: Cloud) -> None:
    """What no command has is refused: unmodified clients send nothing of the kind."""
    cloud.client.call("updateConfiguration", name="api.unknown.parameters.refused", value="true")


def cs_of(cloud: Cloud, **more: Any) -> CloudStack:
    """The cs client with the admin's keys."""
    return CloudStack(
        endpoint=f"{cloud.client.url}/client/api",
        key=cloud.client.api_key,
        secret=cloud.client.secret_key,
        poll_interval=0.1,
        **more,
    )


@pytest.mark.parametrize("method", ["get", "post"])
def test_cs_deploys_in_bulk_polls_lists_and_destroys(cloud: Cloud, method: str) -> None:
    """cs: zones to ids, one bulk call, jobs polled, VMs listed page by page, all destroyed."""
    cs = cs_of(cloud, method=method)
    (zone,) = cs.listZones(fetch_list=True)
    offering = next(o for o in cs.listServiceOfferings(fetch_list=True) if not o["iscustomized"])
    template = next(t for t in cs.listTemplates(templatefilter="executable", fetch_list=True) if t["isready"])
    answer = cs.bulkDeployVirtualMachine(
        zoneid=zone["id"],
        serviceofferingid=offering["id"],
        templateid=template["id"],
        hypervisor="KVM",
        virtualmachinecount=6,
        fetch_result=True,
    )
    assert answer["count"] == 6
    for job in answer["asyncjobs"]:
        while cs.queryAsyncJobResult(jobid=job["jobid"])["jobstatus"] == 0:
            time.sleep(0.05)
    vms = cs.listVirtualMachines(fetch_list=True)
    assert [vm["state"] for vm in vms] == ["Running"] * 6
    for vm in vms:
        cs.destroyVirtualMachine(id=vm["id"], expunge=True, fetch_result=True)
    assert cs.listVirtualMachines(fetch_list=True) == []
    cloud.fleet.assert_nothing_held()


def test_cs_deploys_one_and_waits_for_its_result(cloud: Cloud) -> None:
    """Cs with fetch_result follows the job by itself and answers the VM."""
    cs = cs_of(cloud)
    parameters = cloud.zone.bulk_parameters(1)
    del parameters["virtualmachinecount"]
    result = cs.deployVirtualMachine(**parameters, name="web-one", fetch_result=True)
    assert (result["virtualmachine"]["name"], result["virtualmachine"]["state"]) == ("web-one", "Running")


def test_cs_tells_errors(cloud: Cloud) -> None:
    """Cs raises its own error with our code and text inside."""
    with pytest.raises(CloudStackApiException) as failure:
        cs_of(cloud).bulkDeployVirtualMachine(zoneid="nowhere")
    assert failure.value.error["errorcode"] == 431


def test_libcloud_deploys_lists_stops_and_destroys(cloud: Cloud) -> None:
    """Libcloud: locations, images, sizes, a node created, stopped, started and destroyed; bulk by its raw call."""
    driver: Any = get_driver(Provider.CLOUDSTACK)(
        key=cloud.client.api_key, secret=cloud.client.secret_key, url=f"{cloud.client.url}/client/api", secure=False
    )
    assert "host anti-affinity" in [kind.type for kind in driver.ex_list_affinity_group_types()]
    (location,) = driver.list_locations()
    image = next(image for image in driver.list_images() if image.extra["hypervisor"] == "KVM")
    size = next(size for size in driver.list_sizes() if size.name == "Small")
    node = driver.create_node(name="node-one", image=image, size=size, location=location)
    assert node.name == "node-one"
    assert driver.ex_start(node) == "Running"
    assert [each.name for each in driver.list_nodes()] == ["node-one"]
    assert driver.ex_stop(node) == "Stopped"
    assert driver.destroy_node(node, ex_expunge=True) is True
    answer = driver._sync_request(
        "bulkDeployVirtualMachine",
        params={
            "zoneid": location.id,
            "serviceofferingid": size.id,
            "templateid": image.id,
            "virtualmachinecount": 3,
        },
    )
    assert answer["count"] == 3


def test_libcloud_knows_bad_credentials(cloud: Cloud) -> None:
    """A wrong secret is what libcloud calls InvalidCredsError."""
    driver: Any = get_driver(Provider.CLOUDSTACK)(
        key=cloud.client.api_key, secret="wrong", url=f"{cloud.client.url}/client/api", secure=False
    )
    with pytest.raises(InvalidCredsError):
        driver.list_locations()
