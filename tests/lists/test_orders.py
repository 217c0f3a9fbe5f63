"""Lists in the order of one of their fields: ``sortby``."""

from itertools import pairwise

import pytest

from bulkdeploy.commands.registry import find_commands
from tests.support.zones.world import World

CHOICES = [
    pytest.param(name, choice, id=f"{name}-{choice}")
    for name, command in sorted(find_commands().items())
    for parameter in command.parameters
    if parameter.name == "sortby" and "-created" in parameter.choices
    for choice in parameter.choices
    if not choice.startswith("-")
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "field"), CHOICES)
def test_the_whole_list_is_ordered_before_it_is_cut_into_pages(world: World, name: str, field: str) -> None:
    """Upwards and downwards; what has no value comes last; pages put together are the list."""
    up = world.rows(name, listall="true", pagesize="-1", sortby=field)
    down = world.rows(name, listall="true", pagesize="-1", sortby=f"-{field}")
    values = [row.get(field) for row in up]
    there = [value for value in values if value is not None]
    assert values == there + [None] * (len(up) - len(there))
    assert [row.get(field) for row in down] == there[::-1] + [None] * (len(up) - len(there))
    changes = sum(before != after for before, after in pairwise(there))
    assert changes == max(0, len(set(there)) - 1)
    if there and (isinstance(there[0], int) or field == "created"):
        assert there == sorted(there)
    pages = [
        row
        for page in range(1, len(up) // 3 + 2)
        for row in world.rows(name, listall="true", page=str(page), pagesize="3", sortby=field)
    ]
    assert pages == up


@pytest.mark.parametrize("size", range(1, 6))
@pytest.mark.parametrize("of", [{}, {"account": "acme"}], ids=["everybody's", "one account's"])
def test_pages_of_virtual_machines_put_together_are_the_list(world: World, size: int, of: dict[str, str]) -> None:
    """In the order in which they were made, each once, from the first page to the one after the last."""
    if of:
        of = {**of, "domainid": world.id_of("domains", "acme")}
    whole = world.rows("listVirtualMachines", listall="true", pagesize="-1", **of)
    last = -(-len(whole) // size)
    pages = [
        world.rows("listVirtualMachines", listall="true", page=str(page), pagesize=str(size), **of)
        for page in range(1, last + 2)
    ]
    assert (len(whole) > 2, [row for page in pages for row in page], pages[-1]) == (True, whole, [])


def test_at_least_one_list_has_several_values(world: World) -> None:
    """Or nothing above could fail."""
    states = [row["state"] for row in world.rows("listVirtualMachines", listall="true", sortby="state")]
    assert len(set(states)) > 1
