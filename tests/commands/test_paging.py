"""Paging of lists: which rows ``page`` and ``pagesize`` ask for."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import AccountType, Caller, Owner, RoleType
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.errors import PagingError
from bulkdeploy.services.system import System
from bulkdeploy.store.configuration.configurations import GLOBAL_ID, write_values
from bulkdeploy.store.rows.listing import Paging

CALLER = Caller(
    2,
    UUID(int=2),
    "admin",
    Owner(2, UUID(int=2), "admin", AccountType.ADMIN, 1, UUID(int=1), "/1/"),
    1,
    RoleType.ADMIN,
)


@pytest.fixture
def rows(system: System, engine: Engine) -> Any:
    """The rows that a call with these arguments wants, where a page has 100 rows at most."""

    def request(**arguments: int) -> Paging:
        with engine.begin() as connection:
            write_values(connection, {(Scope.GLOBAL, GLOBAL_ID, "default.page.size"): "100"})
            return paging(Call(find_commands()["listApis"], CALLER, arguments, system, connection))

    return request


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, Paging(100)),
        ({"page": 1, "pagesize": 100}, Paging(100)),
        ({"page": 3, "pagesize": 7}, Paging(7, 14)),
        ({"pagesize": -1}, Paging(None)),
        ({"page": 2**31 - 1, "pagesize": 100}, Paging(100, (2**31 - 2) * 100)),
    ],
)
def test_pages(rows: Any, arguments: dict[str, int], expected: Paging) -> None:
    """Pages count from 1; without them the first page of the largest size is meant, with -1 everything."""
    assert rows(**arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"page": 1}, '"pagesize" parameter is required when "page" is specified'),
        ({"pagesize": 1}, '"page" parameter is required when "pagesize" is specified'),
        ({"page": 1, "pagesize": 101}, "Page size can't exceed max allowed page size value: 100"),
        ({"page": 0, "pagesize": 10}, "counted from 1"),
        ({"page": 1, "pagesize": 0}, "1 or more"),
        ({"page": 1, "pagesize": -2}, "1 or more"),
        ({"page": 1, "pagesize": -1}, "all rows are returned"),
    ],
)
def test_pages_that_are_none(rows: Any, arguments: dict[str, int], said: str) -> None:
    """Page and page size come together, are positive, and are bounded by the setting."""
    with pytest.raises(PagingError, match=said):
        rows(**arguments)


def test_every_list_declares_paging_alike() -> None:
    """A list that can be paged takes page, pagesize and keyword as all others do."""
    shared = {parameter.name: parameter for parameter in PAGING}
    for command in find_commands().values():
        if command.shape is Shape.LIST:
            given = {one.name: one for one in command.parameters if one.name in ("page", "pagesize")}
            assert given in ({}, {name: shared[name] for name in ("page", "pagesize")}), command.name
