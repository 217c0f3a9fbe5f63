"""A whole zone built by calls from nothing, used, and torn down again by calls: as Marvin and Terraform do it."""

import time
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text

from tests.acceptance.conftest import Cloud
from tests.support.api.api_client import ApiFailure
from tests.support.runs.waiting import PATIENCE_S

pytestmark = pytest.mark.long

POD = {"gateway": "10.50.0.1", "netmask": "255.255.255.0", "startip": "10.50.0.10", "endip": "10.50.0.99"}
ZONE = {"dns1": "10.0.0.2", "internaldns1": "10.0.0.3", "networktype": "Advanced"}


class Builder:
    """Makes things one after the other, and remembers in which order to undo it."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.undo: list[tuple[str, dict[str, object]]] = []

    def call(self, command: str, **parameters: object) -> dict[str, Any]:
        """The object a call made or changed; of an asynchronous one, what its job says."""
        body = self.cloud.client.call(command, **parameters)
        return self.wait(body["jobid"]) if "jobid" in body else made_by(body)

    def wait(self, job_id: str) -> dict[str, Any]:
        """The object that a job says it made or changed; the job succeeds."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            job = self.cloud.client.call("queryAsyncJobResult", jobid=job_id)
            assert job["jobstatus"] in (0, 1), job
            if job["jobstatus"] == 1:
                return made_by(job["jobresult"])
            assert time.monotonic() < deadline, job
            time.sleep(0.05)

    def make(self, command: str, delete: str | None, **parameters: object) -> str:
        """The id of what a call made; ``delete`` undoes it."""
        made = str(self.call(command, **parameters)["id"])
        if delete is not None:
            more = {"forced": "true"} if delete in ("deleteHost", "deleteStoragePool") else {}
            self.undo.append((delete, {"id": made, **more}))
        return made

    def tear_down(self) -> None:
        """Undo everything, the last first."""
        while self.undo:
            command, parameters = self.undo.pop()
            self.call(command, **parameters)


def made_by(body: dict[str, Any]) -> dict[str, Any]:
    """The one object of an answer, or nothing of a mere success."""
    (found,) = [value for key, value in body.items() if key not in ("count", "displaytext")]
    first = found[0] if isinstance(found, list) else found
    return dict(first) if isinstance(first, dict) else {}


def build(builder: Builder) -> dict[str, str]:
    """A zone with networks, two clusters of two hosts each and storage, enabled last; what a deployment names."""
    zone = builder.make("createZone", "deleteZone", name="built", **ZONE)
    here = {"zoneid": zone}
    network = build_networks(builder, zone)
    pod = builder.make("createPod", "deletePod", name="pod", **here, **POD)
    for number in range(2):
        cluster = builder.make(
            "addCluster", "deleteCluster", podid=pod, clustername=f"c{number}", hypervisor="Simulator",
            clustertype="CloudManaged", **here,
        )  # fmt: skip
        place = {"podid": pod, "clusterid": cluster, **here}
        for host in range(2):
            url, login = f"http://sim/c{number}/h{host}", {"username": "root", "password": "password"}
            builder.make("addHost", "deleteHost", url=url, hypervisor="Simulator", **login, **place)
        pool = f"nfs://10.50.0.200/export/c{number}"
        builder.make("createStoragePool", "deleteStoragePool", name=f"primary-{number}", url=pool, **place)
    offering = builder.make(
        "createServiceOffering", "deleteServiceOffering", name="tiny", displaytext="Tiny", cpunumber=1,
        cpuspeed=100, memory=128, deploymentplanner="UserDispersingPlanner",
    )  # fmt: skip
    builder.make("createDiskOffering", "deleteDiskOffering", name="disk", displaytext="Disk", disksize=1)
    assert builder.call("updateZone", id=zone, allocationstate="Enabled")["allocationstate"] == "Enabled"
    return {"zoneid": zone, "serviceofferingid": offering, "networkids": network}


def build_networks(builder: Builder, zone: str) -> str:
    """A physical network with all that a zone wants of one, public addresses, and a guest network; its id."""
    wires = builder.make(
        "createPhysicalNetwork", "deletePhysicalNetwork", zoneid=zone, name="wires", isolationmethods="VLAN",
        vlan="100-199",
    )  # fmt: skip
    for traffic in ("Guest", "Public", "Management", "Storage"):
        builder.make("addTrafficType", None, physicalnetworkid=wires, traffictype=traffic)
    builder.call("updatePhysicalNetwork", id=wires, state="Enabled")
    found = builder.cloud.client.call("listNetworkServiceProviders", physicalnetworkid=wires, state="Disabled")
    for provider in found["networkserviceprovider"]:
        for noun in ("VirtualRouter", "InternalLoadBalancer"):
            listed = builder.cloud.client.call(f"list{noun}Elements", nspid=provider["id"])
            for element in listed.get(f"{noun.lower()}element", ()):
                builder.call(f"configure{noun}Element", id=element["id"], enabled="true")
        assert (
            builder.call("updateNetworkServiceProvider", id=provider["id"], state="Enabled")["state"] == "Enabled"
        )
    public = {"gateway": "192.0.2.1", "netmask": "255.255.255.0", "startip": "192.0.2.10", "endip": "192.0.2.99"}
    builder.make(
        "createVlanIpRange", "deleteVlanIpRange", zoneid=zone, forvirtualnetwork="true", vlan="50", **public
    )
    offering = builder.make(
        "createNetworkOffering", "deleteNetworkOffering", name="plain", displaytext="Plain", guestiptype="Shared",
        traffictype="GUEST", specifyvlan="true", specifyipranges="true", supportedservices="Dhcp,Dns,UserData",
    )  # fmt: skip
    builder.call("updateNetworkOffering", id=offering, state="Enabled")
    guests = {"gateway": "10.60.0.1", "netmask": "255.255.255.0", "startip": "10.60.0.10", "endip": "10.60.0.12"}
    network = builder.make(
        "createNetwork", "deleteNetwork", name="guests", displaytext="Guests", zoneid=zone, vlan="101",
        networkofferingid=offering, acltype="Domain", **guests,
    )  # fmt: skip
    builder.make(
        "createVlanIpRange", "deleteVlanIpRange", networkid=network, startip="10.60.0.20", endip="10.60.0.99"
    )
    return network


def template(cloud: Cloud, zone: str) -> str:
    """A template for any hypervisor, ready in the zone: what secondary storage would have fetched."""
    with cloud.fleet.engine.begin() as connection:
        found = connection.execute(
            text(
                "INSERT INTO template_zones (template_id, zone_id) SELECT t.id, z.id FROM templates t, zones z"
                " WHERE t.name = 'Any hypervisor' AND z.uuid = :zone"
                " RETURNING (SELECT uuid FROM templates WHERE id = template_id)"
            ),
            {"zone": zone},
        )
        return str(found.scalar_one())


def test_a_zone_is_built_used_and_torn_down_by_calls(cloud: Cloud) -> None:
    """Nothing but calls: its VMs run on hosts that were added, and in the end nothing is left of it."""
    builder = Builder(cloud)
    given = build(builder)
    given |= {"templateid": template(cloud, given["zoneid"]), "hypervisor": "Simulator"}
    answer = cloud.client.call("bulkDeployVirtualMachine", virtualmachinecount=8, **given)
    vms = [builder.wait(job["jobid"]) for job in answer["asyncjobs"]]
    assert {vm["state"] for vm in vms} == {"Running"}
    assert Counter(vm["hostname"] for vm in vms).keys() <= {f"sim-c{c}-h{h}" for c in range(2) for h in range(2)}
    cloud.fleet.assert_intact()
    refuse_what_is_in_use(cloud, builder)
    for vm in vms:
        builder.call("destroyVirtualMachine", id=vm["id"], expunge="true")
    builder.tear_down()
    assert cloud.client.call("listZones", id=given["zoneid"]) == {}
    assert {guest.host_uuid for guest in cloud.fleet.guests().values()} == set()


def refuse_what_is_in_use(cloud: Cloud, builder: Builder) -> None:
    """While VMs run, nothing they stand on is deleted, forced or not."""
    needed = {f"delete{noun}" for noun in ("Zone", "Pod", "Cluster", "StoragePool", "Network", "PhysicalNetwork")}
    for command, parameters in builder.undo:
        if command in needed:
            with pytest.raises(ApiFailure) as caught:
                builder.call(command, **parameters)
            assert caught.value.status in (431, 536)
    cloud.fleet.assert_intact()
