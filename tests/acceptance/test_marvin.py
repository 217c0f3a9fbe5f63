"""What Marvin's tests of the bulk call do, done over HTTP the way Marvin does it.

Source: reference/csbench-marvin.md part B: the calls in their order, the parameters as they are sent
(``True`` for booleans, GET only), how an answer is read, and what the three original tests ask: with C
clusters, 2C - 1 VMs, one to three in each.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from bulkdeploy.domain.jobs import JobStatus
from tests.acceptance.conftest import Cloud
from tests.support.runs.waiting import PATIENCE_S

pytestmark = pytest.mark.long


@dataclass(frozen=True, slots=True)
class Marvin:
    """Asks by GET and reads answers as Marvin's connection does."""

    cloud: Cloud

    def request(self, command: str, **parameters: object) -> Any:
        """A list, an object or None, by the shape of the answer alone; its status is not looked at."""
        if {"account", "domainid"} <= parameters.keys() and command.startswith("list"):
            parameters["listall"] = True
        body = self.cloud.client.get(command, **parameters).body
        assert "errorcode" not in body, body
        if not body:
            return None
        if "count" in body:
            return next(value for name, value in body.items() if name != "count")
        if len(body) == 1 and isinstance(inner := next(iter(body.values())), dict):
            return inner
        return body

    def wait(self, job_id: str) -> dict[str, Any]:
        """A job's last answer."""
        deadline = time.monotonic() + PATIENCE_S
        while (job := self.request("queryAsyncJobResult", jobid=job_id))["jobstatus"] == JobStatus.IN_PROGRESS:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return dict(job)


@dataclass(frozen=True, slots=True)
class Ground:
    """What Marvin's set-up finds and makes."""

    zone: dict[str, Any]
    template: dict[str, Any]
    clusters: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    account: dict[str, Any]
    offering: dict[str, Any]

    @property
    def owner(self) -> dict[str, Any]:
        """The account's name goes out as ``account``."""
        return {"account": self.account["name"], "domainid": self.account["domainid"]}


@contextmanager
def ground(marvin: Marvin) -> Iterator[Ground]:
    """Set-up and clean-up in the original's order: the offering goes while its VMs still exist."""
    name = f"test-a-{uuid4().hex[:6]}"
    domain = marvin.request("listDomains")[0]
    zone = marvin.request("listZones")[0]
    templates = marvin.request("listTemplates", templatefilter="featured", zoneid=zone["id"])
    template = next((one for one in templates if one["isready"] and one["templatetype"] == "BUILTIN"), templates[0])
    clusters, pods = marvin.request("listClusters"), marvin.request("listPods")
    account = marvin.request(
        "createAccount",
        accounttype=0,
        email="test@example.org",
        firstname="test",
        lastname="test",
        password="password",
        username=name,
        domainid=domain["id"],
    )
    offering = marvin.request(
        "createServiceOffering",
        name="Tiny Instance",
        displaytext="Tiny Instance",
        cpunumber=1,
        cpuspeed=100,
        memory=128,
        deploymentplanner="UserDispersingPlanner",
    )
    yield Ground(zone, template, clusters, pods, account, offering)
    assert marvin.request("deleteServiceOffering", id=offering["id"])["success"] is True
    removed = marvin.wait(marvin.request("deleteAccount", id=account["id"])["jobid"])
    assert (removed["jobstatus"], removed["jobresult"]) == (JobStatus.SUCCEEDED, {"success": True})
    assert marvin.request("listVirtualMachines", listall=True) is None


@pytest.mark.parametrize("pin", ["zone", "pod", "cluster"])
def test_bulk_deployment_as_marvin_tests_it(cloud: Cloud, pin: str) -> None:
    """Anywhere, in a pod or in a cluster: every VM runs, spread evenly, and goes with its account."""
    marvin = Marvin(cloud)
    with ground(marvin) as found:
        pod = found.pods[0]["id"]
        chosen = {
            "zone": found.clusters,
            "pod": [one for one in found.clusters if one["podid"] == pod],
            "cluster": found.clusters[:1],
        }[pin]
        pins = {"zone": {}, "pod": {"podid": pod}, "cluster": {"clusterid": chosen[0]["id"]}}[pin]
        count = 2 * len(chosen) - 1
        jobs = marvin.request(
            "bulkDeployVirtualMachine",
            zoneid=found.zone["id"],
            serviceofferingid=found.offering["id"],
            templateid=found.template["id"],
            virtualmachinecount=count,
            **found.owner,
            **pins,
        )
        assert [marvin.wait(job["jobid"])["jobstatus"] for job in jobs] == [JobStatus.SUCCEEDED] * count
        per_cluster = [
            sum(
                len(marvin.request("listVirtualMachines", hostid=host["id"], **found.owner) or ())
                for host in marvin.request("listHosts", clusterid=cluster["id"])
            )
            for cluster in chosen
        ]
        assert sum(per_cluster) == count
        assert all(1 <= vms <= 3 for vms in per_cluster)
        assert len(marvin.request("listVirtualMachines", **found.owner)) == count
