"""listConfigurations and updateConfiguration."""

from typing import Any

import pytest

from tests.support.api.api_client import ApiFailure
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, World

CPU, MEMORY = "cpu.overprovisioning.factor", "mem.overprovisioning.factor"
THRESHOLD = "cluster.cpu.allocated.capacity.disablethreshold"


def value(world: World, name: str, **place: Any) -> str:
    """The value that holds."""
    (row,) = world.rows("listConfigurations", name=name, **place)
    return str(row["value"])


def set_value(world: World, name: str, text: str, by: str = ADMIN, **place: object) -> dict[str, object]:
    """Set a value; the setting's row."""
    row: dict[str, object] = world.client(by).call("updateConfiguration", name=name, value=text, **place)[
        "configuration"
    ]
    return row


def refusal(world: World, name: str, text: str, by: str = ADMIN, **place: object) -> ApiFailure:
    """How an attempt to set a value fails."""
    with pytest.raises(ApiFailure) as caught:
        set_value(world, name, text, by, **place)
    return caught.value


def test_a_setting_is_described(world: World) -> None:
    """A row says the value, the default, the type and what there is to choose from."""
    (row,) = world.rows("listConfigurations", name="vm.allocation.algorithm")
    assert (row["value"], row["defaultvalue"], row["type"], row["scope"]) == (
        "random",
        "random",
        "String",
        "Global",
    )
    assert row["options"].startswith("random,firstfit,")
    names = world.names("listConfigurations", pagesize="-1")
    assert names == sorted(names)


def test_a_value_that_is_set_holds_at_once(fresh_world: World) -> None:
    """The new value is answered, listed, and recorded as an event."""
    row = set_value(fresh_world, "start.retry", "3")
    assert (row["name"], row["value"], row["defaultvalue"]) == ("start.retry", "3", "10")
    assert value(fresh_world, "start.retry") == "3"
    (event,) = fresh_world.rows("listEvents", type="CONFIGURATION.VALUE.EDIT")
    assert (event["description"], event["username"]) == ("set start.retry to 3 everywhere", "admin")


def test_without_a_value_nothing_changes(fresh_world: World) -> None:
    """A call without ``value`` answers the setting as it is."""
    body = fresh_world.client().call("updateConfiguration", name="start.retry")
    assert body["configuration"]["value"] == "10"
    assert fresh_world.rows("listEvents", type="CONFIGURATION.VALUE.EDIT") == []


def test_python_booleans_are_understood(fresh_world: World) -> None:
    """Clients in Python send True; it is kept as CloudStack writes it."""
    assert set_value(fresh_world, "cluster.threshold.enabled", "False")["value"] == "false"


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("start.retry", "0", "must be a whole number from 1 to 100"),
        ("start.retry", "ten", "must be a whole number"),
        ("start.retry", "", "must be a whole number"),
        ("cluster.threshold.enabled", "yes", "must be true or false"),
        (THRESHOLD, "1.5", "from 0 to 1"),
        ("instance.name", "my cloud", "letters, digits and hyphens"),
        ("instance.name", "9lives", "letters, digits and hyphens"),
        ("instance.name", "V" * 27, "1 to 26"),
        ("vm.allocation.algorithm", "best", "must be one of random"),
        ("max.account.cpus", "-2", "from -1"),
    ],
)
def test_values_are_checked(world: World, name: str, text: str, rule: str) -> None:
    """A value that breaks the setting's rule is refused, and the rule is said."""
    failure = refusal(world, name, text)
    assert (failure.status, failure.cserrorcode) == (431, 4350)
    assert rule in failure.errortext
    assert name in failure.errortext


def test_unknown_settings_are_refused(world: World) -> None:
    """A name that is no setting is said not to exist."""
    failure = refusal(world, "no.such.setting", "1")
    assert failure.status == 431
    assert "Config parameter with name no.such.setting doesn't exist" in failure.errortext


def test_a_cluster_may_differ(fresh_world: World) -> None:
    """A value of one cluster holds there and nowhere else; the rest follows the global one."""
    one, other = (fresh_world.id_of("clusters", name) for name in ("a-1", "a-2"))
    set_value(fresh_world, THRESHOLD, "0.5", clusterid=one)
    set_value(fresh_world, THRESHOLD, "0.7")
    assert value(fresh_world, THRESHOLD, clusterid=one) == "0.5"
    assert value(fresh_world, THRESHOLD, clusterid=other) == value(fresh_world, THRESHOLD) == "0.7"


def test_settings_of_a_place_are_those_that_can_be_set_there(world: World) -> None:
    """A cluster lists settings of scope Cluster; what has another scope cannot be set for it."""
    cluster = world.id_of("clusters", "a-1")
    rows = world.rows("listConfigurations", clusterid=cluster)
    assert {row["scope"] for row in rows} == {"Cluster"}
    assert {CPU, MEMORY, THRESHOLD} <= {row["name"] for row in rows}
    failure = refusal(world, "start.retry", "5", clusterid=cluster)
    assert failure.status == 431
    assert "only globally" in failure.errortext


def test_at_most_one_place_is_named(world: World) -> None:
    """A call is about everything, or one cluster, or one pool."""
    places = {"clusterid": world.id_of("clusters", "a-1"), "storageid": world.id_of("storage_pools", "zone-wide")}
    assert refusal(world, THRESHOLD, "0.5", **places).status == 431
    assert world.client().get("listConfigurations", **places).status == 431


def test_overcommit_belongs_to_its_cluster(fresh_world: World) -> None:
    """The factor of a cluster changes the cluster, and what its hosts may promise, and nothing else."""
    world, cluster = fresh_world, fresh_world.id_of("clusters", "a-1")
    other = (
        "SELECT md5(string_agg(c::text, '' ORDER BY host_id)) FROM host_capacity c JOIN hosts h ON h.id = host_id"
    )
    before = world.scalar(f"{other} WHERE h.name NOT LIKE 'a-1-%'")
    assert set_value(world, CPU, "2.5", clusterid=cluster)["value"] == "2.5"
    set_value(world, MEMORY, "1.5", clusterid=cluster)
    (row,) = world.rows("listClusters", id=cluster)
    assert (row["cpuovercommitratio"], row["memoryovercommitratio"]) == ("2.5", "1.5")
    assert (value(world, CPU, clusterid=cluster), value(world, CPU)) == ("2.5", "1.0")
    found = world.scalar(
        "SELECT array_agg(DISTINCT (cpu_mhz_limit, memory_mib_limit)::text) FROM host_capacity"
        " JOIN hosts ON hosts.id = host_id WHERE name LIKE 'a-1-%'"
    )
    assert found == [f"({16 * 2000 * 5 // 2},{64 * 1024 * 3 // 2})"]
    assert world.scalar(f"{other} WHERE h.name NOT LIKE 'a-1-%'") == before
    assert refusal(world, CPU, "0.5", clusterid=cluster).status == 431


@pytest.mark.parametrize("written", ["3", "3.0", "1.25"])
def test_overcommit_is_shown_as_it_was_written(fresh_world: World, written: str) -> None:
    """Terraform compares texts: what it set as 3 is 3 when it reads it, and not 3.0."""
    world, cluster = fresh_world, fresh_world.id_of("clusters", "a-1")
    set_value(world, CPU, written, clusterid=cluster)
    (row,) = world.rows("listClusters", id=cluster)
    assert row["cpuovercommitratio"] == written == value(world, CPU, clusterid=cluster)


def test_overcommit_makes_room(fresh_world: World) -> None:
    """With twice the CPU to promise, a batch fits that did not fit before."""
    world, cluster = fresh_world, fresh_world.id_of("clusters", "a-1")
    offer = {
        "zoneid": world.id_of("zones", "small"),
        "serviceofferingid": world.id_of("service_offerings", "Small"),
        "templateid": world.id_of("templates", "Debian 12"),
        "clusterid": cluster,
        "dryrun": "true",
        "virtualmachinecount": 200,
    }
    answer = world.client().get("bulkDeployVirtualMachine", **offer)
    assert answer.status == 533
    set_value(world, CPU, "2", clusterid=cluster)
    assert world.client().call("bulkDeployVirtualMachine", **offer)["plan"]["fits"] == 200


def test_settings_are_for_root_admins(world: World) -> None:
    """A domain admin sees what can be set per account, and sets nothing that holds for all."""
    of_accounts = ["allow.public.user.templates", "api.allowed.source.cidr.list", "use.system.guest.vlans"]
    assert world.names("listConfigurations", DOMAIN_ADMIN) == of_accounts
    domain = world.id_of("domains", "acme")
    assert world.client(DOMAIN_ADMIN).call("listConfigurations", domainid=domain) == {}
    assert refusal(world, "start.retry", "5", DOMAIN_ADMIN).status == 531
    rival = world.id_of("accounts", "rival")
    for place in ({"accountid": rival}, {"domainid": world.id_of("domains", "rivals")}):
        assert world.client(DOMAIN_ADMIN).get("listConfigurations", **place).status == 431


def test_settings_of_accounts_may_be_set_for_domains(fresh_world: World) -> None:
    """If that is switched on; domains below inherit them by another switch. Settings with effect stay accounts'."""
    name, world = "vmsnapshot.expire.interval", fresh_world
    account, domain = {"accountid": world.id_of("accounts", "acme")}, {"domainid": world.id_of("domains", "acme")}
    assert world.rows("listConfigurations", name=name, **domain) == []
    assert "per Domain" in refusal(world, name, "1", **domain).errortext
    set_value(world, "enable.account.settings.for.domain", "true")
    set_value(world, name, "7", **domain)
    assert (value(world, name, **domain), value(world, name, **account)) == ("7", "-1")
    set_value(world, "enable.domain.settings.for.child.domain", "true")
    assert value(world, name, **account) == "7"
    set_value(world, name, "8", **account)
    assert (value(world, name, **domain), value(world, name, **account), value(world, name)) == ("7", "8", "-1")
    assert "per Domain" in refusal(world, "allow.public.user.templates", "false", **domain).errortext


def test_a_deleted_cluster_takes_no_values(fresh_world: World) -> None:
    """What was deleted still has an id, and no settings."""
    cluster = fresh_world.id_of("clusters", "b-2")
    fresh_world.change("UPDATE clusters SET removed = now() WHERE name = 'b-2'")
    failure = refusal(fresh_world, THRESHOLD, "0.5", clusterid=cluster)
    assert failure.status == 431
    assert "was deleted" in failure.errortext


def test_settings_without_effect_are_kept_for_tools_that_set_them(fresh_world: World) -> None:
    """They are found by name only, validated by their type, and stored; secrets among them are refused."""
    assert set_value(fresh_world, "network.gc.wait", "20")["defaultvalue"] == "600"
    assert value(fresh_world, "network.gc.wait") == "20"
    (row,) = fresh_world.rows("listConfigurations", name="network.gc.wait")
    assert row["description"].startswith("Has no effect here.")
    assert "network.gc.wait" not in fresh_world.names("listConfigurations", pagesize="-1")
    assert "must be a whole number" in refusal(fresh_world, "network.gc.wait", "soon").errortext
    assert set_value(fresh_world, "commands.timeout", "StartCommand=60, StopCommand = 90")["name"]
    for wrong in ("StartCommand: 1", "StartCommand=0", "=5", "StartCommand=60,"):
        assert "such as StartCommand=300" in refusal(fresh_world, "commands.timeout", wrong).errortext
    assert "is not stored" in refusal(fresh_world, "alert.smtp.password", "secret").errortext
    zone = fresh_world.id_of("zones", "small")
    assert set_value(fresh_world, "guest.domain.suffix", "example.org", zoneid=zone)["value"] == "example.org"
