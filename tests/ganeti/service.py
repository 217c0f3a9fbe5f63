"""The whole service with the virtual cluster as its zone, and VMs deployed there with one call."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ganeti.live import PATIENCE_S, fingerprint, gnt
from tests.support.api.api_client import ApiClient
from tests.support.processes.whole_service import WholeService, whole_service
from tests.support.runs.waiting import wait_for

PATIENCE_OF_MANY_S = 4 * PATIENCE_S
"""What many instances may take."""

ZONE = Path(__file__).parent / "zone.yaml"
SETTINGS = """
drivers = { KVM = "ganeti", default = "simulator" }
driver_timeout_seconds = 600
api_processes = 1

[power.redfish]
https = false

[driver.ganeti]
urls = ["https://192.0.2.11:5080", "https://192.0.2.10:5080"]
username = "bulkdeploy"
password = "secret"
fingerprint = "%s"
hypervisor = "fake"
disk_template = "%s"
nic_mode = "bridged"
nic_link = "br0"
reserved_memory_mib = 4096
"""


@dataclass(frozen=True, slots=True)
class GanetiCloud:
    """A running service in front of the cluster; ``ids`` is what a deployment names."""

    service: WholeService
    client: ApiClient
    ids: dict[str, str]

    def deploy(self, count: int) -> list[str]:
        """The jobs of one call for so many VMs."""
        body = self.client.call("bulkDeployVirtualMachine", virtualmachinecount=count, **self.ids)
        return [job["jobid"] for job in body["asyncjobs"]]

    def vms(self, state: str = "Running") -> list[dict[str, Any]]:
        """The VMs in a state."""
        body = self.client.call("listVirtualMachines", state=state, listall="true", pagesize=500, page=1)
        return list(body.get("virtualmachine", ()))

    def result(self, job: str) -> dict[str, Any]:
        """Wait for the end of a job, which succeeds, and return its result."""
        ended: dict[str, Any] = {}

        def has_ended() -> bool:
            ended.update(self.client.call("queryAsyncJobResult", jobid=job))
            return bool(ended["jobstatus"])

        wait_for(has_ended, f"job {job} ends", pause_s=0.5, patience_s=PATIENCE_OF_MANY_S)
        assert ended["jobstatus"] == 1, ended
        return dict(ended["jobresult"])

    def kill_programs(self, *modules: str) -> None:
        """Kill those of the service's programs that run these modules; the service starts them again."""
        service = json.loads((self.service.data_dir / "running.json").read_text())["pid"]
        children = Path(f"/proc/{service}/task/{service}/children").read_text().split()
        lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0") for pid in children}
        for module in modules:
            pids = [pid for pid, words in lines.items() if module in words]
            assert pids, f"no {module} among {lines}"
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    def destroy_all(self) -> None:
        """Remove every VM, and wait for it."""
        for vm in (vm for state in ("Running", "Stopped", "Error") for vm in self.vms(state)):
            self.client.call("destroyVirtualMachine", id=vm["id"], expunge="true")
        wait_until_empty()


@contextmanager
def ganeti_cloud(folder: Path, disk_template: str = "sharedfile") -> Iterator[GanetiCloud]:
    """Start the service, load the zone, and stop the service afterwards."""
    config, zone = folder / "settings.toml", folder / "zone.yaml"
    config.write_text(SETTINGS % (fingerprint(), disk_template))
    zone.write_text(ZONE.read_text().replace("node{1..8}", f"node{{1..{len(nodes())}}}"))
    with whole_service(folder / "data", config) as service:
        service.run("inventory", "load", str(zone))
        keys = json.loads(service.run("admin", "credentials", "--json"))
        client = ApiClient(service.url, keys["apikey"], keys["secretkey"])
        yield GanetiCloud(service, client, _ids(client))


def _ids(client: ApiClient) -> dict[str, str]:
    def only(command: str, noun: str, **more: str) -> str:
        (found,) = [one for one in client.call(command, **more)[noun] if one["name"] in ("ganeti", "Tiny", "noop")]
        return str(found["id"])

    return {
        "zoneid": only("listZones", "zone"),
        "serviceofferingid": only("listServiceOfferings", "serviceoffering"),
        "templateid": only("listTemplates", "template", templatefilter="all"),
    }


def bulkmonkey(cloud: GanetiCloud, folder: Path, *words: str) -> "subprocess.Popen[str]":
    """Start bulkmonkey with the admin's keys and a new home directory."""
    config = folder / ".config" / "bulkmonkey" / "config"
    config.parent.mkdir(parents=True)
    keys = cloud.client
    config.write_text(
        f"profile = lab\n\n[lab]\nurl = {keys.url}/client/api\n"
        f"apikey = {keys.api_key}\nsecretkey = {keys.secret_key}\n"
    )
    config.chmod(0o600)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "bulkdeploy.cli.main", *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, text=True)


def nodes() -> list[str]:
    """The cluster's nodes."""
    return gnt("gnt-node", "list", "--no-headers", "-o", "name").split()


def instances() -> dict[str, tuple[str, str]]:
    """Primary node and state of each instance, by name."""
    rows = gnt("gnt-instance", "list", "--no-headers", "--separator=:", "-o", "name,pnode,status").split()
    return {name: (node, state) for name, node, state in (row.split(":") for row in rows)}


def wait_until_empty() -> None:
    """Wait until the cluster has no instances."""
    wait_for(lambda: not instances(), "an empty cluster", pause_s=1, patience_s=PATIENCE_OF_MANY_S)
