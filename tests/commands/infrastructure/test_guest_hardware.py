"""What hosts say that their guests can have is kept, and told to drivers when others join their cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostModel, NewHost
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.driver_records import records_in
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.hypervisors.drivers import always
from tests.support.zones.fleet import Fleet

LOGIN = {"hypervisor": "KVM", "username": "any", "password": "any"}
INTEL = {"h", "s"}


class CpusOfHosts(SimulatorDriver):
    """Hosts with the CPU that their name begins with; a cluster has those of one maker."""

    def admit_hosts(self, hosts: Sequence[NewHost], *, timeout_s: float) -> list[HostModel | DriverError]:
        """Those that are INTEL's have nothing in common with others."""
        answers: list[HostModel | DriverError] = []
        for host, answer in zip(hosts, super().admit_hosts(hosts, timeout_s=timeout_s), strict=True):
            assert isinstance(answer, HostModel)
            cpu = answer.name[0]
            if all((other in INTEL) == (cpu in INTEL) for other in host.cluster_hardware):
                answers.append(replace(answer, guest_hardware=cpu))
            else:
                others = ", ".join(sorted(host.cluster_hardware))
                answers.append(DriverError("connect", answer.name, f"{cpu} is unlike {others}", transient=False))
        return answers


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, fleet_simulator_url: str) -> Iterator[System]:
    """One whose hosts have CPUs."""
    driver = CpusOfHosts(fleet_simulator_url)
    yield System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driver))
    driver.close()


def test_a_driver_knows_what_the_other_hosts_of_a_cluster_can_give(
    fleet: Fleet, client: ApiClient, engine: Engine
) -> None:
    """Of those that were asked; a host that has nothing in common with them is refused until they are gone."""
    named = {name: fleet.zone.id_of(table, row) for name, table, row in (
        ("zoneid", "zones", "small"), ("podid", "pods", "pod-a"), ("clusterid", "clusters", "a-1"))}  # fmt: skip
    directory = records_in(engine, "KVM".__eq__).directory

    def add(name: str) -> UUID:
        return UUID(client.call("addHost", url=f"http://10.0.1.77/{name}", **named, **LOGIN)["host"][0]["id"])

    first, second = add("haswell"), add("skylake")
    assert directory.hardware_of_cluster(first) == directory.hardware_of_cluster(second) == {"h", "s", None}
    failed = refused(client, "addHost", url="http://10.0.1.77/epyc", **named, **LOGIN)
    assert (failed.status, "e is unlike h, s" in failed.errortext) == (431, True)
    assert client.call("reconnectHost", id=second)["jobid"]
    client.call("deleteHost", id=second, forced=True)
    assert directory.hardware_of_cluster(first) == {"h", None}
    client.call("deleteHost", id=first, forced=True)
    assert directory.hardware_of_cluster(add("epyc")) == {"e", None}
