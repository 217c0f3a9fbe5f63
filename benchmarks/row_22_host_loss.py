"""Row 22: from a host's power failure until its highly available VMs run elsewhere, by the number of these VMs."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import text

from benchmarks.generation import Size
from benchmarks.ground import BenchmarkZone, Ground, say
from benchmarks.report import Line, line
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import build_cipher
from bulkdeploy.wiring.drivers import simulator_url
from tests.support.api.api_client import ApiClient

COUNTS = [int(count) for count in os.environ.get("VMS", "20 200 1000").split()]
ZONE = Size(zones=1, pods=1, clusters=3, hosts=18, vms=0)
WORKERS = 2
SETTINGS = {
    "host.down.wait": 10,
    "kvm.ha.activity.check.interval": 5,
    "kvm.ha.activity.check.max.attempts": 6,
    "kvm.ha.recover.failure.threshold": 0,
    "kvm.ha.fence.timeout": 60,
}
"""Settings that decide how long a host is checked before it is fenced."""
POWER_OFF = "SELECT simulator_code.ensure_fenced(%s)"
PATIENCE_S = 1200.0


@dataclass(frozen=True)
class HostLoss:
    """How long it took until a dead host was fenced, and until all of its VMs ran elsewhere, seconds."""

    vms: int
    fenced_s: float
    running_s: float


def run(ground: Ground) -> Iterator[Line]:
    """Let a host die under so many VMs, and measure from its death."""
    for count in COUNTS:
        with ground.zone(ZONE) as bench:
            lost = _lose_a_host(bench, count)
        yield line(22, f"{count} VMs of a dead host, until it is fenced", count, [lost.fenced_s], unit="s")
        yield line(22, f"{count} VMs of a dead host, until all run elsewhere", count, [lost.running_s], unit="s")


def _lose_a_host(bench: BenchmarkZone, count: int) -> HostLoss:
    client = _client(bench)
    for _ in range(WORKERS):
        bench.start(WORKER)
    bench.start(SWEEPER)
    for name, value in SETTINGS.items():
        client.call("updateConfiguration", name=name, value=value)
    hosts = client.call("listHosts", type="Routing", pagesize=500, page=1)["host"]
    host = max(hosts, key=lambda row: row["memorytotal"])
    _enable_host_ha(client, host["clusterid"])
    for row in hosts:
        _let_hold(bench, row["id"], count)
    say(f"deploying {count} VMs to {host['name']}")
    offering = client.call(
        "createServiceOffering", name="ha", displaytext="ha", cpunumber=1, cpuspeed=50, memory=128, offerha=True
    )["serviceoffering"]
    call = {
        "zoneid": host["zoneid"],
        "serviceofferingid": offering["id"],
        "templateid": client.call("listTemplates", templatefilter="all")["template"][0]["id"],
        "networkids": client.call("listNetworks", listall=True)["network"][0]["id"],
    }
    # A bulk call cannot be pinned to a host: the others take no VMs meanwhile.
    for other in hosts:
        if other is not host:
            client.call("updateHost", id=other["id"], allocationstate="Disable")
    client.call("bulkDeployVirtualMachine", **call, virtualmachinecount=count)
    for other in hosts:
        if other is not host:
            client.call("updateHost", id=other["id"], allocationstate="Enable")
    _wait(lambda: _count_running(bench, host["id"], here=True) == count, "the VMs do not start")
    began = time.monotonic()
    with psycopg.connect(simulator_url(bench.settings), autocommit=True) as simulator:
        simulator.execute(POWER_OFF, [host["id"]])
    _wait(lambda: _ha_state(client, host["id"]) == "Fenced", "the host is not fenced")
    fenced_s = time.monotonic() - began
    _wait(lambda: _count_running(bench, host["id"], here=False) == count, "the VMs do not run elsewhere")
    return HostLoss(count, fenced_s, time.monotonic() - began)


def _let_hold(bench: BenchmarkZone, host: str, count: int) -> None:
    """Let a host hold so many VMs, which may be more than CloudStack's limit for its hypervisor.

    The other hosts need it, too: five of them take over what the dead one held.
    """
    limit = (
        "UPDATE host_capacity SET vms_limit = greatest(vms_limit, :count)"
        " WHERE host_id = (SELECT id FROM hosts WHERE uuid = CAST(:host AS uuid))"
    )
    with bench.engine.begin() as connection:
        connection.execute(text(limit), {"host": host, "count": count})
    with psycopg.connect(simulator_url(bench.settings), autocommit=True) as simulator:
        of_simulator = "UPDATE simulator.hosts SET guests_limit = greatest(guests_limit, %s) WHERE uuid = %s"
        simulator.execute(of_simulator, [count, host])


def _client(bench: BenchmarkZone) -> ApiClient:
    api = bench.api()
    with bench.engine.connect() as connection:
        admin = admin_row(connection)
    if admin is None:
        raise RuntimeError("the database has no admin")
    secret = build_cipher(bench.settings).decrypt(admin.secret_key_encrypted)
    return ApiClient(api.settings.url, admin.api_key, secret)


def _enable_host_ha(client: ApiClient, cluster: str) -> None:
    """Give each host of a cluster a controller and host HA."""
    login = {
        "driver": "simulator",
        "address": "10.9.0.5",
        "port": 623,
        "username": "fence",
        "password": "benchmark",
    }
    for row in client.call("listHosts", clusterid=cluster, type="Routing")["host"]:
        client.call("configureOutOfBandManagement", hostid=row["id"], **login)
        client.call("enableOutOfBandManagementForHost", hostid=row["id"])
        client.call("configureHAForHost", hostid=row["id"], provider="kvmhaprovider")
        client.call("enableHAForHost", hostid=row["id"])


def _ha_state(client: ApiClient, host: str) -> str:
    return str(client.call("listHosts", id=host)["host"][0]["hostha"]["hastate"])


def _count_running(bench: BenchmarkZone, host: str, *, here: bool) -> int:
    """Count the running VMs on a host, or on all others."""
    query = (
        "SELECT count(*) FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
        " WHERE v.state = 'Running' AND (h.uuid = CAST(:host AS uuid)) = :here"
    )
    with bench.engine.connect() as connection:
        return int(connection.execute(text(query), {"host": host, "here": here}).scalar_one())


def _wait(holds: Callable[[], Any], failure: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(failure)
        time.sleep(0.2)
