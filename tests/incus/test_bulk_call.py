"""One call, a hundred containers on two members, as operators and users see them."""

import os
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.incus.cluster import IncusHosts, why_not
from tests.support.hypervisors.real_cloud import RealCloud, real_cloud
from tests.support.processes.programs import bulkdeploy

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

GUESTS = int(os.environ.get("GUESTS") or 100)
PATIENCE_S = 600.0


@pytest.fixture(scope="module")
def cloud() -> Iterator[RealCloud[IncusHosts]]:
    """The whole service, on the cluster."""
    with real_cloud(IncusHosts(), workers=2) as made:
        yield made
        assert "Traceback" not in (made.folder / "programs.log").read_text()


def has_ended(cloud: RealCloud[IncusHosts]) -> bool:
    """Whether no job is under way."""
    jobs = cloud.client.call("listAsyncJobs", listall=True, pagesize=500, page=1).get("asyncjobs", ())
    return all(job["jobstatus"] for job in jobs)


def assert_intact(cloud: RealCloud[IncusHosts]) -> None:
    """The audit compares rows with what the cluster has, and finds nothing."""
    audited = bulkdeploy(cloud.stack.settings, "audit")
    assert audited.returncode == 0, audited.stdout + audited.stderr


def test_one_call_makes_a_hundred_containers(cloud: RealCloud[IncusHosts]) -> None:
    """Each runs, once, where its VM says, over both members; destroyed, none leaves anything."""
    cloud.client.call("bulkDeployVirtualMachine", virtualmachinecount=GUESTS, **cloud.ids)
    assert cloud.wait_until(lambda: has_ended(cloud), PATIENCE_S)
    vms = cloud.client.call("listVirtualMachines", pagesize=500, page=1)["virtualmachine"]
    assert {vm["state"] for vm in vms} == {"Running"}
    assert cloud.hosts.running() == {UUID(vm["id"]): vm["hostname"] for vm in vms}
    assert len(vms) == GUESTS
    assert len({vm["hostname"] for vm in vms}) == len(cloud.hosts.hosts)
    assert_intact(cloud)
    for vm in vms:
        cloud.client.call("destroyVirtualMachine", id=vm["id"], expunge=True)
    assert cloud.wait_until(lambda: has_ended(cloud), PATIENCE_S)
    assert cloud.hosts.running() == {}
    assert cloud.hosts.remains() == []
    assert_intact(cloud)
