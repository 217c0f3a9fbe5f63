"""Every declared filter of every list narrows the list to exactly the rows that it names."""

from typing import Any

import pytest

from bulkdeploy.declare.parameters import WireType
from tests.lists import filter_cases, network_filter_cases, owned_filter_cases
from tests.lists.filter_cases import Case
from tests.lists.test_shapes import COMMANDS, everything
from tests.lists.world import World

NO_FILTERS = {
    *("page", "pagesize", "listall", "isrecursive", "account", "projectid"),
    *("showcapacities", "showremoved", "showunique", "userdata", "details", "fetchlatest", "sortby"),
    *("templatefilter", "isofilter", "networkfilter", "available", "archived"),
}
"""Parameters that do not filter by a field, with tests of their own."""

OWNED_BY_DOMAIN = {name for name in COMMANDS if any(item.name == "listall" for item in COMMANDS[name].parameters)}

ELSEWHERE = {
    ("listCapacity", "podid"),
    ("listCapacity", "clusterid"),
    ("listConfigurations", "clusterid"),
    ("listResourceLimits", "domainid"),
    ("listResourceLimits", "tag"),
    ("listStorageProviders", "keyword"),  # there is one
    ("listServiceOfferings", "state"),
    ("listDiskOfferings", "state"),
    *((name, "domainid") for name in OWNED_BY_DOMAIN),
}
"""Filters whose tests are in other files."""

FILTERS = [
    (name, parameter.name + ("[0].key" if parameter.type is WireType.MAP else ""))
    for name, command in sorted(COMMANDS.items())
    for parameter in command.parameters
    if parameter.name not in NO_FILTERS and (name, parameter.name) not in ELSEWHERE
]


def case_of(world: World, command: str, parameter: str) -> Case:
    """The case of a filter; a filter without one is a gap in these tests."""
    parts = (
        filter_cases.infrastructure,
        filter_cases.catalogue,
        network_filter_cases.ground,
        network_filter_cases.dedications,
        owned_filter_cases.owners,
        owned_filter_cases.groups,
        owned_filter_cases.machines,
    )
    cases: dict[str, Any] = {name: found for part in parts for name, found in part(world).items()}
    found: Case = cases[command][parameter]
    return found


@pytest.mark.parametrize(("command", "parameter"), FILTERS)
def test_a_filter_keeps_exactly_what_it_names(world: World, command: str, parameter: str) -> None:
    """The filtered list is the whole list without the rows that do not match, in the same order."""
    case = case_of(world, command, parameter)
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
