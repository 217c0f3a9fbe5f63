"""getHealth, and what a deployment that is asked for by id says of its progress."""

import pytest

from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.manage.auditing.audit import check
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.api.callers import ACME
from tests.support.zones.fleet import Fleet


def test_health_and_progress_follow_the_jobs(fleet: Fleet, client: ApiClient, api_url: str) -> None:
    """Queued before a worker came, ended and in their clusters afterwards; users are not told."""
    call = fleet.zone.bulk_parameters(3)
    deployment = str(client.call("bulkDeployVirtualMachine", **call)["asyncjobs"][0]["deploymentid"])
    before = client.call("getHealth")["health"]
    assert {row["state"]: row["count"] for row in before["jobs"]}["queued"] == 3
    assert (before["finished"], before["failed"], before["workers"], before["failures"]) == (0, 0, 0, [])
    fleet.run()
    after = client.call("getHealth")["health"]
    assert {row["state"]: row["count"] for row in after["jobs"]}["queued"] == 0
    assert (after["finished"], after["failed"]) == (3, 0)
    assert {row["state"]: row["count"] for row in after["virtualmachines"]}["Running"] == 3
    row = client.call("listBulkDeployments", id=deployment)["bulkdeployment"][0]
    assert sum(cluster["succeeded"] for cluster in row["clusters"]) == 3
    assert all(cluster["succeeded"] == cluster["added"] for cluster in row["clusters"])
    assert len(row["slowest"]) == 3
    assert row["slowest"][0]["seconds"] >= row["slowest"][-1]["seconds"] >= 0
    assert row["completed"] >= row["created"]
    listed = client.call("listBulkDeployments", listall=True)["bulkdeployment"][0]
    assert "slowest" not in listed
    with pytest.raises(ApiFailure, match="432"):
        ApiClient(api_url, *ACME).call("getHealth")


def test_reasons_are_counted_whatever_vm_or_host_it_was(fleet: Fleet, client: ApiClient) -> None:
    """Ten failures of one kind are one line."""
    client.call("bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(3))
    fleet.zone.change(
        "UPDATE async_jobs SET status = 2, completed = now(), result = json_build_object('errorcode', 530,"
        " 'errortext', 'Starting i-2-' || id || '-VM on host kvm-' || id || ': out of disk')::text"
    )
    health = client.call("getHealth")["health"]
    assert health["failures"] == [{"errortext": "Starting * on host *: out of disk", "count": 3}]
    assert (health["finished"], health["failed"]) == (3, 3)
    history = client.call("getJobHistory")["jobhistory"]
    assert history["failures"] == health["failures"]
    assert len(history["hours"]) == 24
    assert [sum(hour[name] for hour in history["hours"]) for name in ("deployed", "failed", "finished")] == [
        0,
        3,
        3,
    ]
    fleet.zone.change("UPDATE async_jobs SET completed = now() - interval '25 hours'")
    history = client.call("getJobHistory")["jobhistory"]
    assert ({hour["finished"] for hour in history["hours"]}, history["failures"]) == ({0}, [])


def test_failed_driver_calls_are_told_by_kind(fleet: Fleet, client: ApiClient) -> None:
    """Those of VMs that then ran on another host, too, of which no failed job tells."""
    client.call("bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(2))
    fleet.fault(Step.BOOT, remaining=1)
    fleet.run()
    health = client.call("getHealth")["health"]
    assert (health["finished"], health["failed"]) == (2, 0)
    assert health["drivererrors"] == [{"hypervisor": "KVM", "step": "boot", "kind": "transient", "count": 1}]


def test_the_last_audit_is_told(fleet: Fleet, client: ApiClient) -> None:
    """What it found, until the next one finds something else."""
    client.call("bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(1))
    fleet.run()
    assert "audited" not in client.call("getHealth")["health"]
    check(fleet.settings)
    health = client.call("getHealth")["health"]
    assert health["audited"]
    assert health["auditcompared"] > 0
    assert (health["auditbreaches"], health["auditbroken"]) == (0, [])
    fleet.zone.change("UPDATE host_capacity SET vms_used = vms_used + 1 WHERE vms_used = 0")
    check(fleet.settings)
    health = client.call("getHealth")["health"]
    (broken,) = health["auditbroken"]
    assert broken["promise"] == "what each host counts as used is the sum of its claims"
    assert health["auditbreaches"] == broken["breaches"] == 11
    assert len(broken["first"]) == 5
    fleet.zone.change("UPDATE host_capacity SET vms_used = 0 WHERE vms_used = 1 AND cpu_mhz_used = 0")
    check(fleet.settings)
    assert client.call("getHealth")["health"]["auditbroken"] == []
