"""One call, a hundred containers on two members, as operators and users see them; it says what they cost."""

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.incus.chaos import IncusTrial
from tests.incus.cluster import IncusHosts, why_not
from tests.incus.rates import said_what_it_costs
from tests.support.hypervisors import real_trial
from tests.support.hypervisors.real_cloud import RealCloud, real_cloud
from tests.support.processes.programs import bulkdeploy
from tests.support.runs.waiting import say

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

GUESTS = int(os.environ.get("GUESTS") or 100)
PATIENCE_S = 600.0
SEED = 28
FEWEST_ACCIDENTS = 5
ERRORS_AMONG = 20
"""One of so many VMs may end in Error: all accidents pass, and jobs are tried again."""


@pytest.fixture(scope="module")
def cloud() -> Iterator[RealCloud[IncusHosts]]:
    """The whole service, on the cluster."""
    with real_cloud(IncusHosts(), workers=2) as made:
        yield made
        assert "Traceback" not in (made.folder / "programs.log").read_text()


def has_ended(cloud: RealCloud[IncusHosts]) -> bool:
    """Whether no job is under way."""
    jobs = cloud.client.call("listAsyncJobs", listall=True, pagesize=-1).get("asyncjobs", ())
    return all(job["jobstatus"] for job in jobs)


def reasons_of_failures(cloud: RealCloud[IncusHosts]) -> Counter[str]:
    """Count why jobs failed, without names and ids."""
    jobs = cloud.client.call("listAsyncJobs", listall=True, pagesize=-1).get("asyncjobs", ())
    texts = [str(job["jobresult"]["errortext"]) for job in jobs if job["jobstatus"] == 2]
    return Counter(re.sub(r"i-\d+-\d+-VM|[0-9a-f]{8}-[0-9a-f-]{27}", "X", text) for text in texts)


def assert_intact(cloud: RealCloud[IncusHosts]) -> None:
    """The audit compares rows with what the cluster has, and finds nothing."""
    audited = bulkdeploy(cloud.stack.settings, "audit")
    assert audited.returncode == 0, audited.stdout + audited.stderr


def destroy_all(cloud: RealCloud[IncusHosts], capsys: pytest.CaptureFixture[str]) -> None:
    """Destroy each VM by a call; nothing is left."""
    vms = cloud.vms()
    with capsys.disabled(), said_what_it_costs(f"{len(vms)} containers destroyed by a call each", len(vms)):
        for vm in vms:
            cloud.client.call("destroyVirtualMachine", id=vm["id"], expunge=True)
        assert cloud.wait_until(lambda: has_ended(cloud), PATIENCE_S)
    assert cloud.hosts.running() == {}
    assert cloud.hosts.remains() == []
    assert_intact(cloud)


def test_a_container_that_is_stopped_by_hand_stops_its_vm(
    cloud: RealCloud[IncusHosts], capsys: pytest.CaptureFixture[str]
) -> None:
    """Incus tells of it; no other VM is touched, and it starts again by the API."""
    cloud.client.call("bulkDeployVirtualMachine", virtualmachinecount=2, **cloud.ids)
    assert cloud.wait_until(lambda: has_ended(cloud), PATIENCE_S)
    ended, other = cloud.vms()
    cloud.hosts.hosts[0].incus("stop", "--force", f"vm-{ended['id']}")
    began = time.monotonic()

    def states() -> list[str]:
        by_id = {vm["id"]: vm["state"] for vm in cloud.vms()}
        return [by_id[vm["id"]] for vm in (ended, other)]

    assert cloud.wait_until(lambda: states() == ["Stopped", "Running"], PATIENCE_S)
    with capsys.disabled():
        say(f"a VM is Stopped {time.monotonic() - began:.1f} s after `incus stop` of its container")
    assert cloud.wait_until(lambda: has_ended(cloud), PATIENCE_S)
    cloud.client.call("startVirtualMachine", id=ended["id"])
    assert cloud.wait_until(lambda: states() == ["Running", "Running"], PATIENCE_S)
    assert_intact(cloud)
    destroy_all(cloud, capsys)


def test_one_call_makes_a_hundred_containers(
    cloud: RealCloud[IncusHosts], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each runs, once, where its VM says, over both members; destroyed, none leaves anything."""
    with capsys.disabled(), said_what_it_costs(f"{GUESTS} containers deployed by one call", GUESTS):
        cloud.client.call("bulkDeployVirtualMachine", virtualmachinecount=GUESTS, **cloud.ids)
        assert cloud.wait_until(lambda: has_ended(cloud), PATIENCE_S)
    vms = cloud.client.call("listVirtualMachines", pagesize=500, page=1)["virtualmachine"]
    assert {vm["state"] for vm in vms} == {"Running"}
    assert cloud.hosts.running() == {UUID(vm["id"]): vm["hostname"] for vm in vms}
    assert len(vms) == GUESTS
    assert len({vm["hostname"] for vm in vms}) == len(cloud.hosts.hosts)
    assert_intact(cloud)
    destroy_all(cloud, capsys)


def test_a_hundred_containers_while_members_die(
    cloud: RealCloud[IncusHosts], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons, workers and the power of members fail meanwhile; in the end rows, members and containers agree."""
    monkeypatch.setattr(real_trial, "REST_S", PATIENCE_S)
    trial = IncusTrial(cloud, SEED, time.monotonic() + PATIENCE_S)
    with capsys.disabled():
        cloud.client.call("bulkDeployVirtualMachine", virtualmachinecount=GUESTS, **cloud.ids)
        breaking = threading.Thread(target=trial.break_things, daemon=True)
        breaking.start()
        assert cloud.wait_until(lambda: has_ended(cloud), PATIENCE_S)
        trial.ends = time.monotonic()
        assert cloud.wait_until(lambda: not breaking.is_alive(), PATIENCE_S)
        assert cloud.wait_until(lambda: not trial._differences(), PATIENCE_S), trial._differences()
        states = Counter(vm["state"] for vm in cloud.vms())
        say(f"accidents: {dict(trial.done)}; VMs: {dict(states)}")
        for reason, count in reasons_of_failures(cloud).most_common():
            say(f"{count:4} {reason}")
        assert states.keys() <= {"Running", "Stopped", "Error"}
        assert states["Running"] > 0
        assert states["Error"] <= GUESTS // ERRORS_AMONG
        assert trial.done.total() >= FEWEST_ACCIDENTS
        trial.come_to_rest()
    assert trial.breaches == []
