"""Allocator programs choose where VMs move: one that migrates, and all of a host that is emptied."""

from pathlib import Path

import pytest

from bulkdeploy.provisioning.job_kind import PLANNERS_AT_ONCE
from bulkdeploy.provisioning.running.job_runner import JobRunner
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _on, host
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.hypervisors.allocators import HAIL, OURS, Allocators, needs_hail
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet

pytestmark = pytest.mark.long

__all__ = ["host"]

TO_THE_LAST = """
import json, sys
document = json.load(open(sys.argv[1]))
request, nodes = document["request"], document["nodes"]
last = "a-1-3"
if request["type"] == "relocate":
    result = [last]
else:
    result = [[[name, "a-1", [last]] for name in request["instances"]], [], []]
print(json.dumps({"success": True, "info": "", "result": result}))
"""

PATIENT = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[0]).parent.parent
(folder / f"asked-{os.getpid()}").touch()
while not (folder / "go").exists():
    time.sleep(0.05)
print('{"success": false, "info": "no", "result": []}')
"""
"""Says that it was asked, and answers once it may."""


@pytest.fixture
def allocators(fleet: Fleet, client: ApiClient, tmp_path: Path) -> Allocators:
    """One that chooses a-1-3 whatever it is asked."""
    made = Allocators.of(fleet.engine, tmp_path / "allocators", client)
    made.add("last", TO_THE_LAST)
    return made


def test_a_host_is_emptied_to_where_a_program_says(
    fleet: Fleet, client: ApiClient, host: str, allocators: Allocators
) -> None:
    """All of its VMs in one question; a dry run shows the answer."""
    allocators.use("last", "evacuate")
    plan = client.call("migrateHost", id=host, dryrun="true")["plan"]
    assert {row["hostname"] for row in plan["move"]} == {"a-1-3"}
    job = _finish(fleet, client, client.call("migrateHost", id=host)["jobid"])
    moved = job["jobresult"]["hostmigration"]["moved"]
    assert [row["hostname"] for row in moved] == ["a-1-3"] * VMS
    fleet.assert_intact()


def test_a_host_is_not_emptied_where_no_program_answers(
    fleet: Fleet, client: ApiClient, host: str, allocators: Allocators
) -> None:
    """Its answer is against the rules, twice: nothing is done, and why is said; with builtin behind it all move."""
    fleet.zone.change("UPDATE hosts SET resource_state = 'Disabled' WHERE name = 'a-1-3'")
    allocators.use("last", "evacuate")
    with pytest.raises(
        ApiFailure, match=r"No allocator chose hosts .*it chose does not take its VM: no host"
    ) as no:
        client.call("migrateHost", id=host)
    assert (no.value.status, _on(fleet, host)) == (534, VMS)
    allocators.use("last,builtin", "evacuate")
    job = _finish(fleet, client, client.call("migrateHost", id=host)["jobid"])
    assert {row["hostname"] for row in job["jobresult"]["hostmigration"]["moved"]} == {"a-1-2"}
    fleet.assert_intact()


@pytest.mark.parametrize(
    "program", [pytest.param(HAIL, marks=needs_hail, id="hail"), pytest.param(OURS, id="ours")]
)
def test_vms_move_as_programs_of_the_field_choose(
    fleet: Fleet, client: ApiClient, host: str, allocators: Allocators, program: Path
) -> None:
    """One VM by relocate, asked while its job has no transaction open; the rest by node-evacuate."""
    allocators.link(program.name, program)
    for task in ("relocate", "evacuate"):
        allocators.use(program.name, task)
    vm = client.call("listVirtualMachines", hostid=host, listall="true")["virtualmachine"][0]["id"]
    job = _finish(
        fleet, client, client.call("migrateVirtualMachine", virtualmachineid=vm, autoselect="true")["jobid"]
    )
    assert job["jobstatus"] == 1, job["jobresult"]["errortext"]
    assert job["jobresult"]["virtualmachine"]["hostname"] in {"a-1-2", "a-1-3"}
    job = _finish(fleet, client, client.call("migrateHost", id=host)["jobid"])
    assert len(job["jobresult"]["hostmigration"]["moved"]) == VMS - 1
    assert _on(fleet, host) == 0
    fleet.assert_intact()


def test_programs_that_think_keep_no_other_job_waiting(
    fleet: Fleet, client: ApiClient, host: str, allocators: Allocators, tmp_path: Path
) -> None:
    """As many moves as may be planned at a time wait for a program, and a VM is started beside them."""
    allocators.add("patient", PATIENT)
    allocators.use("patient", "relocate")
    client.call("updateConfiguration", name="placement.allocators.timeout", value="600")
    stopped, *running = (
        row["id"] for row in client.call("listVirtualMachines", hostid=host, listall="true")["virtualmachine"]
    )
    client.call("stopVirtualMachine", id=stopped)
    fleet.run()
    for vm in running[:PLANNERS_AT_ONCE]:
        client.call("migrateVirtualMachine", virtualmachineid=vm, autoselect="true")
    with fleet.runner() as runner:
        _accept_all(fleet, runner)
        wait_for(lambda: len(list(tmp_path.glob("asked-*"))) == PLANNERS_AT_ONCE, "all programs are asked")
        started = client.call("startVirtualMachine", id=stopped)["jobid"]
        _accept_all(fleet, runner)
        wait_for(lambda: client.call("queryAsyncJobResult", jobid=started)["jobstatus"] == 1, "the VM has started")
        (tmp_path / "go").touch()
    fleet.assert_intact()


def _accept_all(fleet: Fleet, runner: JobRunner) -> None:
    for row in fleet.zone.rows("SELECT id FROM async_jobs WHERE phase = 'queued' ORDER BY id"):
        runner.accept(row.id)
