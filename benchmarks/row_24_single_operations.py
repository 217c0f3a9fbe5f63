"""Row 24: a hundred callers of commands that each create one job for an existing VM.

Each call names another VM. No worker runs the jobs, so the jobs of starts and destructions wait for earlier jobs of
the same VM. The baseline is the rate of stopVirtualMachine.
"""

import time
from collections.abc import Iterator, Sequence
from operator import length_hint

from redis import Redis
from sqlalchemy import text

from benchmarks.calling import Client, Load, admin_client, crowd
from benchmarks.cpu import CpuMeter
from benchmarks.deploying import id_of, server_pids
from benchmarks.ground import LARGE, BenchmarkZone, Ground, say
from benchmarks.report import Line, line
from bulkdeploy.queue.job_queue import ALL_QUEUES

ROW = 24
CALLERS, CALLS = 100, 2_000
AT_LEAST = 500
OWNER, DISK_OFFERING = "tenant-1", "bench-disk"


def run(ground: Ground) -> Iterator[Line]:
    """Stop, start and destroy VMs of one owner, and attach volumes to others."""
    with ground.zone(LARGE) as bench:
        api = bench.api()
        client = admin_client(bench, api.settings.url)
        meter = CpuMeter({"api": [api.process.pid], **server_pids(bench)})
        vms = _vms(bench)
        volumes = _volumes(bench, client, api.settings.url)
        attached = [
            {"id": volume, "virtualmachineid": vm} for volume, vm in zip(volumes, vms[CALLS:], strict=False)
        ]
        ids = [{"id": vm} for vm in vms[:CALLS]]
        baseline = None
        for command, calls in (
            ("stopVirtualMachine", ids),
            ("startVirtualMachine", ids[:-CALLERS]),
            ("destroyVirtualMachine", ids[:-CALLERS]),
            ("attachVolume", attached),
        ):
            meter.start()
            load = _load(client, api.settings.url, command, calls)
            cpu_ms = 1000 * sum(meter.stop().values()) / len(load.waits)
            baseline = baseline or load.rate
            slow = sorted(load.waits)[int(0.95 * (len(load.waits) - 1))]
            say(f"{command}: {load.rate:.0f}/s at {cpu_ms:.1f} ms CPU, 95 of 100 within {slow:.0f} ms")
            yield line(
                ROW,
                f"{CALLERS} callers of {command}",
                len(load.waits),
                [load.rate],
                unit="calls/s",
                baseline=baseline,
                cpu_ms_per_vm=cpu_ms,
                at_least=AT_LEAST,
            )
            time.sleep(0.5)
        with Redis.from_url(bench.settings.require_redis_url()) as redis:
            redis.delete(*ALL_QUEUES)


def _load(client: Client, url: str, command: str, calls: Sequence[dict[str, str]]) -> Load:
    """Make these calls in order, except the last ones, of which there is one for each caller."""
    targets = iter([f"/client/api?{client.query(command, **call)}" for call in calls])
    return crowd(url, targets, CALLERS, lambda _: length_hint(targets) > CALLERS)


def _vms(bench: BenchmarkZone) -> list[str]:
    """Return the uuids of running VMs of the owner."""
    query = text(
        "SELECT v.uuid::text FROM virtual_machines v JOIN accounts a ON a.id = v.account_id"
        " WHERE a.name = :owner AND v.state = 'Running' ORDER BY v.id LIMIT :vms"
    )
    with bench.engine.connect() as connection:
        return list(connection.execute(query, {"owner": OWNER, "vms": 2 * CALLS}).scalars())


def _volumes(bench: BenchmarkZone, client: Client, url: str) -> list[str]:
    """Create volumes of the owner by calls, and return the uuids of the volumes."""
    client.call("createDiskOffering", name=DISK_OFFERING, displaytext=DISK_OFFERING, disksize=1)
    with bench.engine.connect() as connection:
        created = {
            "zoneid": id_of(connection, "zones", "bench-1").uuid,
            "diskofferingid": id_of(connection, "disk_offerings", DISK_OFFERING).uuid,
            "domainid": id_of(connection, "domains", "generated").uuid,
            "account": OWNER,
        }
    _load(client, url, "createVolume", [{**created, "name": f"bench-{number}"} for number in range(CALLS)])
    with bench.engine.connect() as connection:
        return list(connection.execute(text("SELECT uuid::text FROM volumes WHERE vm_id IS NULL")).scalars())
