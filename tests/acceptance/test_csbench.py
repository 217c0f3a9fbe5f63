"""What csbench does, done over HTTP the way csbench does it.

Source: reference/csbench-marvin.md part A: the calls of ``-benchmark``, ``-create``, ``-vmaction`` and
``-teardown`` in their order, with the parameters as they are sent, and what it needs of an answer.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from bulkdeploy.domain.jobs import JobStatus
from tests.acceptance.conftest import Cloud
from tests.support.runs.waiting import PATIENCE_S

pytestmark = pytest.mark.long

LISTS = (
    *("listDomains", "listAccounts", "listVirtualMachines", "listVolumes", "listTemplates", "listNetworks"),
    *("listPublicIpAddresses", "listVPCs", "listSnapshots", "listVMSnapshot", "listServiceOfferings"),
    *("listDiskOfferings", "listHosts"),
)
PAGE_SIZE = 2


@dataclass(frozen=True, slots=True)
class Csbench:
    """Asks and reads as csbench does; ``owner``: the domain and account of a run."""

    cloud: Cloud
    domain: dict[str, Any]
    account: dict[str, Any]

    @property
    def owner(self) -> dict[str, str]:
        """Parameters that make things the account's."""
        return {"domainid": self.domain["id"], "account": self.account["name"]}

    def rows(self, command: str, **parameters: object) -> list[dict[str, Any]]:
        """All rows: page after page until there are ``count`` of them."""
        found: list[dict[str, Any]] = []
        page = 1
        while True:
            body = self.cloud.client.call(command, page=page, pagesize=PAGE_SIZE, **parameters)
            found += next((value for name, value in body.items() if name != "count"), [])
            if len(found) >= body.get("count", 0):
                return found
            page += 1

    def wait(self, started: dict[str, Any]) -> dict[str, Any]:
        """The one member of a succeeded job's result."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            job = self.cloud.client.call("queryAsyncJobResult", jobid=started["jobid"])
            if job["jobstatus"] != JobStatus.IN_PROGRESS:
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert job["jobstatus"] == JobStatus.SUCCEEDED, job
        ((name, value),) = job["jobresult"].items()
        return {"success": value} if name == "success" else dict(value)


@pytest.fixture
def csbench(cloud: Cloud) -> Iterator[Csbench]:
    """A run with ``-domain``: a domain and, in it, an account named after its user; deleted with all they hold."""
    name = f"csbench-{uuid4().hex[:6]}"
    root = cloud.client.call("listDomains", listall=True, level=0)["domain"][0]
    domain = cloud.client.call("createDomain", name=name, parentdomainid=root["id"])["domain"]
    account = cloud.client.call(
        "createAccount",
        accounttype=2,
        domainid=domain["id"],
        email="csbench@example.org",
        firstname="c",
        lastname="sbench",
        username=name,
        password="password",
    )["account"]
    assert account["name"] == name
    run = Csbench(cloud, domain, account)
    yield run
    assert run.wait(cloud.client.call("deleteDomain", id=domain["id"], cleanup=True)) == {"success": True}


@pytest.mark.parametrize("more", [{}, {"page": 1, "pagesize": 500}], ids=["everything", "page"])
def test_every_listed_command_can_be_timed(running_cloud: Cloud, more: dict[str, object]) -> None:
    """Each answers 200 with one object, a count where there is something, and never an error."""
    expires = (datetime.now(UTC) + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for command in LISTS:
        filters = {"templatefilter": "all"} if command == "listTemplates" else {}
        answer = running_cloud.client.get(
            command, listall="true", signatureVersion=3, expires=expires, **filters, **more
        )
        assert answer.status == 200, (command, answer.text)
        assert isinstance(answer.body.get("count", 0), int), command


def test_limits_are_lifted_for_domains_and_accounts(csbench: Csbench) -> None:
    """All resource types, for the domain and for the account in it."""
    call = csbench.cloud.client.call
    children = csbench.rows("listDomainChildren", id=call("listDomains", level=0)["domain"][0]["id"], listall=True)
    assert csbench.domain["id"] in {child["id"] for child in children}
    (account,) = csbench.rows("listAccounts", domainid=csbench.domain["id"])
    for resource in range(12):
        for owner in ({"domainid": csbench.domain["id"]}, csbench.owner):
            limit = call("updateResourceLimit", resourcetype=resource, max=-1, **owner)["resourcelimit"]
            assert (limit["resourcetype"], limit["max"]) == (str(resource), -1)
    assert account["vmlimit"] == "20"
    assert csbench.rows("listAccounts", domainid=csbench.domain["id"])[0]["vmlimit"] == "Unlimited"


def test_an_environment_is_made_used_and_torn_down(csbench: Csbench) -> None:
    """Network, VMs by form POST, volumes attached, actions on the VMs, and everything undone in reverse."""
    call, zone = csbench.cloud.client.call, csbench.cloud.zone
    in_zone = {"zoneid": zone.id_of("zones", "small")}
    network = call(
        "createNetwork",
        name="Network",
        displaytext="Network",
        networkofferingid=zone.id_of("network_offerings", "DefaultSharedNetworkOffering"),
        acltype="Domain",
        gateway="10.77.0.1",
        netmask="255.255.252.0",
        startip="10.77.0.2",
        endip="10.77.3.255",
        vlan=180,
        bypassvlanoverlapcheck=True,
        domainid=csbench.domain["id"],
        **in_zone,
    )["network"]
    (found,) = csbench.rows("listNetworks", domainid=csbench.domain["id"], listall=True, **in_zone)
    assert (found["id"], found["domainid"]) == (network["id"], csbench.domain["id"])
    vms = [
        csbench.wait(
            call(
                "deployVirtualMachine",
                name=f"csbench-vm-{number}",
                serviceofferingid=zone.id_of("service_offerings", "Small"),
                templateid=zone.id_of("templates", "Debian 12"),
                networkids=network["id"],
                startvm=True,
                **csbench.owner,
                **in_zone,
            )
        )
        for number in range(3)
    ]
    listed = csbench.rows("listVirtualMachines", domainid=csbench.domain["id"])
    assert {vm["id"] for vm in listed} == {vm["id"] for vm in vms}
    offering = zone.id_of("disk_offerings", "20 GiB")
    for vm in vms:
        volume = csbench.wait(
            call("createVolume", name=f"disk-{vm['name']}", diskofferingid=offering, **csbench.owner, **in_zone)
        )
        attached = csbench.wait(call("attachVolume", id=volume["id"], virtualmachineid=vm["id"]))
        assert attached["virtualmachineid"] == vm["id"]
    for action, state in (("stop", "Stopped"), ("start", "Running"), ("reboot", "Running")):
        vm = csbench.wait(call(f"{action}VirtualMachine", id=vms[0]["id"]))
        assert vm["state"] == state
    for vm in vms:
        csbench.wait(call("destroyVirtualMachine", id=vm["id"], expunge=True))
    volumes = csbench.rows("listVolumes", domainid=csbench.domain["id"])
    assert {volume["type"] for volume in volumes} == {"DATADISK"}
    for volume in volumes:
        csbench.wait(call("destroyVolume", id=volume["id"], expunge=True))
    assert csbench.wait(call("deleteNetwork", id=network["id"])) == {"success": True}
