"""``make demo DRIVER=libvirt``: three hosts, one call, twelve guests that boot, and what their consoles say."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import psutil
from rich.console import Console
from rich.live import Live
from rich.table import Table

from tests.support.hypervisors.libvirt_hosts import LibvirtHosts, libvirt_hosts, why_not
from tests.support.hypervisors.real_cloud import RealCloud, real_cloud

PATIENCE_S = 180.0


def main() -> None:
    """Show it; exit code 0 only if every guest said that it is up."""
    console = Console(highlight=False)
    if (reason := why_not()) is not None:
        sys.exit(reason)
    count = int(os.environ.get("COUNT") or 12)
    console.print(
        "Starting three libvirt daemons as hosts, PostgreSQL, Valkey, the API, workers and the sweeper ..."
    )
    with libvirt_hosts(3) as hosts, real_cloud(hosts, workers=1) as cloud:
        used, began = _worker_cpu_s(cloud), time.monotonic()
        jobs = cloud.client.call("bulkDeployVirtualMachine", virtualmachinecount=count, **cloud.ids)["asyncjobs"]
        console.print(
            f"bulkDeployVirtualMachine virtualmachinecount={count}: {len(jobs)} jobs"
            f" in {time.monotonic() - began:.2f} s"
        )
        up: dict[str, float] = {}
        with Live(console=console, auto_refresh=False) as live:

            def all_are_up() -> bool:
                vms = sorted(cloud.vms(), key=lambda vm: str(vm["name"]))
                for vm in vms:
                    if cloud.hosts.says(UUID(vm["id"])):
                        up.setdefault(vm["id"], time.monotonic() - began)
                live.update(_table(cloud, vms, up), refresh=console.is_terminal)
                return len(up) == count

            done = cloud.wait_until(all_are_up, PATIENCE_S)
            live.refresh()
        each_ms = (_worker_cpu_s(cloud) - used) * 1000 / count
        console.print(f"\n{len(up)} of {count} guests are up after {time.monotonic() - began:.1f} s")
        console.print(f"CPU of the worker, which made them: {each_ms:.1f} ms each")
    if not done:
        sys.exit(1)


def _worker_cpu_s(cloud: RealCloud[LibvirtHosts]) -> float:
    """What the worker has used of the CPU so far, in seconds; libvirtd and QEMU have processes of their own."""
    pids = cloud.stack.supervisor.pids()
    times = [psutil.Process(pid).cpu_times() for name, pid in pids.items() if name.startswith("worker")]
    return float(sum(one.user + one.system for one in times))


def _table(cloud: RealCloud[LibvirtHosts], vms: Sequence[Mapping[str, Any]], up: Mapping[str, float]) -> Table:
    table = Table()
    for name, least in (("VM", 9), ("state", 8), ("host", 4), ("up after", 8), ("last line of its console", 1)):
        table.add_column(name, min_width=least, max_width=36, no_wrap=True)
    for vm in vms:
        after = f"{up[vm['id']]:.1f} s" if vm["id"] in up else ""
        table.add_row(
            vm["instancename"], vm["state"], vm.get("hostname", ""), after, cloud.hosts.says(UUID(vm["id"]))
        )
    return table


if __name__ == "__main__":
    main()
