"""The functional specification of bulk deployment, sentence by sentence, on the running service."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.acceptance.conftest import Cloud
from tests.support.runs.waiting import PATIENCE_S


def finished(cloud: Cloud, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The jobs' final states, polled one by one as the specification says they can be."""
    deadline = time.monotonic() + PATIENCE_S
    states = []
    for job in jobs:
        while True:
            state = cloud.client.call("queryAsyncJobResult", jobid=job["jobid"])
            if state["jobstatus"] != 0:
                states.append(state)
                break
            assert time.monotonic() < deadline, f"job {job['jobid']} does not end: {state}"
            time.sleep(0.05)
    return states


def bulk(cloud: Cloud, count: int, **parameters: object) -> list[dict[str, Any]]:
    """Deploy ``count`` VMs for account acme; the jobs."""
    answer = cloud.client.call("bulkDeployVirtualMachine", **cloud.zone.bulk_parameters(count, **parameters))
    return list(answer["asyncjobs"])


def test_one_call_deploys_many_and_each_can_be_tracked(cloud: Cloud) -> None:
    """Every VM of a call runs in the end, on the host that its job says, dispersed over the clusters."""
    jobs = bulk(cloud, 40)
    states = finished(cloud, jobs)
    assert Counter(state["jobstatus"] for state in states) == {1: 40}
    vms = [state["jobresult"]["virtualmachine"] for state in states]
    assert {vm["state"] for vm in vms} == {"Running"}
    assert [vm["id"] for vm in vms] == [job["jobinstanceid"] for job in jobs]
    assert {state["jobresultcode"] for state in states} == {0}
    assert sorted(cloud.zone.vms_per_cluster().values()) == [10, 10, 10, 10]
    assert len(cloud.fleet.guests()) == 40
    cloud.fleet.assert_intact()


def test_two_calls_at_once_from_two_api_processes(cloud: Cloud) -> None:
    """Two calls at the same moment spread like one of the sum, and all their VMs run."""
    parameters = cloud.zone.bulk_parameters(17)
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(
                lambda client: client.call("bulkDeployVirtualMachine", **parameters),
                [cloud.client, cloud.other_client],
            )
        )
    finished(cloud, [job for answer in answers for job in answer["asyncjobs"]])
    assert sorted(cloud.zone.vms_per_cluster().values()) == [8, 8, 9, 9]
    cloud.fleet.assert_intact()


def test_a_failed_start_is_tried_on_another_host(cloud: Cloud) -> None:
    """Without a pin, VMs whose host cannot boot them end up on other hosts, with nothing left behind."""
    cloud.fleet.fault(Step.BOOT, host="a-1-1")
    states = finished(cloud, bulk(cloud, 24))
    assert Counter(state["jobstatus"] for state in states) == {1: 24}
    hosts = Counter(state["jobresult"]["virtualmachine"]["hostname"] for state in states)
    assert hosts["a-1-1"] == 0
    cloud.fleet.assert_intact()


def test_hosts_that_failed_for_a_while_are_tried_again(cloud: Cloud) -> None:
    """If the other host rejects them, VMs run on the host that failed before, once its failure has passed."""
    for host in cloud.client.call("listHosts", type="Routing")["host"]:
        if host["name"] not in ("a-1-1", "a-1-2"):
            cloud.client.call("updateHost", id=host["id"], allocationstate="Disable")
    cloud.fleet.fault(Step.BOOT, host="a-1-1", remaining=8)
    cloud.fleet.fault(Step.BOOT, FaultKind.PERMANENT, host="a-1-2")
    states = finished(cloud, bulk(cloud, 4))
    assert Counter(state["jobstatus"] for state in states) == {1: 4}, states
    assert {state["jobresult"]["virtualmachine"]["hostname"] for state in states} == {"a-1-1"}
    cloud.fleet.assert_intact()


def test_a_pinned_call_is_not_retried_and_says_why(cloud: Cloud) -> None:
    """With a pinned cluster a failed VM fails at once: host, step and the hypervisor's words; nothing is held."""
    for host in ("a-1-1", "a-1-2", "a-1-3"):
        cloud.fleet.fault(Step.VOLUME, FaultKind.PERMANENT, host=host, reason="the array is on fire")
    states = finished(cloud, bulk(cloud, 3, clusterid=cloud.zone.id_of("clusters", "a-1")))
    for state in states:
        assert (state["jobstatus"], state["jobresultcode"]) == (2, 530)
        text = state["jobresult"]["errortext"]
        assert "volume" in text
        assert "a-1-" in text
        assert "the array is on fire" in text
    cloud.fleet.assert_nothing_held()


def test_failures_of_some_do_not_touch_the_others(cloud: Cloud) -> None:
    """Best effort: what can run runs, what cannot fails alone, and the whole is seen in listBulkDeployments."""
    cloud.fleet.fault(Step.BOOT, remaining=3, reason="bad image")
    jobs = bulk(cloud, 12, podid=cloud.zone.id_of("pods", "pod-a"))
    states = finished(cloud, jobs)
    assert Counter(state["jobstatus"] for state in states) == {1: 9, 2: 3}
    (row,) = cloud.client.call("listBulkDeployments", id=jobs[0]["deploymentid"], listall=True)["bulkdeployment"]
    assert (row["asked"], row["count"], row["succeeded"], row["failed"]) == (12, 12, 9, 3)
    assert row["state"] == "Completed"
    assert len(row["failures"]) == 3
    assert all("bad image" in failure["errortext"] for failure in row["failures"])
    cloud.fleet.assert_intact()


def test_a_cancelled_deployment_gives_back_what_has_not_begun(cloud: Cloud) -> None:
    """CancelBulkDeployment stops what has not begun; every job ends, and nothing is held for the stopped ones."""
    cloud.client.call("updateConfiguration", name="vm.allocation.algorithm", value="firstfit")
    cloud.fleet.fault(Step.BOOT, FaultKind.HANG, hang_ms=700)
    jobs = bulk(cloud, 60)
    row = cloud.client.call("cancelBulkDeployment", id=jobs[0]["deploymentid"])["bulkdeployment"]
    assert row["state"] == "Cancelled"
    states = finished(cloud, jobs)
    counts = Counter(state["jobstatus"] for state in states)
    assert counts[2] > 0
    stopped = [state for state in states if state["jobstatus"] == 2]
    assert all("cancelled" in state["jobresult"]["errortext"] for state in stopped)
    assert len(cloud.fleet.guests()) == counts[1]
    cloud.fleet.assert_intact()


def test_the_life_of_a_vm_after_a_bulk_call(cloud: Cloud) -> None:
    """Stop, start and destroy with expunge, each as a job; in the end nothing is left."""
    (job,) = bulk(cloud, 1)
    finished(cloud, [job])
    vm = job["jobinstanceid"]
    for command, state in (("stopVirtualMachine", "Stopped"), ("startVirtualMachine", "Running")):
        (done,) = finished(cloud, [cloud.client.call(command, id=vm)])
        assert done["jobresult"]["virtualmachine"]["state"] == state
        cloud.fleet.assert_intact()
    finished(cloud, [cloud.client.call("destroyVirtualMachine", id=vm, expunge=True)])
    cloud.fleet.assert_nothing_held()
