"""Who may change infrastructure, what plans see of a change, and races with deployments."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from tests.support.zones.infrastructure_calls import Cloud
from tests.support.zones.world import DOMAIN_ADMIN, USER

NOUNS = ("Zone", "Pod", "Cluster", "Host", "Storage", "PhysicalNetwork", "TrafficType", "NetworkServiceProvider")
MORE = ("NetworkOffering", "VlanIpRange", "Element", "SupportedNetworkServices")
OPEN = {"listZones", "listNetworkOfferings", "listKubernetesClusters"}


def commands_on_infrastructure() -> list[str]:
    """Every command that one of the nouns is in the name of, but for what everybody may list."""
    names = [name for name in find_commands() if any(noun in name for noun in (*NOUNS, *MORE))]
    return [name for name in names if name not in OPEN]


@pytest.mark.parametrize("username", [DOMAIN_ADMIN, USER])
def test_infrastructure_is_closed(cloud: Cloud, username: str) -> None:
    """Neither users nor domain admins reach a single command, whatever they send."""
    names = commands_on_infrastructure()
    assert len(names) > 50
    answers = {name: cloud.client(username).get(name).status for name in names}
    assert {name: status for name, status in answers.items() if status != 432} == {}
    assert all(not find_commands()[name].roles - ROOT_ADMIN_ONLY for name in names if name.startswith("create"))


def capacity(cloud: Cloud, **pin: str) -> int:
    """How many VMs a plan for a part of the small zone finds room for."""
    request = {
        "zoneid": cloud.id_of("zones", "small"),
        "serviceofferingid": cloud.id_of("service_offerings", "Small"),
        "templateid": cloud.id_of("templates", "Debian 12"),
        "virtualmachinecount": 5000,
        "minimumcount": 1,
        "dryrun": "true",
    }
    answer = cloud.client().get("bulkDeployVirtualMachine", **request, **pin)
    return int(answer.body["plan"]["fits"]) if answer.status == 200 else 0


@pytest.fixture
def without_shared_storage(cloud: Cloud) -> Iterator[None]:
    """Each cluster of the small zone has its own pool and no other."""
    pool = cloud.id_of("storage_pools", "zone-wide")
    cloud.make("updateStoragePool", id=pool, enabled="false")
    yield
    cloud.make("updateStoragePool", id=pool, enabled="true")


@pytest.mark.usefixtures("without_shared_storage")
@pytest.mark.parametrize(
    ("command", "table", "name", "off", "on"),
    [
        ("updatePod", "pods", "pod-b", {"allocationstate": "Disabled"}, {"allocationstate": "Enabled"}),
        ("updateCluster", "clusters", "b-2", {"allocationstate": "Disabled"}, {"allocationstate": "Enabled"}),
        ("updateCluster", "clusters", "b-2", {"managedstate": "Unmanaged"}, {"managedstate": "Managed"}),
        ("updateHost", "hosts", "b-2-1", {"allocationstate": "Disable"}, {"allocationstate": "Enable"}),
        ("updateStoragePool", "storage_pools", "b-2-primary", {"enabled": "false"}, {"enabled": "true"}),
    ],
)
def test_the_next_plan_sees_it(
    cloud: Cloud, command: str, table: str, name: str, off: dict[str, str], on: dict[str, str]
) -> None:
    """What is switched off takes nothing from the next plan on, and takes VMs again when it is switched on."""
    one, cluster = cloud.id_of(table, name), cloud.id_of("clusters", "b-2")
    before = capacity(cloud, clusterid=cluster)
    cloud.make(command, id=one, **off)
    while_off = capacity(cloud, clusterid=cluster)
    cloud.make(command, id=one, **on)
    assert before > while_off >= 0
    assert (while_off == 0) is (table != "hosts")
    assert capacity(cloud, clusterid=cluster) == before


def test_a_disabled_zone_is_for_root_admins(cloud: Cloud) -> None:
    """Others are told that the zone is disabled."""
    zone = cloud.id_of("zones", "small")
    request = {
        "zoneid": zone,
        "serviceofferingid": cloud.id_of("service_offerings", "Small"),
        "templateid": cloud.id_of("templates", "Debian 12"),
    }
    cloud.make("updateZone", id=zone, allocationstate="Disabled")
    failure = cloud.refused("deployVirtualMachine", USER, **request)
    assert (failure.status, "disabled" in failure.errortext) == (531, True)
    cloud.make("updateZone", id=zone, allocationstate="Enabled")


def test_a_host_is_deleted_or_used_never_both(cloud: Cloud) -> None:
    """A deployment pinned to a host and its deletion at the same moment: one of the two is refused."""
    outcomes = set()
    for number in range(4):
        host = cloud.host(
            {"id": cloud.id_of("clusters", "a-2"), "podid": cloud.id_of("pods", "pod-a"),
             "zoneid": cloud.id_of("zones", "small")},
            hypervisor="KVM", url=f"http://race/h{number}",
        )  # fmt: skip
        request: dict[str, Any] = {
            "zoneid": cloud.id_of("zones", "small"),
            "serviceofferingid": cloud.id_of("service_offerings", "Small"),
            "templateid": cloud.id_of("templates", "Debian 12"),
            "hostid": host["id"],
        }
        with ThreadPoolExecutor(2) as threads:
            deployed = threads.submit(cloud.client().post, "deployVirtualMachine", **request)
            deleted = threads.submit(cloud.client().post, "deleteHost", id=host["id"], forced="true")
        outcomes.add((deployed.result().status == 200, deleted.result().status == 200))
    assert outcomes <= {(True, False), (False, True)}
    cloud.assert_intact()
