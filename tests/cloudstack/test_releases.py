"""Import, deployment, follow, audit and check before CloudStack 4.18, 4.20 and 4.22.

The CloudStack is the double of tests/support/cloudstack, whose behaviour follows the Java source of each release.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from bulkdeploy.cloudstack.client import Access
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.manage.upstream.checking import CHANGING, check_cloudstack
from bulkdeploy.manage.upstream.following import Cadence, Follower
from bulkdeploy.manage.upstream.importing import import_cloudstack
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.services.system import System
from bulkdeploy.wiring.drivers import build_configured_drivers
from bulkdeploy.wiring.settings import Settings
from tests.cloudstack.described_client import DescribedClient
from tests.cloudstack.test_mixed_zone import fleet_of
from tests.support.api.api_client import ApiClient
from tests.support.cloudstack.double import API_KEY, RELEASES, SECRET_KEY, CloudStackDouble, serving
from tests.support.cloudstack.zone import CORES, DATA_20, MEMORY_BYTES, SHARED, SMALL, TEMPLATE, ZONE, id_of
from tests.support.zones.fleet import Fleet

pytestmark = pytest.mark.long

HOSTS = {id_of(name): name for name in ("kvm-1", "kvm-2", "kvm-3")}
MIB = 1 << 20
SELDOM = Cadence(events=0.1, places=10_000, moves=10_000, everything=10_000)


@pytest.fixture
def release() -> str:
    """The release of the double; tests of each release override it."""
    return RELEASES[-1]


@pytest.fixture
def double(release: str) -> CloudStackDouble:
    """A CloudStack with three hosts."""
    return CloudStackDouble(HOSTS, release=release)


@pytest.fixture
def upstream_url(double: CloudStackDouble) -> Iterator[str]:
    """The url of the double's API."""
    with serving(double) as url:
        yield url


@pytest.fixture
def upstream(upstream_url: str) -> Iterator[DescribedClient]:
    """A client that rejects calls which the annotations of the release do not have."""
    client = DescribedClient(Access(upstream_url, API_KEY, SECRET_KEY, calls_per_second=1000))
    yield client
    client.close()


@pytest.fixture
def drivers(settings: Settings, engine: Engine, upstream_url: str) -> Iterator[Drivers]:
    """The drivers of a service whose KVM hosts are those of the double."""
    options = {"url": upstream_url, "apikey": API_KEY, "secretkey": SECRET_KEY}
    driver = {"cloudstack": options | {"calls_per_second": 1000, "poll_seconds": 0.1}}
    drivers = build_configured_drivers(
        settings.model_copy(update={"drivers": {"KVM": "cloudstack"}, "driver": driver}), engine
    )
    yield drivers
    drivers.close()


@pytest.fixture
def system(system: System, drivers: Drivers) -> System:
    """The service in front of the double."""
    return replace(system, drivers=drivers)


@pytest.fixture
def front(system: System, settings: Settings) -> Fleet:
    """What runs the jobs of the service."""
    return fleet_of(system, settings)


def breaches(system: System) -> list[str]:
    """Return what the audit finds, in the database and in the double."""
    return [breach for one in audit(system.engine, list(system.drivers)) for breach in one.breaches]


def hosts_of(client: ApiClient) -> dict[str, str]:
    """Return the hosts of the VMs that run, by the ids of the VMs."""
    rows = client.call("listVirtualMachines", listall="true", state="Running").get("virtualmachine", [])
    return {row["id"]: row["hostid"] for row in rows}


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_is_imported_driven_and_followed(
    double: CloudStackDouble, upstream: DescribedClient, system: System, front: Fleet, client: ApiClient
) -> None:
    """Sizes are physical, local pools have hosts, limits are exact, VMs run where planned, the audit is clean.

    CloudStack writes no event for VMs that its own HA restarts on another host. They are noticed all the same.
    """
    report = import_cloudstack(system, upstream, ())
    assert report.left_out == []
    hosts = client.call("listHosts", type="Routing")["host"]
    assert {row["id"]: (row["name"], row["cpunumber"]) for row in hosts} == {
        one: (name, CORES) for one, name in HOSTS.items()
    }
    assert {row["memorytotal"] // MIB for row in hosts} == {MEMORY_BYTES // MIB}
    pools = {row["name"]: row["scope"] for row in client.call("listStoragePools")["storagepool"]}
    assert pools == {"nfs-1": "CLUSTER", **{f"{name}-local": "HOST" for name in HOSTS.values()}}
    accounts = client.call("listAccounts", listall="true")["account"]
    acme = next(row for row in accounts if row["name"] == "acme")
    assert (acme["vmlimit"], acme["cpulimit"]) == ("200", "Unlimited")
    assert breaches(system) == []

    follower = Follower(system, upstream, cadence=SELDOM)
    follower.round()
    call = {"zoneid": ZONE, "serviceofferingid": SMALL, "templateid": TEMPLATE, "networkids": SHARED}
    client.call("bulkDeployVirtualMachine", virtualmachinecount=6, nameprefix="web", diskofferingid=DATA_20, **call)
    front.run(drivers=system.drivers)
    placed = hosts_of(client)
    assert len(placed) == 6
    assert placed == double.running()
    assert breaches(system) == []

    follower.round()
    moved = double.restart_elsewhere(next(iter(placed.values())))
    assert moved
    follower._moves_due = 0.0
    follower.round()
    assert hosts_of(client) == double.running()
    assert double.unexpected == []


def test_a_host_that_is_gone_takes_its_local_pool_along(
    double: CloudStackDouble, upstream: DescribedClient, system: System, client: ApiClient
) -> None:
    """Both are removed; a local pool that is gone while its host stays is removed, too."""
    import_cloudstack(system, upstream, ())
    gone = double.hosts.popitem()
    rows = double.zone.rows
    double.zone.rows = lambda command, release: [  # type: ignore[method-assign]
        row for row in rows(command, release) if row.get("name") != "kvm-1-local"
    ]
    report = import_cloudstack(system, upstream, ())
    assert (gone[1], report.left_out, report.removed) == ("kvm-3", [], {"hosts": 1, "storagepools": 2})
    pools = {row["name"] for row in client.call("listStoragePools")["storagepool"]}
    assert pools == {"nfs-1", "kvm-2-local"}
    assert breaches(system) == []


@pytest.mark.parametrize("release", RELEASES)
def test_a_check_of_each_release_misses_nothing_and_leaves_nothing(
    double: CloudStackDouble, upstream: DescribedClient
) -> None:
    """Each changing call is tried with ids that do not exist."""
    needs = list(check_cloudstack(upstream))
    assert [need for need in needs if need.remedy] == []
    assert set(CHANGING) <= {need.name for need in needs}
    assert (double.vms, double.volumes, double.jobs, double.events) == ({}, {}, {}, [])
    assert double.unexpected == []


def _deny(double: CloudStackDouble) -> None:
    double.denied |= {"expungeVirtualMachine", "listVolumes"}


def _user(double: CloudStackDouble) -> None:
    double.account_type = 0


def _elsewhere(double: CloudStackDouble) -> None:
    double.settings["allow.deploy.vm.if.deploy.on.given.host.fails"] = "true"


def _clock(double: CloudStackDouble) -> None:
    double.habits.clock_ahead_s = 3600


def _proxy(double: CloudStackDouble) -> None:
    double.habits.proxy_errors = 1000


def _old(double: CloudStackDouble) -> None:
    double.release = "4.17"


@pytest.mark.parametrize(
    ("break_assumption", "names", "text"),
    [
        (_deny, ["listVolumes", "expungeVirtualMachine"], "401 The given command"),
        (_user, ["the account of the key"], "account type 0"),
        (_elsewhere, ["allow.deploy.vm.if.deploy.on.given.host.fails"], "is true"),
        (_clock, ["the keys"], "s ahead of this machine"),
        (_proxy, ["an answer"], "HTTP 502"),
        (_old, ["its version"], "4.17"),
    ],
)
def test_a_check_names_each_assumption_that_does_not_hold(
    double: CloudStackDouble,
    upstream: DescribedClient,
    monkeypatch: pytest.MonkeyPatch,
    break_assumption: Callable[[CloudStackDouble], None],
    names: list[str],
    text: str,
) -> None:
    """With CloudStack's own words where it answered."""
    monkeypatch.setattr("bulkdeploy.cloudstack.client.FIRST_PAUSE_S", 0.01)
    break_assumption(double)
    missing = [need for need in check_cloudstack(upstream) if need.remedy]
    assert [need.name for need in missing] == names
    assert all(text in need.found for need in missing)


def test_a_local_pool_whose_address_is_of_no_host_is_named(
    double: CloudStackDouble, upstream: DescribedClient
) -> None:
    """An import leaves it out; the check says so before."""
    rows = double.zone.rows

    def moved(command: str, release: str) -> list[dict[str, object]]:
        return [
            row | ({"ipaddress": "192.0.2.77"} if row.get("name") == "kvm-2-local" else {})
            for row in rows(command, release)
        ]

    double.zone.rows = moved  # type: ignore[method-assign]
    (missing,) = [need for need in check_cloudstack(upstream) if need.remedy]
    assert missing.name == "local storage pools"
    assert missing.found == "2 of 3 have a host with their address; not kvm-2-local"
