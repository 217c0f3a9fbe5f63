"""What hypervisors measure is what lists answer: measured twice, since the first time shows totals only."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from bulkdeploy.api.app import create_app
from bulkdeploy.commands.virtual_machines.usage_history import SAMPLE
from bulkdeploy.domain.errors import InsufficientCapacity
from bulkdeploy.domain.virtual_machines.usage import HostUsage, PoolUsage
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.provisioning.watches.usage_watch import UsageWatch
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.hypervisors.usage import FULL_SHARE, mark_full_pools, write_usage
from tests.api.test_metrics import figures_of
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet, OneDriver

FIGURES = {
    *("cpuused", "networkkbsread", "networkkbswrite", "diskkbsread", "diskkbswrite", "diskioread", "diskiowrite"),
    *("receivedbytes", "sentbytes", "memorykbs", "memorytargetkbs", "memoryintfreekbs"),
}
AT_ONCE = {"receivedbytes", "sentbytes", "memorykbs", "memorytargetkbs", "memoryintfreekbs"}
MINUTE_AGO = "UPDATE {table} SET seen = seen - interval '1 minute'"


@pytest.fixture
def watch(fleet: Fleet) -> UsageWatch:
    """What measures the fleet."""
    return UsageWatch(fleet.engine, OneDriver(fleet.driver), 30)


@pytest.fixture
def client(fleet: Fleet) -> Iterator[ApiClient]:
    """The admin of the fleet's API."""
    with fleet.engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    with serving(create_app(fleet.system, refuse_undeclared_fields=True)) as url:
        yield ApiClient(url, admin.api_key, fleet.system.cipher.decrypt(admin.secret_key_encrypted))


def measure(fleet: Fleet, watch: UsageWatch) -> None:
    """Measure once, a minute after the measurement before."""
    for table in ("guest_usage", "host_usage"):
        fleet.zone.change(MINUTE_AGO.format(table=table))
    watch._due = 0.0
    watch.measure_usage()


def vm_of(client: ApiClient, **parameters: str) -> dict[str, Any]:
    """The one VM."""
    ((row),) = client.call("listVirtualMachines", listall="true", **parameters)["virtualmachine"]
    return dict(row)


def test_figures_of_vms_and_hosts_are_measured(fleet: Fleet, watch: UsageWatch, client: ApiClient) -> None:
    """After one measurement there is memory; after two there are shares and traffic, within what is possible."""
    fleet.deploy(1)
    fleet.run()
    assert FIGURES & vm_of(client).keys() == set()
    watch.measure_usage()
    first = vm_of(client)
    assert FIGURES & first.keys() == AT_ONCE
    assert first["memorykbs"] == first["memory"] * 1024

    def has_traffic() -> bool:
        measure(fleet, watch)
        return int(vm_of(client).get("networkkbsread", 0)) > 0

    wait_for(has_traffic)
    row = vm_of(client)
    assert row.keys() >= FIGURES
    assert row["hostcontrolstate"] == "Enabled"
    assert 0 <= float(row["cpuused"].removesuffix("%")) <= 100
    assert FIGURES & vm_of(client, details="min").keys() == set()

    host = next(one for one in client.call("listHosts")["host"] if one["id"] == row["hostid"])
    assert 0 < float(host["cpuused"].removesuffix("%")) <= 100
    assert row["memory"] * 1024**2 < host["memoryused"] <= host["memorytotal"]
    assert host["networkkbsread"] == row["networkkbsread"]


def test_what_is_not_measured_has_no_figures(fleet: Fleet, watch: UsageWatch, client: ApiClient) -> None:
    """A VM that was stopped loses its figures ten minutes later. With an interval of 0 nothing is measured."""
    fleet.deploy(1)
    fleet.run()
    watch.measure_usage()
    vm = vm_of(client)
    client.call("stopVirtualMachine", id=vm["id"])
    fleet.run()
    fleet.zone.change("UPDATE guest_usage SET seen = seen - interval '11 minutes'")
    measure(fleet, watch)
    assert FIGURES & vm_of(client).keys() == set()
    fleet.set_value("vm.stats.interval", 0)
    fleet.zone.change("DELETE FROM host_usage")
    measure(fleet, watch)
    assert fleet.zone.scalar("SELECT count(*) FROM host_usage") == 0


def history_of(client: ApiClient, **parameters: object) -> list[dict[str, Any]]:
    """Return the samples of the one VM."""
    ((row),) = client.call("listVirtualMachinesUsageHistory", **parameters)["virtualmachine"]
    return list(row.get("stats", []))


def test_measurements_are_kept(fleet: Fleet, watch: UsageWatch, client: ApiClient) -> None:
    """Each measurement after the first is a sample, narrowed by moments, until it is too old; 0 keeps none."""
    fleet.deploy(1)
    fleet.run()
    watch.measure_usage()
    assert history_of(client) == []
    for _ in range(3):
        measure(fleet, watch)
    vm = vm_of(client)
    samples = history_of(client, id=vm["id"])
    assert [set(sample) for sample in samples] == 3 * [{field.name for field in SAMPLE}]
    assert samples[-1]["networkkbsread"] == vm["networkkbsread"]
    assert sorted(sample["timestamp"] for sample in samples) == [sample["timestamp"] for sample in samples]
    later = "2099-01-01 00:00:00"
    assert (len(history_of(client, enddate=later)), history_of(client, startdate=later)) == (3, [])
    fleet.zone.change("UPDATE guest_usage_samples SET seen = seen - interval '13 hours'")
    measure(fleet, watch)
    assert len(history_of(client)) == 1
    fleet.set_value("vm.stats.max.retention.time", 0)
    measure(fleet, watch)
    assert history_of(client) == []


def test_a_vm_is_summed_over_intervals(fleet: Fleet, watch: UsageWatch, client: ApiClient) -> None:
    """Each period has the sums of the samples and means of shares; old intervals are deleted; 0 keeps none."""
    fleet.deploy(1)
    fleet.run()
    watch.measure_usage()
    for _ in range(3):
        measure(fleet, watch)
    vm = vm_of(client)
    samples = history_of(client, id=vm["id"])

    def intervals_of(period: str) -> list[dict[str, Any]]:
        history = client.call("getVirtualMachineUsageHistory", id=vm["id"], period=period)["usagehistory"]
        return list(history.get("samples", []))

    for period in ("hour", "day", "week"):
        intervals = intervals_of(period)
        for name in ("networkkbsread", "networkkbswrite", "diskkbsread", "diskkbswrite"):
            assert sum(one[name] for one in intervals) == sum(sample[name] for sample in samples)
        assert {one["memorykbs"] for one in intervals} == {vm["memorykbs"]}
        assert all(0 < one["memoryusedkbs"] <= one["memorykbs"] for one in intervals)
        shares = [float(sample["cpuused"].removesuffix("%")) for sample in samples]
        assert all(
            min(shares) - 0.01 <= float(one["cpuused"].removesuffix("%")) <= max(shares) + 0.01 for one in intervals
        )
    fleet.zone.change("UPDATE guest_usage_samples SET unused_kib = memory_kib + 1")
    assert {one["memoryusedkbs"] for one in intervals_of("hour")} == {0}
    fleet.zone.change("UPDATE guest_usage_intervals SET begun = begun - interval '9 days'")
    fleet.set_value("vm.stats.max.retention.time", 0)
    measure(fleet, watch)
    assert fleet.zone.scalar("SELECT count(*) FROM guest_usage_intervals") == 0
    assert [intervals_of(period) for period in ("hour", "day", "week")] == [[], [], []]


def usage_of(client: ApiClient, **parameters: object) -> list[dict[str, Any]]:
    """Return the samples of a place."""
    return list(client.call("getHostUsageHistory", **parameters)["usagehistory"].get("samples", []))


def test_hosts_are_summed_over_intervals(fleet: Fleet, watch: UsageWatch, client: ApiClient) -> None:
    """Measurements of one interval are one sample; a cluster's is that of its hosts; old intervals are deleted."""
    fleet.deploy(1)
    fleet.run()
    watch.measure_usage()
    measure(fleet, watch)
    (host, *_) = client.call("listHosts")["host"]
    in_cluster = client.call("listHosts", clusterid=host["clusterid"])["host"]
    for period in ("hour", "day", "week"):
        mine = usage_of(client, hostid=host["id"], period=period)
        samples = usage_of(client, clusterid=host["clusterid"], period=period)
        together = sum(
            one["memoryusedkbs"] for row in in_cluster for one in usage_of(client, hostid=row["id"], period=period)
        )
        assert sum(one["memoryusedkbs"] for one in samples) == together
        assert {one["hosts"] for one in samples} == {len(in_cluster)}
        assert mine[-1]["memorykbs"] == host["memorytotal"] // 1024
        assert mine[-1]["memoryusedkbs"] == host["memoryused"] // 1024
        assert 0 <= float(mine[-1]["cpuused"].removesuffix("%")) <= 100
    measured = "SELECT sum(measurements) FROM host_usage_intervals WHERE interval_s = 3600"
    assert fleet.zone.scalar(measured) == 2 * fleet.zone.scalar("SELECT count(*) FROM hosts WHERE state = 'Up'")
    fleet.zone.change("UPDATE host_usage_intervals SET begun = begun - interval '2 days'")
    measure(fleet, watch)
    kept = "SELECT count(*) FROM host_usage_intervals WHERE begun < now() - interval '1 day' AND interval_s = {}"
    assert fleet.zone.scalar(kept.format(300)) == 0
    assert fleet.zone.scalar(kept.format(3600)) > 0


def test_a_silent_host_keeps_others_from_nothing(
    fleet: Fleet, watch: UsageWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are measured; a driver that can ask no host measures none, and nothing fails."""
    whole = fleet.driver.usage_of_hosts
    hosts = fleet.zone.scalar("SELECT count(*) FROM hosts WHERE state = 'Up'")

    def one_silent(*arguments: Any, **named: Any) -> Any:
        first, *others = whole(*arguments, **named)
        del first
        return [DriverError("usage", "h", "no route to the host", transient=True), *others]

    monkeypatch.setattr(fleet.driver, "usage_of_hosts", one_silent)
    watch.measure_usage()
    assert fleet.zone.scalar("SELECT count(*) FROM host_usage") == hosts - 1

    def none(*arguments: Any, **named: Any) -> Any:
        del arguments, named
        raise DriverError("usage", "any", "away", transient=True)

    monkeypatch.setattr(fleet.driver, "usage_of_hosts", none)
    measure(fleet, watch)


def test_hosts_are_in_the_metrics(fleet: Fleet, watch: UsageWatch) -> None:
    """Share of the cores and memory in use, by name of the host."""
    watch.measure_usage()
    measure(fleet, watch)
    name = fleet.zone.scalar("SELECT name FROM hosts ORDER BY id LIMIT 1")
    figures = figures_of(fleet.system)
    assert 0 < figures["bulkdeploy_host_cpu_used_ratio", name] < 1
    assert figures["bulkdeploy_host_memory_used_bytes", name] > 0


def test_a_pool_that_fills_up_takes_no_more_volumes(fleet: Fleet, watch: UsageWatch, client: ApiClient) -> None:
    """Above the threshold nothing is planned into it, and an alert names it; below it takes volumes again."""
    pools = client.call("listStoragePools")["storagepool"]
    half = {UUID(pool["id"]): PoolUsage(pool["capacitybytes"] // 2, pool["capacitybytes"] // 2) for pool in pools}
    zone = {"zoneid": pools[0]["zoneid"], "type": 2}
    assert client.call("listCapacity", **zone).get("capacity", []) == []

    def measured(share: float) -> None:
        usage = {uuid: PoolUsage(int(share * one.total_bytes), one.total_bytes) for uuid, one in half.items()}
        with fleet.engine.begin() as connection:
            write_usage(connection, [HostUsage(UUID(int=1), 0, 0, 0, (), usage)])
        measure(fleet, watch)

    measured(0.86)
    assert {pool["disksizetotal"] for pool in client.call("listStoragePools")["storagepool"]} == {
        one.total_bytes for one in half.values()
    }
    (capacity,) = client.call("listCapacity", **zone)["capacity"]
    shared = [half[UUID(pool["id"])] for pool in pools if pool["scope"] != "HOST"]
    assert capacity["capacitytotal"] == sum(one.total_bytes for one in shared)
    assert capacity["capacityused"] == sum(int(0.86 * one.total_bytes) for one in shared)
    with pytest.raises(InsufficientCapacity, match="no storage pool of the host has room"):
        fleet.deploy(1)
    measured(0.9)
    alerts = [one for one in client.call("listAlerts")["alert"] if one["name"] == "ALERT.STORAGE"]
    assert len(alerts) == len(pools)
    assert "takes no new volumes: 86% of its" in alerts[0]["description"]
    client.call("updateConfiguration", name=FULL_SHARE, value="0.95")
    measure(fleet, watch)
    fleet.deploy(1)
    measured(0.96)
    client.call("updateConfiguration", name=FULL_SHARE, value="0.95", storageid=pools[0]["id"])
    measured(0.5)
    fleet.deploy(1)
    measured(0.96)
    with fleet.engine.begin() as connection:
        connection.execute(text("DELETE FROM pool_usage"))
    measure(fleet, watch)
    fleet.deploy(1)


def test_of_two_sweepers_one_alerts_about_a_full_pool(fleet: Fleet) -> None:
    """Both have seen the pool before either marked it."""
    uuid = fleet.zone.scalar("SELECT uuid FROM storage_pools ORDER BY id LIMIT 1")
    with fleet.engine.begin() as connection:
        write_usage(connection, [HostUsage(UUID(int=1), 0, 0, 0, (), {uuid: PoolUsage(99, 100)})])
    with fleet.engine.begin() as first, ThreadPoolExecutor() as pool:
        assert len(mark_full_pools(first)) == 1
        second = pool.submit(lambda: fleet.change(mark_full_pools))
        wait_for(lambda: fleet.zone.scalar("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1)
        first.commit()
        assert second.result() == []
