"""The whole service on hosts with real guests, as ``bulkdeploy up`` runs it, for programs that show or break it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.libvirt.probe_guest import boot_image
from bulkdeploy.manage import database
from bulkdeploy.manage.admin import read_credentials
from bulkdeploy.manage.stack import Stack
from bulkdeploy.wiring.settings import Settings
from tests.support.api_client import ApiClient
from tests.support.libvirt_hosts import LibvirtHosts, libvirt_hosts

LEASE_SECONDS = 5
SHUTDOWN_SECONDS = 10


@dataclass
class RealCloud:
    """A running service whose hosts are libvirt daemons; ``ids`` is what a deployment names."""

    stack: Stack
    client: ApiClient
    hosts: LibvirtHosts
    ids: dict[str, str]
    folder: Path

    def vms(self) -> list[dict[str, Any]]:
        """Every VM."""
        return list(self.client.call("listVirtualMachines").get("virtualmachine", ()))

    def says(self, vm: str) -> str:
        """The last line that a guest has written to its serial console."""
        lines = [line.strip() for line in self.hosts.console(UUID(vm)).splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def wait_until(self, holds: Callable[[], Any], patience_s: float) -> bool:
        """Keep everything running until ``holds``, or for so long; whether it did. For the main thread."""
        ends = time.monotonic() + patience_s

        def is_over() -> bool:
            return bool(holds()) or time.monotonic() > ends

        self.stack.supervisor.run(until=is_over)
        return bool(holds())


@contextmanager
def real_cloud(*, workers: int, hosts: int = 3) -> Iterator[RealCloud]:
    """The service with an empty zone of so many hosts; nothing is left of it afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="real-cloud-")))
        made = stack.enter_context(libvirt_hosts(hosts))
        image, log = folder / "boot.raw", stack.enter_context((folder / "programs.log").open("a"))
        image.write_bytes(boot_image())
        settings = Settings(
            data_dir=folder / "data",
            listen="127.0.0.1:0",
            worker_processes=workers,
            worker_threads=8,
            api_processes=1,
            sweep_interval_seconds=0.5,
            lease_seconds=LEASE_SECONDS,
            drivers={"KVM": "libvirt"},
            driver={"libvirt": {**made.driver_options, "shutdown_seconds": SHUTDOWN_SECONDS}},
        )
        running = Stack(settings, lambda name, line: print(name, line, file=log, flush=True))
        stack.callback(running.stop)
        running.start(database.prepare)
        running.wait_until_ready()
        found = read_credentials(running.settings)
        client = ApiClient(running.url, found["apikey"], found["secretkey"])
        yield RealCloud(running, client, made, build_zone(client, made, image), folder)


def build_zone(client: ApiClient, hosts: LibvirtHosts, image: Path) -> dict[str, str]:
    """A zone of these hosts, by calls; what a deployment names."""

    def made(command: str, **parameters: object) -> str:
        body = client.call(command, **parameters)
        ((_, found),) = [(key, value) for key, value in body.items() if key not in ("count", "jobid")]
        return str((found[0] if isinstance(found, list) else found)["id"])

    zone = made("createZone", name="real", networktype="Advanced", dns1="192.0.2.53", internaldns1="192.0.2.53")
    pod = made(
        "createPod", zoneid=zone, name="pod", gateway="10.9.0.1", netmask="255.255.255.0", startip="10.9.0.2"
    )
    cluster = made(
        "addCluster", zoneid=zone, podid=pod, clustername="kvm", hypervisor="KVM", clustertype="CloudManaged"
    )
    place = {"zoneid": zone, "podid": pod, "clusterid": cluster}
    for host in hosts.hosts:
        made("addHost", url=host.url, hypervisor="KVM", username="nobody", password="", **place)
    client.call("updateCluster", id=cluster, allocationstate="Enabled")
    made("createStoragePool", name="shared", url=hosts.pool_url, capacitybytes=10**12, scope="CLUSTER", **place)
    offering = made("createServiceOffering", name="tiny", displaytext="Tiny", cpunumber=1, cpuspeed=100, memory=32)
    network = made(
        "createNetwork", name="guests", displaytext="Guests", zoneid=zone, gateway="10.8.0.1", acltype="Domain",
        netmask="255.255.255.0", startip="10.8.0.10", endip="10.8.0.99", vlan="untagged",
        networkofferingid=client.call("listNetworkOfferings", guestiptype="Shared")["networkoffering"][0]["id"],
    )  # fmt: skip
    os_type = client.call("listOsTypes")["ostype"][0]["id"]
    template = made(
        "registerTemplate", name="boot", displaytext="Boot sector", url=image.as_uri(), format="RAW",
        hypervisor="KVM", ostypeid=os_type, zoneid=zone, ispublic="true",
    )  # fmt: skip
    client.call("updateZone", id=zone, allocationstate="Enabled")
    return {"zoneid": zone, "serviceofferingid": offering, "networkids": network, "templateid": template}
