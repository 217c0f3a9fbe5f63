"""The whole service on hosts with real guests, as ``bulkdeploy up`` runs it, for programs that show or break it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from bulkdeploy.manage import database
from bulkdeploy.manage.admin import read_credentials
from bulkdeploy.manage.programs.stack import Stack
from bulkdeploy.security.guarded_fetch import FetchRules
from bulkdeploy.wiring.settings import Settings
from tests.support.api.api_client import ApiClient, ApiFailure

LEASE_SECONDS = 5
OVERLOADED_S = 120.0


class PatientClient(ApiClient):
    """One that calls again while the API is overloaded: guests and hosts share the machine with it."""

    def call(self, command: str, **parameters: object) -> dict[str, Any]:
        """See ApiClient."""
        ends = time.monotonic() + OVERLOADED_S
        while True:
            try:
                return ApiClient.call(self, command, **parameters)
            except ApiFailure as failure:
                if failure.status != 503 or time.monotonic() > ends:
                    raise
            time.sleep(0.5)


class RealHost(Protocol):
    """A machine with a hypervisor."""

    name: str

    @property
    def url(self) -> str:
        """Where its driver finds it."""


class RealHosts(Protocol):
    """Machines of one hypervisor, with a pool that all of them reach."""

    hypervisor: str
    driver: str
    image_format: str

    @property
    def hosts(self) -> Sequence[RealHost]:
        """Each."""

    @property
    def driver_options(self) -> dict[str, Any]:
        """The options of their driver."""

    @property
    def pool_url(self) -> str:
        """Their pool, as createStoragePool is given it."""

    def write_image(self, path: Path) -> None:
        """Write the image of a small guest."""

    def running(self) -> dict[UUID, str]:
        """The guests that run, and on which host; none runs twice."""


Hosts = TypeVar("Hosts", bound=RealHosts)


@dataclass
class RealCloud(Generic[Hosts]):
    """A running service on real hosts; ``ids`` is what a deployment names."""

    stack: Stack
    client: ApiClient
    hosts: Hosts
    ids: dict[str, str]
    folder: Path

    def vms(self) -> list[dict[str, Any]]:
        """Every VM."""
        return list(self.client.call("listVirtualMachines").get("virtualmachine", ()))

    def wait_until(self, holds: Callable[[], Any], patience_s: float) -> bool:
        """Keep everything running until ``holds``, or for so long; whether it did. For the main thread."""
        ends = time.monotonic() + patience_s

        def is_over() -> bool:
            return bool(holds()) or time.monotonic() > ends

        self.stack.supervisor.run(until=is_over)
        return bool(holds())


@contextmanager
def real_cloud(made: Hosts, *, workers: int) -> Iterator[RealCloud[Hosts]]:
    """The service with an empty zone of these hosts; nothing is left of it afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="real-cloud-")))
        image, log = folder / "image", stack.enter_context((folder / "programs.log").open("a"))
        made.write_image(image)
        settings = Settings(
            data_dir=folder / "data",
            listen="127.0.0.1:0",
            worker_processes=workers,
            worker_threads=8,
            api_processes=1,
            sweep_interval_seconds=0.5,
            lease_seconds=LEASE_SECONDS,
            drivers={made.hypervisor: made.driver},
            driver={made.driver: made.driver_options},
            power={"redfish": {"https": False, "tries": 1}},
            fetch=FetchRules(directories=(folder,)),
        )
        running = Stack(settings, lambda name, line: print(name, line, file=log, flush=True))
        stack.callback(running.stop)
        running.start(database.prepare)
        running.wait_until_ready()
        found = read_credentials(running.settings)
        client = PatientClient(running.url, found["apikey"], found["secretkey"])
        yield RealCloud(running, client, made, build_zone(client, made, image), folder)


def build_zone(client: ApiClient, hosts: RealHosts, image: Path) -> dict[str, str]:
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
        "addCluster",
        zoneid=zone,
        podid=pod,
        clustername="real",
        hypervisor=hosts.hypervisor,
        clustertype="CloudManaged",
    )
    place = {"zoneid": zone, "podid": pod, "clusterid": cluster}
    for host in hosts.hosts:
        made("addHost", url=host.url, hypervisor=hosts.hypervisor, username="nobody", password="", **place)
    client.call("updateCluster", id=cluster, allocationstate="Enabled")
    made("createStoragePool", name="shared", url=hosts.pool_url, capacitybytes=10**12, scope="CLUSTER", **place)
    offering = made("createServiceOffering", name="tiny", displaytext="Tiny", cpunumber=1, cpuspeed=20, memory=32)
    network = made(
        "createNetwork", name="guests", displaytext="Guests", zoneid=zone, gateway="10.8.0.1", acltype="Domain",
        netmask="255.255.0.0", startip="10.8.1.0", endip="10.8.2.255", vlan="untagged",
        networkofferingid=client.call("listNetworkOfferings", guestiptype="Shared")["networkoffering"][0]["id"],
    )  # fmt: skip
    os_type = client.call("listOsTypes")["ostype"][0]["id"]
    template = made(
        "registerTemplate", name="small", displaytext="Small guest", url=image.as_uri(), format=hosts.image_format,
        hypervisor=hosts.hypervisor, ostypeid=os_type, zoneid=zone, ispublic="true",
    )  # fmt: skip
    client.call("updateZone", id=zone, allocationstate="Enabled")
    return {"zoneid": zone, "serviceofferingid": offering, "networkids": network, "templateid": template}
