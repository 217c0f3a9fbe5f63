"""Plans of starts, moves, maintenance, evacuation and balance: what was shown happens, to the host, or nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.simulator.control import cut_off
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.commands.infrastructure.test_host_maintenance import VMS, _finish, _look, host
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.hypervisors.drivers import always
from tests.support.zones.fleet import Fleet

__all__ = ["host"]

CHANGES = {
    "a host that is full": "UPDATE host_capacity SET vms_limit = vms_used WHERE host_id = :host",
    "memory of a host": "UPDATE host_capacity SET memory_mib_limit = memory_mib_used WHERE host_id = :host",
    "CPU of a host": "UPDATE host_capacity SET cpu_mhz_limit = cpu_mhz_used WHERE host_id = :host",
    "a host that is down": "UPDATE hosts SET state = 'Down' WHERE id = :host",
    "a host in maintenance": "UPDATE hosts SET resource_state = 'Maintenance' WHERE id = :host",
    "a host that is gone": "UPDATE hosts SET removed = now() WHERE id = :host",
    "a cluster that is disabled": (
        "UPDATE clusters SET allocation_state = 'Disabled'"
        " WHERE id = (SELECT cluster_id FROM hosts WHERE id = :host)"
    ),
    "a VM that is elsewhere": (
        "UPDATE virtual_machines SET host_id = :host WHERE id = (SELECT min(id) FROM virtual_machines)"
    ),
}
"""What can make a plan stale, by one of the hosts that it uses."""

SAVED = {
    "host_capacity": ("host_id", "vms_limit", "memory_mib_limit", "cpu_mhz_limit"),
    "hosts": ("id", "state", "resource_state", "removed"),
    "clusters": ("id", "allocation_state"),
    "virtual_machines": ("id", "host_id"),
}
"""What changes change, so that it can be put back: tables with their key and columns."""

OF_HOSTS = ("migrateHost", "prepareHostForMaintenance", "evacuateHost")


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, fleet_simulator_url: str) -> Iterator[System]:
    """One that asks the simulator itself whether a host answers."""
    driver = SimulatorDriver(fleet_simulator_url)
    yield System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
    driver.close()


def where(fleet: Fleet) -> dict[str, str]:
    """The host of each VM that has one."""
    rows = fleet.zone.rows("SELECT v.uuid, h.uuid AS host FROM virtual_machines v JOIN hosts h ON h.id = v.host_id")
    return {str(row.uuid): str(row.host) for row in rows}


def planned(plan: dict[str, Any]) -> dict[str, str]:
    """The same, as a plan shows it."""
    return {row["virtualmachineid"]: row["hostid"] for row in plan["move"]}


def call_of(fleet: Fleet, command: str, host: str) -> dict[str, Any]:
    """The parameters of a call that empties a host, which is dead where it must be."""
    if command == "evacuateHost":
        cut_off(fleet.control, "a-1-1")
    return {"id": host}


@pytest.mark.parametrize("command", OF_HOSTS)
def test_hosts_are_emptied_as_it_was_shown(fleet: Fleet, client: ApiClient, host: str, command: str) -> None:
    """Each VM goes where the plan says, though other hosts have more room by now; the dry run changed nothing."""
    call = call_of(fleet, command, host)
    before, jobs = where(fleet), len(fleet.jobs())
    plan = client.call(command, **call, dryrun=True)["plan"]
    assert (plan["count"], plan["fits"], where(fleet), len(fleet.jobs())) == (VMS, VMS, before, jobs)
    assert sum(row["count"] for row in plan["placedhosts"]) == VMS
    assert client.call("listHosts", id=host)["host"][0]["state"] == "Up"
    _finish(fleet, client, client.call(command, **call, planindex=plan["index"])["jobid"])
    assert where(fleet) == planned(plan)
    fleet.assert_intact()


def test_a_plan_that_does_not_stand_any_more_is_refused(fleet: Fleet, client: ApiClient, host: str) -> None:
    """409, by the name of what changed, for every call that plans and every change; none has done anything."""
    vm = str(fleet.vms()[0].uuid)
    calls: dict[str, dict[str, Any]] = {command: {"id": host, "force": True} for command in OF_HOSTS}
    calls["migrateVirtualMachine"] = {"virtualmachineid": vm, "autoselect": True}
    plans = {command: client.call(command, **call, dryrun=True)["plan"] for command, call in calls.items()}
    used = {row["hostid"] for plan in plans.values() for row in plan["move"]}
    ids = [
        row.id for row in fleet.zone.rows("SELECT id FROM hosts WHERE CAST(uuid AS text) = ANY(:u)", u=list(used))
    ]
    for table in SAVED:
        fleet.zone.change(f"CREATE TABLE saved_{table} AS TABLE {table}")
    jobs = len(fleet.jobs())
    for change, statement in CHANGES.items():
        for host_id in ids:
            fleet.zone.change(statement, host=host_id)
        for command, call in calls.items():
            index = plans[command]["index"]
            failure = refused(client, command, **call, planindex=index)
            assert (failure.status, f"Plan {index} is stale: " in failure.errortext) == (409, True), (
                change,
                command,
            )
            assert "host " in failure.errortext
        for table, (key, *columns) in SAVED.items():
            values = ", ".join(f"{column} = s.{column}" for column in columns)
            fleet.zone.change(f"UPDATE {table} t SET {values} FROM saved_{table} s WHERE s.{key} = t.{key}")
    assert len(fleet.jobs()) == jobs
    for command, call in calls.items():
        assert client.call(command, **call, dryrun=True, planindex=plans[command]["index"])["plan"]["fits"]
    shown = client.call("listHosts", id=host)["host"][0]
    assert (shown["state"], shown["resourcestate"]) == ("Up", "Enabled")


def test_vms_that_came_or_went_make_the_plan_of_a_host_stale(fleet: Fleet, client: ApiClient, host: str) -> None:
    """It is of the VMs that were there."""
    fleet.deploy(1, cluster="a-1")
    fleet.run()
    there = [vm for vm in fleet.vms() if where(fleet)[str(vm.uuid)] == host]
    plan = client.call("migrateHost", id=host, dryrun=True)["plan"]
    fleet.zone.change("UPDATE virtual_machines SET state = 'Stopped' WHERE id = :id", id=there[0].id)
    client.call("migrateHost", id=host, dryrun=True, planindex=plan["index"])
    newer = client.call("migrateHost", id=host, dryrun=True)["plan"]
    fleet.zone.change("UPDATE virtual_machines SET state = 'Running' WHERE id = :id", id=there[0].id)
    failure = refused(client, "migrateHost", id=host, planindex=newer["index"])
    assert f"virtual machine {there[0].name} is on the host by now" in failure.errortext


def test_a_plan_of_a_start_that_does_not_stand_any_more_is_refused(
    fleet: Fleet, client: ApiClient, host: str
) -> None:
    """409 where its host takes the VM no more, though others would; the VM stays Stopped, and no job is made."""
    vm = str(fleet.vms()[0].uuid)
    _finish(fleet, client, client.call("stopVirtualMachine", id=vm)["jobid"])
    plan = client.call("startVirtualMachine", id=vm, dryrun=True)["plan"]
    ((_, chosen),) = planned(plan).items()
    number = fleet.zone.scalar("SELECT id FROM hosts WHERE uuid = CAST(:host AS uuid)", host=chosen)
    jobs = len(fleet.jobs())
    for name, statement in CHANGES.items():
        if name == "a VM that is elsewhere":
            continue
        for table in SAVED:
            fleet.zone.change(f"CREATE TABLE before_{table} AS TABLE {table}")
        fleet.zone.change(statement, host=number)
        failure = refused(client, "startVirtualMachine", id=vm, planindex=plan["index"])
        assert (failure.status, f"Plan {plan['index']} is stale: " in failure.errortext) == (409, True), name
        for table, (key, *columns) in SAVED.items():
            values = ", ".join(f"{column} = s.{column}" for column in columns)
            fleet.zone.change(f"UPDATE {table} t SET {values} FROM before_{table} s WHERE s.{key} = t.{key}")
            fleet.zone.change(f"DROP TABLE before_{table}")
    assert (len(fleet.jobs()), client.call("listVirtualMachines", id=vm)["virtualmachine"][0]["state"]) == (
        jobs,
        "Stopped",
    )
    _finish(fleet, client, client.call("startVirtualMachine", id=vm, planindex=plan["index"])["jobid"])
    assert where(fleet)[vm] == chosen
    del host


def test_a_plan_is_of_one_command_and_one_user(client: ApiClient, host: str) -> None:
    """Another call is refused by name; judged with dryrun it stays what it was."""
    plan = client.call("migrateHost", id=host, dryrun=True)["plan"]
    again = client.call("migrateHost", id=host, dryrun=True, planindex=plan["index"])["plan"]
    assert (again["index"], planned(again)) == (plan["index"], planned(plan))
    failure = refused(client, "prepareHostForMaintenance", id=host, planindex=plan["index"])
    assert (failure.status, "other parameters" in failure.errortext) == (431, True)
    assert "no such plan" in refused(client, "migrateHost", id=host, planindex=plan["index"] + 1).errortext


def test_vms_start_and_move_where_it_was_shown(fleet: Fleet, client: ApiClient, host: str) -> None:
    """To the host, or nowhere: a start or a move that was planned is not tried elsewhere."""
    vm = str(fleet.vms()[0].uuid)
    plan = client.call("migrateVirtualMachine", virtualmachineid=vm, autoselect=True, dryrun=True)["plan"]
    assert plan["move"][0]["fromhostid"] == host != plan["move"][0]["hostid"]
    client.call("migrateVirtualMachine", virtualmachineid=vm, autoselect=True, planindex=plan["index"])
    _look(fleet)
    assert where(fleet)[vm] == planned(plan)[vm]
    client.call("stopVirtualMachine", id=vm)
    _look(fleet)
    plan = client.call("startVirtualMachine", id=vm, dryrun=True)["plan"]
    client.call("startVirtualMachine", id=vm, planindex=plan["index"])
    _look(fleet)
    assert where(fleet)[vm] == planned(plan)[vm]
    fleet.assert_intact()


def test_a_vm_without_a_host_in_the_plan_is_named(fleet: Fleet, client: ApiClient, host: str) -> None:
    """With what keeps it; the others have theirs."""
    fleet.zone.change(
        "UPDATE host_capacity SET vms_limit = vms_used + 1 WHERE host_id IN"
        " (SELECT id FROM hosts WHERE name IN ('a-1-2', 'a-1-3'))"
    )
    plan = client.call("migrateHost", id=host, dryrun=True)["plan"]
    assert (plan["count"], plan["fits"]) == (VMS, 2)
    assert ["no host has room" in row.get("errortext", "") for row in plan["move"]].count(True) == VMS - 2


def test_balance_makes_the_moves_that_were_shown(fleet: Fleet, client: ApiClient, host: str) -> None:
    """Those and no others, set after set; and none where one of them does not fit any more."""
    del host
    call = {"clusterid": fleet.zone.id_of("clusters", "a-1")}
    plan = client.call("balanceZone", **call, dryrun=True)["balanceplan"]
    assert plan["moves"] > 1
    job = client.call("balanceZone", **call, planindex=plan["index"])["jobid"]
    result = _finish(fleet, client, job)["jobresult"]["balance"]
    assert (result["moves"], result["failed"]) == (plan["moves"], 0)
    assert planned(plan).items() <= where(fleet).items()
    assert result["scoreafter"] == pytest.approx(plan["scoreafter"])
    failure = refused(client, "balanceZone", **call, planindex=plan["index"])
    assert (failure.status, "by now, not on host a-1-1" in failure.errortext) == (409, True)
    fleet.assert_intact()
