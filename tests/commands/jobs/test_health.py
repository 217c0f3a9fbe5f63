"""getHealth, and what a deployment that is asked for by id says of its progress."""

import pytest

from tests.support.api_client import ApiClient, ApiFailure
from tests.support.clients import ACME
from tests.support.fleet import Fleet


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
