"""VMs a second of one bulk call, beside ``gnt-instance batch-create`` on the same cluster in the same run.

``tests/ganeti/run.sh .venv/bin/python 8 -m tests.ganeti.rates 16``: both deploy so many VMs, in turns, three times.
Our CPU is that of every process of the service, without what they take while there is nothing to do; Ganeti's is in
neither.
"""

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from tests.ganeti.live import gnt
from tests.ganeti.service import PATIENCE_OF_MANY_S, GanetiCloud, ganeti_cloud, instances, wait_until_empty
from tests.support.runs.waiting import say, wait_for

TURNS = 3
IDLE_SECONDS = 20


def main(count: int) -> None:
    """Print a line for each turn."""
    with TemporaryDirectory(prefix="rates-") as folder, ganeti_cloud(Path(folder), "diskless") as cloud:
        idle = idle_share(cloud)
        for _ in range(TURNS):
            theirs = of_ganeti(count, Path(folder))
            began, before = time.monotonic(), cpu(cloud)
            cloud.deploy(count)
            wait_for(lambda: len(cloud.vms()) == count, "all VMs run", pause_s=1, patience_s=PATIENCE_OF_MANY_S)
            ours, spent = time.monotonic() - began, cpu(cloud) - before
            cloud.destroy_all()
            say(
                f"{count} VMs: batch-create {count / theirs:.2f} VM/s, one bulk call {count / ours:.2f} VM/s,"
                f" {1000 * (spent - idle * ours) / count:.1f} ms of our CPU a VM"
            )


def idle_share(cloud: GanetiCloud) -> float:
    """CPU seconds a second of a service that has nothing to do."""
    began, before = time.monotonic(), cpu(cloud)
    time.sleep(IDLE_SECONDS)
    return (cpu(cloud) - before) / (time.monotonic() - began)


def of_ganeti(count: int, folder: Path) -> float:
    """Seconds in which Ganeti's own command makes as many alike instances; they are removed again."""
    wanted = [
        {
            "instance_name": f"batch{number}",
            "mode": "create",
            "disk_template": "diskless",
            "disks": [],
            "nics": [{"mode": "bridged", "link": "br0"}],
            "os_type": "noop",
            "hypervisor": "fake",
            "beparams": {"memory": 128, "vcpus": 1},
            "ip_check": False,
            "name_check": False,
        }
        for number in range(count)
    ]
    (folder / "batch.json").write_text(json.dumps(wanted))
    began = time.monotonic()
    gnt("gnt-instance", "batch-create", "-I", "hail", str(folder / "batch.json"))
    took = time.monotonic() - began
    for name in instances():
        gnt("gnt-instance", "remove", "--force", "--shutdown-timeout=0", "--submit", name)
    wait_until_empty()
    return took


def cpu(cloud: GanetiCloud) -> float:
    """CPU seconds of the service's processes so far."""
    running = json.loads((cloud.service.data_dir / "running.json").read_text())
    root = psutil.Process(running["pid"])
    spent = 0.0
    for process in (root, *root.children(recursive=True)):
        times = process.cpu_times()
        spent += times.user + times.system + times.children_user + times.children_system
    return spent


if __name__ == "__main__":
    main(int(sys.argv[1]))
