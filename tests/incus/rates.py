"""What a bulk call for containers costs: VMs a second, CPU of ours and of Incus's daemons for each VM.

``tests/incus/run.sh .venv/bin/python -m tests.incus.rates 100``: so many containers on two members, then none.
Ours are all processes of the service, PostgreSQL and Valkey included; Incus's are its daemons and what they start.
"""

import sys
import time
from collections.abc import Iterable

import psutil

from tests.incus.cluster import IncusHosts, why_not
from tests.support.hypervisors.real_cloud import RealCloud, real_cloud
from tests.support.runs.waiting import say

PATIENCE_S = 600.0


def main(count: int) -> None:
    """Print a line for the deployment, and one for the removal."""
    if (reason := why_not()) is not None:
        sys.exit(reason)
    with real_cloud(IncusHosts(), workers=2) as cloud:
        with Spent(f"{count} containers deployed by one call", count):
            cloud.client.call("bulkDeployVirtualMachine", virtualmachinecount=count, **cloud.ids)
            states = wait_for_all(cloud)
        say(f"{states.count('Running')} of them run")
        say(f"one that `incus stop` ends is Stopped after {until_stopped(cloud):.1f} s")
        with Spent(f"{count} containers destroyed by a call each", count):
            for vm in cloud.client.call("listVirtualMachines", pagesize=500, page=1)["virtualmachine"]:
                cloud.client.call("destroyVirtualMachine", id=vm["id"], expunge=True)
            wait_for_all(cloud)


def wait_for_all(cloud: RealCloud[IncusHosts]) -> list[str]:
    """Wait until no job is under way; the states of the VMs there are."""

    def has_ended() -> bool:
        jobs = cloud.client.call("listAsyncJobs", listall=True, pagesize=500, page=1).get("asyncjobs", ())
        return all(job["jobstatus"] for job in jobs)

    if not cloud.wait_until(has_ended, PATIENCE_S):
        sys.exit("the jobs do not end")
    vms = cloud.client.call("listVirtualMachines", pagesize=500, page=1).get("virtualmachine", ())
    return [vm["state"] for vm in vms]


def until_stopped(cloud: RealCloud[IncusHosts]) -> float:
    """Seconds until a VM is Stopped whose container was stopped by hand."""
    ended = cloud.vms()[0]["id"]
    cloud.hosts.hosts[0].incus("stop", "--force", f"vm-{ended}")
    began = time.monotonic()

    def is_stopped() -> bool:
        return bool(cloud.client.call("listVirtualMachines", id=ended)["virtualmachine"][0]["state"] == "Stopped")

    if not cloud.wait_until(is_stopped, PATIENCE_S):
        sys.exit("its VM does not become Stopped")
    return time.monotonic() - began


class Spent:
    """Says what was spent while it is entered."""

    def __init__(self, what: str, count: int) -> None:
        self._what, self._count = what, count

    def __enter__(self) -> None:
        self._began, self._ours, self._theirs = time.monotonic(), *cpu()

    def __exit__(self, *_: object) -> None:
        took = time.monotonic() - self._began
        ours, theirs = cpu()
        say(
            f"{self._what} in {took:.1f} s, {self._count / took:.2f} VM/s; CPU for each:"
            f" {1000 * (ours - self._ours) / self._count:.0f} ms of ours,"
            f" {1000 * (theirs - self._theirs) / self._count:.0f} ms of Incus's"
        )


def cpu() -> tuple[float, float]:
    """CPU seconds so far of the service's processes, which are this one's children, and of Incus's daemons."""
    ours = psutil.Process().children(recursive=True)
    daemons = [one for one in psutil.process_iter() if one.name() == "incusd"]
    theirs = [process for daemon in daemons for process in (daemon, *daemon.children(recursive=True))]
    return _spent(ours), _spent(theirs)


def _spent(processes: Iterable[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    spent: float = sum(one.user + one.system + one.children_user + one.children_system for one in times)
    return spent


if __name__ == "__main__":
    main(int(sys.argv[1]))
