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


def test_at_least_one_list_has_several_values(world: World) -> None:
    """Or nothing above could fail."""
    states = [row["state"] for row in world.rows("listVirtualMachines", listall="true", sortby="state")]
    assert len(set(states)) > 1
