"""bulkCreateVirtualMachines: unlike VMs by one call, all of them or those that fit, in the list's order."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.commands.deployments.conftest import TableChanges
from tests.commands.deployments.test_bulk_answer import assert_intact
from tests.support.api.api_client import Answer, ApiClient, ApiFailure
from tests.support.zones.zone_queries import Zone

Create = Callable[..., dict[str, Any]]
NO_ID = "00000000-0000-4000-8000-000000000000"
OFFERED_ONCE = ("zoneid", "account", "domainid")


@pytest.fixture
def parameters(zone: Zone) -> Callable[..., dict[str, Any]]:
    """The parameters of a call for account acme, its list as JSON; an entry says in what it is not the usual VM."""
    usual = zone.bulk_parameters(1)
    shared = {name: usual.pop(name) for name in OFFERED_ONCE}
    del usual["virtualmachinecount"]

    def of(*entries: dict[str, Any], **more: object) -> dict[str, Any]:
        return {**shared, "virtualmachines": json.dumps([{**usual, **entry} for entry in entries]), **more}

    return of


@pytest.fixture
def create(client: ApiClient, parameters: Callable[..., dict[str, Any]]) -> Create:
    """Makes such a call."""
    return lambda *entries, **more: client.post("bulkCreateVirtualMachines", **parameters(*entries, **more)).body


def custom(zone: Zone, cores: int, memory_mib: int, **more: object) -> dict[str, Any]:
    """An entry of these sizes."""
    details = {"cpuNumber": cores, "memory": memory_mib}
    return {"serviceofferingid": zone.id_of("service_offerings", "Custom"), "details": details, **more}


def refusal(answer: dict[str, Any]) -> tuple[int, str]:
    """Status and text of a refusal."""
    return answer["errorcode"], answer["errortext"]


def test_unlike_vms_are_made_in_the_order_of_the_list(create: Create, zone: Zone, engine: Engine) -> None:
    """Jobs and placements follow the list; each VM is as its entry says, and counts are even over clusters."""
    answer = create(
        {"name": "web-a"},
        custom(zone, 4, 4096, name="db-a", displayname="The database"),
        {"nameprefix": "small", "count": 2},
        custom(zone, 4, 4096, name="db-b", rootdisksize=9),
        {"name": "web-b"},
    )
    assert [place["index"] for place in answer["placements"]] == [0, 1, 2, 2, 3, 4]
    assert [place["name"] for place in answer["placements"]] == [
        "web-a",
        "db-a",
        "small-1",
        "small-2",
        "db-b",
        "web-b",
    ]
    assert answer["count"] == 6
    assert answer["failed"] == []
    jobs = [(job["jobid"], job["jobinstanceid"]) for job in answer["asyncjobs"]]
    assert jobs == [(place["jobid"], place["virtualmachineid"]) for place in answer["placements"]]
    rows = {
        str(row.uuid): row
        for row in zone.rows(
            "SELECT v.*, h.uuid AS hostid, (SELECT array_agg(p.uuid::text ORDER BY x.device_id) FROM volumes x"
            " JOIN storage_pools p ON p.id = x.pool_id WHERE x.vm_id = v.id) AS pools,"
            " (SELECT size_bytes FROM volumes x WHERE x.vm_id = v.id) AS root_bytes"
            " FROM virtual_machines v JOIN hosts h ON h.id = v.host_id"
        )
    }
    for place in answer["placements"]:
        row = rows[place["virtualmachineid"]]
        assert (place["name"], place["hostid"], place["pools"]) == (row.name, str(row.hostid), row.pools)
    sizes = [(rows[place["virtualmachineid"]].cpu_number, place["name"]) for place in answer["placements"]]
    assert [cores for cores, _ in sizes] == [1, 4, 1, 1, 4, 1]
    by_name = {row.name: row for row in rows.values()}
    assert by_name["db-a"].display_name == "The database"
    assert by_name["db-b"].root_bytes == 9 << 30
    assert sorted(zone.vms_per_cluster().values()) == [1, 1, 2, 2]
    assert_intact(engine)


def test_a_batch_is_one_deployment(create: Create, client: ApiClient, zone: Zone) -> None:
    """It is listed as a whole, with all its jobs, and cancelled as a whole."""
    answer = create({"name": "one"}, custom(zone, 2, 1024), custom(zone, 3, 1024, count=3))
    (found,) = client.call("listBulkDeployments", listall=True)["bulkdeployment"]
    assert {job["deploymentid"] for job in answer["asyncjobs"]} == {found["id"]}
    assert (found["asked"], found["count"], found["queued"]) == (5, 5, 5)
    assert sum(cluster["added"] for cluster in found["clusters"]) == 5
    assert found["skew"] == 1
    cancelled = client.call("cancelBulkDeployment", id=found["id"])
    assert cancelled["bulkdeployment"]["state"] == "Cancelled"


def test_alike_entries_give_what_the_bulk_call_gives(create: Create, client: ApiClient, zone: Zone) -> None:
    """As many VMs per cluster and the same plan, for as many alike VMs."""
    bulk = client.call("bulkDeployVirtualMachine", **zone.bulk_parameters(10, dryrun="true"))["plan"]
    batch = create(*[{"name": f"vm-{number}"} for number in range(10)], dryrun="true")["plan"]
    for name in ("count", "fits", "capacity", "clusters", "excluded", "skew", "planner"):
        assert batch.get(name) == bulk.get(name)
    create(*[{} for _ in range(10)])
    assert sorted(zone.vms_per_cluster().values()) == [2, 2, 3, 3]
    assert zone.scalar("SELECT count(*) FROM deployments") == 1


def test_maps_say_what_json_says(client: ApiClient, zone: Zone, parameters: Callable[..., dict[str, Any]]) -> None:
    """``virtualmachines[0].name=...``, maps in maps included, is the list as CloudStack's clients write one."""
    listed = json.loads(parameters(custom(zone, 2, 1024, name="a"), {"name": "b"})["virtualmachines"])
    pairs: dict[str, Any] = {}
    for number, entry in enumerate(listed):
        for name, value in entry.items():
            if isinstance(value, dict):
                pairs |= {f"virtualmachines[{number}].{name}[0].{key}": inner for key, inner in value.items()}
            else:
                pairs[f"virtualmachines[{number}].{name}"] = value
    shared = {name: value for name, value in parameters({}).items() if name != "virtualmachines"}
    answer = client.call("bulkCreateVirtualMachines", **shared, **pairs)
    assert [place["name"] for place in answer["placements"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("entries", "more", "words"),
    [
        ([{"name": "a"}, {"name": "A"}], {}, ("virtualmachines[1].name", "virtualmachines[0]")),
        ([{}, {"name": "-"}], {}, ("virtualmachines[1].name", "hyphen")),
        ([{"name": "a", "count": 2}], {}, ("virtualmachines[0]", "nameprefix")),
        ([{"count": 0}], {}, ("virtualmachines[0].count", "1 or more")),
        ([{}, {"serviceofferingid": "nothing"}], {}, ("virtualmachines[1].serviceofferingid", "nothing")),
        ([{}, {"templateid": ""}], {}, ("virtualmachines[1].templateid",)),
        ([{"rootdisksize": "x"}], {}, ("virtualmachines[0].rootdisksize", "whole number")),
        ([{}, {"flavour": "x"}], {}, ("virtualmachines[1].flavour", "do not have this parameter")),
        ([{"zoneid": "x"}], {}, ("virtualmachines[0]", "zoneid", "belongs to the whole call")),
        ([{"ipaddress": "10.1.0.77", "count": 2}], {}, ("virtualmachines[0]", "address")),
        (
            [{"keypairs": "a", "securitygroupids": NO_ID, "securitygroupnames": "a"}],
            {},
            ("virtualmachines[0]", "exclusive"),
        ),
        ([], {}, ("virtualmachines", "1 to 10000 entries")),
        ([{}], {"virtualmachines": "[1]"}, ("virtualmachines[0]", "object")),
        ([{}], {"virtualmachines": "{"}, ("virtualmachines", "JSON")),
        ([{}], {"virtualmachines": '[{"details":{"a":{"b":1}}}]'}, ("virtualmachines[0].details[0].a", "object")),
        ([{}], {"zoneid": "nowhere"}, ("parameter zoneid",)),
    ],
)
def test_what_is_wrong_with_an_entry_is_said_of_it(
    create: Create, nothing_written: TableChanges, entries: list[Any], more: dict[str, Any], words: tuple[str, ...]
) -> None:
    """The error names the entry and its parameter, and nothing is made."""
    status, text = refusal(create(*entries, **more))
    assert status in (430, 431)
    for word in words:
        assert word in text
    assert nothing_written()


def test_pins_are_on_all_entries_or_on_none(create: Create, zone: Zone, nothing_written: TableChanges) -> None:
    """A list that says of some VMs only where they go is refused; pins of each its own are kept."""
    pin = {"clusterid": zone.id_of("clusters", "a-1")}
    status, text = refusal(create(pin, {}))
    assert (status, "virtualmachines[0] has one" in text) == (431, True)
    assert nothing_written()
    host = zone.rows(
        "SELECT h.uuid, h.name FROM hosts h JOIN clusters c ON c.id = h.cluster_id AND c.name = 'b-1'"
    )[0]
    answer = create(pin, {"hostid": str(host.uuid)}, pin)
    assert answer["placements"][1]["hostname"] == host.name
    assert {answer["placements"][at]["clusterid"] for at in (0, 2)} == {pin["clusterid"]}


def test_names_are_free_in_the_network(create: Create, nothing_written: TableChanges) -> None:
    """A name that a VM in the network has is refused by its entry, in dry runs too; prefixes pass over it."""
    create({"name": "web-1"})
    nothing_written.mark()
    for dry in ("true", "false"):
        status, text = refusal(create({}, {"name": "WEB-1"}, dryrun=dry))
        assert (status, "virtualmachines[1].name" in text) == (431, True)
    assert nothing_written()
    answer = create({"name": "web-3"}, {"nameprefix": "web", "count": 2}, {"nameprefix": "web", "rootdisksize": 3})
    assert [place["name"] for place in answer["placements"]] == ["web-3", "web-2", "web-4", "web-5"]


def test_all_or_none(create: Create, zone: Zone, nothing_written: TableChanges) -> None:
    """One VM that fits nowhere refuses the call; which, and what its best host lacks, is said."""
    zone.change("UPDATE host_capacity SET memory_mib_limit = 8192")
    status, text = refusal(create({}, custom(zone, 2, 16384, name="huge"), {}))
    assert status == 533
    for word in ("virtualmachines[1] (huge)", "8192 MiB of memory", "3 VM instance(s)", "2 would fit"):
        assert word in text
    assert nothing_written()


def test_partial_deploys_what_fits(create: Create, zone: Zone, engine: Engine) -> None:
    """With partial, entries that do not fit are answered as failed, each with why; the others run."""
    zone.change("UPDATE host_capacity SET memory_mib_limit = 8192")
    huge = custom(zone, 2, 16384, name="huge")
    plan = create({"name": "a"}, huge, {"name": "b"}, partial="true", dryrun="true")["plan"]
    answer = create({"name": "a"}, huge, {"name": "b"}, partial="true")
    assert [place["index"] for place in answer["placements"]] == [0, 2]
    (failed,) = answer["failed"]
    assert (failed["index"], failed["name"], failed["errorcode"]) == (1, "huge", 533)
    assert "8192 MiB of memory" in failed["errortext"]
    assert ([place["index"] for place in plan["placements"]], plan["failed"]) == ([0, 2], answer["failed"])
    assert refusal(create(huge, partial="true"))[0] == 533
    assert_intact(engine)


def test_partial_keeps_to_limits_and_addresses(
    create: Create, client: ApiClient, zone: Zone, engine: Engine
) -> None:
    """VMs beyond a limit, or without a free address, are left out, with the error of each."""
    zone.change("UPDATE ip_ranges SET end_ip = next_ip + 3")
    answer = create(*[custom(zone, 1 + number % 2, 512) for number in range(6)], partial="true")
    assert (answer["count"], {each["errorcode"] for each in answer["failed"]}) == (4, {533})
    assert all("free address" in each["errortext"] for each in answer["failed"])
    zone.change("UPDATE ip_ranges SET end_ip = next_ip + 99")
    client.call(
        "updateResourceLimit", resourcetype=0, max=7, account="acme", domainid=zone.id_of("domains", "acme")
    )
    answer = create(*[custom(zone, 1 + number % 2, 512) for number in range(6)], partial="true")
    assert ([place["index"] for place in answer["placements"]], len(answer["failed"])) == ([0, 1, 2], 3)
    assert {each["errorcode"] for each in answer["failed"]} == {535}
    assert_intact(engine)


def test_a_token_answers_the_same_again(create: Create, zone: Zone) -> None:
    """Jobs, places and what was left out are those of the first call; other lists under the token are refused."""
    zone.change("UPDATE host_capacity SET memory_mib_limit = 8192")
    entries = ({"name": "a"}, custom(zone, 2, 16384), {"name": "b", "rootdisksize": 4})
    first = create(*entries, partial="true", requesttoken="t")
    assert create(*entries, partial="true", requesttoken="t") == first
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 2
    assert refusal(create({"name": "c"}, partial="true", requesttoken="t"))[0] == 431


def test_groups_hold_across_unlike_vms(create: Create, zone: Zone, engine: Engine) -> None:
    """Unlike VMs of one strict anti-affinity group share no host: one more than there are hosts is refused."""
    apart = {"affinitygroupnames": "apart"}
    answer = create(*[custom(zone, 1 + number % 3, 512, **apart) for number in range(12)])
    assert max(Counter(place["hostid"] for place in answer["placements"]).values()) == 1
    assert refusal(create({**apart, "rootdisksize": 5}, custom(zone, 1, 512, **apart)))[0] == 533
    assert_intact(engine)


def test_racing_batches_do_not_share_room(client: ApiClient, zone: Zone, engine: Engine, parameters: Any) -> None:
    """Six batches at once, where two fit: each is made whole or not at all, and nothing is overfilled."""
    zone.change("UPDATE host_capacity SET memory_mib_limit = 4096")
    requested = parameters(*[custom(zone, 2, 4096) for _ in range(4)], *[custom(zone, 1, 512) for _ in range(3)])

    def call(_: int) -> Answer:
        return client.post("bulkCreateVirtualMachines", **requested)

    with ThreadPoolExecutor(6) as pool:
        statuses = Counter(answer.status for answer in pool.map(call, range(6)))
    assert statuses[200] == 2
    assert statuses == {200: 2, 533: 4}
    assert zone.scalar("SELECT count(*) FROM virtual_machines") == 14
    assert_intact(engine)


def test_only_root_admins_make_batches(client: ApiClient, parameters: Any) -> None:
    """Others have no such call."""
    acme = ApiClient(
        client.url, "acme-api-key-000000000000000000000000001", "acme-secret-key-0000000000000000000001"
    )
    with pytest.raises(ApiFailure) as refused:
        acme.call("bulkCreateVirtualMachines", **parameters({}))
    assert refused.value.status == 432


def test_thousands_of_entries_are_one_call(create: Create, zone: Zone) -> None:
    """Entries that are alike but for their names are looked up once, whatever their number."""
    zone.change(
        "UPDATE host_capacity SET vms_limit = 5000, cpu_mhz_limit = 1000000000, memory_mib_limit = 100000000"
    )
    answer = create(*[{"name": f"vm-{number}", "rootdisksize": 2 + number % 3} for number in range(900)])
    assert answer["count"] == 900
    assert max(zone.vms_per_cluster().values()) == 225
    assert zone.scalar("SELECT count(*) FROM deployments") == 3
