"""Every declared filter of every list narrows the list to exactly the rows that it names."""

from functools import cache

import pytest

from bulkdeploy.declare.parameters import WireType
from tests.lists import filter_cases, network_filter_cases, owned_filter_cases
from tests.lists.filter_cases import Case
from tests.lists.test_shapes import COMMANDS, EMPTY, everything
from tests.support.zones.world import USER, World

NO_FILTERS = {
    *("page", "pagesize", "listall", "isrecursive", "account", "projectid"),
    *("showcapacities", "showremoved", "showunique", "userdata", "details", "fetchlatest", "sortby"),
    *("templatefilter", "isofilter", "networkfilter", "available", "archived"),
    *("showicon", "retrieveonlyresourcecount", "system"),
}
"""Parameters that do not filter by a field, with tests of their own."""

OFFERINGS = {"listServiceOfferings", "listDiskOfferings"}
OWNED_BY_DOMAIN = {
    name for name in COMMANDS if any(item.name == "listall" for item in COMMANDS[name].parameters)
} - OFFERINGS

ELSEWHERE = {
    ("listCapacity", "podid"),
    ("listCapacity", "clusterid"),
    ("listConfigurations", "clusterid"),
    ("listHosts", "virtualmachineid"),
    ("listHostsMetrics", "virtualmachineid"),
    *(
        (name, f"outofbandmanagement{what}")
        for name in ("listHosts", "listHostsMetrics")
        for what in ("enabled", "powerstate")
    ),
    *(
        ("listAllocations", name)
        for name in ("consumerid", "consumertype", "hostid", "storageid", "clusterid", "podid", "zoneid")
    ),
    *((name, "allocpolicy") for name in ("listClusters", "listClustersMetrics", "listPods")),
    *(("listServiceOfferings", name) for name in ("state", "systemvmtype", "encryptroot")),
    ("listDiskOfferings", "encrypt"),
    ("listDiskOfferings", "state"),
    *((name, "domainid") for name in OWNED_BY_DOMAIN),
}
"""Filters whose tests are in other files."""

FILTERS = [
    (name, parameter.name + ("[0].key" if parameter.type is WireType.MAP else ""))
    for name, command in sorted(COMMANDS.items())
    for parameter in command.parameters
    if parameter.name not in NO_FILTERS and (name, parameter.name) not in ELSEWHERE and name not in EMPTY
]
COUNTED = sorted(
    name
    for name, command in COMMANDS.items()
    if any(item.name == "retrieveonlyresourcecount" for item in command.parameters)
)


@cache
def all_cases(world: World) -> dict[str, dict[str, Case]]:
    """The cases of all filters, by command and parameter."""
    parts = (
        filter_cases.infrastructure,
        filter_cases.catalogue,
        network_filter_cases.ground,
        network_filter_cases.dedications,
        owned_filter_cases.owners,
        owned_filter_cases.groups,
        owned_filter_cases.machines,
    )
    found = {name: cases for part in parts for name, cases in part(world).items()}
    return {**found, **{f"{name}Metrics": cases for name, cases in found.items() if f"{name}Metrics" in COMMANDS}}


@pytest.mark.parametrize(("command", "parameter"), FILTERS)
def test_a_filter_keeps_exactly_what_it_names(world: World, command: str, parameter: str) -> None:
    """The filtered list is the whole list without the rows that do not match, in the same order."""
    case = all_cases(world)[command][parameter]
    parameters = everything(COMMANDS[command])
    whole = world.rows(command, **parameters)
    expected = [row for row in whole if case.keeps(row)]
    assert world.rows(command, **{**parameters, parameter: case.value}) == expected
    if case.tells_apart:
        assert 0 < len(expected) < len(whole)


@pytest.mark.parametrize(("command", "parameter"), [pair for pair in FILTERS if pair[1] == "name"])
def test_names_are_matched_whole(world: World, command: str, parameter: str) -> None:
    """A part of a name, or a pattern, is not the name."""
    parameters = everything(COMMANDS[command])
    for pattern in ("%", "_", world.names(command, **parameters)[0][:-1]):
        assert world.rows(command, **{**parameters, parameter: pattern}) == []


@pytest.mark.parametrize("command", sorted({name for name, parameter in FILTERS if parameter == "keyword"}))
def test_keywords_are_plain_text(world: World, command: str) -> None:
    """Signs that mean something to SQL mean themselves in a keyword."""
    for text in ("%", "' OR 1=1 --", "\\"):
        assert world.rows(command, **{**everything(COMMANDS[command]), "keyword": text}) == []


def test_a_tag_filter_wants_key_and_value(world: World) -> None:
    """Where a value is given, the tag must have it; several tags must all be there."""
    tagged = {"tags[0].key": "colour", "tags[0].value": "blue", "listall": "true"}
    assert world.names("listVirtualMachines", **tagged) == ["rival-1"]
    assert world.names("listVirtualMachines", **tagged, **{"tags[1].key": "size"}) == []


def test_id_and_ids_exclude_each_other(world: World) -> None:
    """A call names one thing or several, not both."""
    zone = world.id_of("zones", "small")
    answer = world.client().get("listZones", id=zone, ids=zone)
    assert (answer.status, answer.body["cserrorcode"]) == (431, 4350)


def test_only_active_offerings_are_listed_by_default(world: World) -> None:
    """Inactive offerings appear only where ``state`` asks for them."""
    for command, retired in (("listServiceOfferings", "Retired"), ("listDiskOfferings", "Retired disk")):
        assert retired not in world.names(command)
        assert world.names(command, state="inactive") == [retired]


@pytest.mark.parametrize("command", sorted(EMPTY))
def test_filters_of_nothing_find_nothing(world: World, command: str) -> None:
    """Lists that are always empty take CloudStack's filters, refuse unknown ids, and stay empty."""
    samples = {WireType.BOOLEAN: "true", WireType.UUID: None, WireType.MAP: None, WireType.INTEGER: None}
    texts = {item.name: samples.get(item.type, "x") for item in COMMANDS[command].parameters}
    given = {name: value for name, value in texts.items() if value is not None and name not in ("account", "ids")}
    assert world.client().call(command, **given, **{"tags[0].key": "x"}) == {}
    if "zoneid" in texts:
        assert world.client().call(command, zoneid=world.id_of("zones", "small")) == {}
        assert world.client().get(command, zoneid="no-such-zone").status == 431


@pytest.mark.parametrize("command", COUNTED)
def test_a_count_can_be_had_without_rows(world: World, command: str) -> None:
    """``retrieveonlyresourcecount`` answers how many rows there are, and none of them."""
    whole = world.rows(command, **everything(COMMANDS[command]))
    counted = world.client().call(command, listall="true", retrieveonlyresourcecount="true")
    assert counted == ({"count": len(whole)} if whole else {})


@pytest.mark.parametrize("command", sorted(OFFERINGS))
def test_offerings_are_listed_for_an_account(world: World, command: str) -> None:
    """``account`` and ``projectid`` leave what these may use, and only those within reach may be named."""
    rival = {"account": "rival", "domainid": world.id_of("domains", "rivals")}
    acme = {"account": "acme", "domainid": world.id_of("domains", "acme")}
    moon = {"projectid": world.id_of("projects", "moon")}
    theirs = set(world.names(command, **rival)) - set(world.names(command, **acme))
    assert theirs == set(world.names(command)) - set(world.names(command, **moon)) != set()
    assert world.names(command, USER, **acme) == world.names(command, USER, listall="true")
    assert world.client(USER).get(command, **rival).status == 431
    assert world.client().get(command, **acme, **moon).status == 431


def test_offerings_for_things_of_others_are_not_listed(world: World) -> None:
    """Neither a VM, nor a volume, nor a private template of another account says anything about itself."""
    vm = world.id_of("virtual_machines", "rival-1")
    for command, named in (
        ("listServiceOfferings", {"virtualmachineid": vm}),
        ("listServiceOfferings", {"templateid": world.id_of("templates", "rival private")}),
        ("listDiskOfferings", {"virtualmachineid": vm}),
        ("listDiskOfferings", {"volumeid": world.id_of("volumes", "DATA")}),
        ("listVirtualMachines", {"userdataid": world.id_of("user_data", "data of rival")}),
        ("listNetworkOfferings", {"networkid": world.id_of("networks", "rival-isolated")}),
    ):
        assert world.client(USER).get(command, **named).status == 431


def test_a_keyword_finds_virtual_machines_by_their_state(world: World) -> None:
    """A part of the state's name, in any case, for who sees instance names; for others only names count."""
    everything = {
        row["name"]: row["state"]
        for row in world.client().get("listVirtualMachines", listall="true").body["virtualmachine"]
    }
    for part in ("toPPe", "running", "no such state"):
        wanted = sorted(name for name, state in everything.items() if part.lower() in state.lower())
        assert sorted(world.names("listVirtualMachines", listall="true", keyword=part)) == wanted
    assert len(set(everything.values())) > 1
