"""Rows of accounts: the list query with users, limits and totals, inserts and updates."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Row, Select, insert, select, update

from bulkdeploy.domain.accounts.accounts import AccountType, Caller
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.accounts.resource_counters import CountedAccount, account_counters
from bulkdeploy.store.accounts.users import users_of
from bulkdeploy.store.rows.filters import (
    Arguments,
    Filters,
    always,
    by_id,
    equal,
    filtered,
    keyword,
    same_text,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields, lock_live, reader
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.store.tables.accounts import accounts, domains, roles

SYSTEM_ACCOUNT_ID = 1
"""The account that the service acts as; clients do not see it, as in CloudStack."""

DEFAULT_ACCOUNT_IDS = (1, 2)
"""Accounts that every installation starts with."""

FILTERS: Filters = {
    "id": by_id(accounts.c.id),
    "name": same_text(accounts.c.name),
    "keyword": keyword(accounts.c.name),
    "accounttype": equal(accounts.c.account_type),
    "state": same_text(accounts.c.state),
    "iscleanuprequired": always(False),
}

FIELDS: Fields = {
    "account": accounts.c.name,
    "domainid": accounts.c.domain_id,
    "roleid": accounts.c.role_id,
    "networkdomain": accounts.c.network_domain,
    "state": accounts.c.state,
}

CHANGES: Fields = {
    "newname": accounts.c.name,
    "networkdomain": accounts.c.network_domain,
    "state": accounts.c.state,
}
"""What a change sets as it is given; a role comes with its account type."""

_read_all = reader(Entity.ACCOUNT, {**FIELDS, "_type": accounts.c.account_type})


def read_accounts(connection: Connection) -> list[dict[str, Any]]:
    """Return all accounts except the system account and project accounts, in the format of zone files."""
    return [
        row
        for row in _read_all(connection)
        if row["_id"] != SYSTEM_ACCOUNT_ID and row["_type"] != AccountType.PROJECT
    ]


def list_accounts(
    connection: Connection,
    caller: Caller,
    visibility: Visibility,
    arguments: Arguments,
    paging: Paging,
    *,
    with_counters: bool,
) -> Page:
    """Return one page of accounts, ordered by id. The internal accounts of projects are not listed.

    ``with_counters`` adds limits and totals, which are the most expensive part of the query.
    """
    query = filtered(_query().where(visibility.condition()), FILTERS, arguments)
    return _page(connection, caller, query, paging, with_counters=with_counters)


def read_account(connection: Connection, caller: Caller, account_id: int) -> dict[str, Any]:
    """Return one live account with the same fields as in lists."""
    query = _query().where(accounts.c.id == account_id)
    return dict(_page(connection, caller, query, Paging(limit=1), with_counters=True).rows[0])


def lock_account(connection: Connection, account_id: int) -> Row[Any] | None:
    """Lock a live account, after its domain, and return its row.

    Returns None if there is no live account with this id.
    """
    return lock_accounts(connection, [account_id]).get(account_id)


def lock_accounts(connection: Connection, account_ids: Iterable[int]) -> dict[int, Row[Any]]:
    """Lock live accounts, after their domains, and return their rows by internal id. Other ids are omitted."""
    return lock_live(connection, accounts, account_ids)


def insert_account(connection: Connection, columns: Mapping[str, Any]) -> int:
    """Insert a new account and return its id."""
    return int(connection.execute(insert(accounts).values(**columns).returning(accounts.c.id)).scalar_one())


def update_account(connection: Connection, account_id: int, columns: Mapping[str, Any]) -> None:
    """Update columns of an account whose row the caller has locked."""
    if columns:
        connection.execute(update(accounts).where(accounts.c.id == account_id).values(**columns))


def _page(
    connection: Connection, caller: Caller, query: Select[Any], paging: Paging, *, with_counters: bool
) -> Page:
    rows, count = fetch_rows(connection, query, paging)
    ids = [row.pop("_id") for row in rows]
    users = users_of(connection, caller, ids)
    for account_id, row in zip(ids, rows, strict=True):
        row["user"] = users.get(account_id, [])
        row["isdefault"] = account_id in DEFAULT_ACCOUNT_IDS
    if with_counters:
        counted = [
            CountedAccount(account_id, AccountType(row["accounttype"]))
            for account_id, row in zip(ids, rows, strict=True)
        ]
        counters = account_counters(connection, counted)
        for account_id, row in zip(ids, rows, strict=True):
            row.update(counters[account_id])
    return Page(rows, count)


def _query() -> Select[Any]:
    account = accounts.c
    return (
        select(
            account.id.label("_id"),
            account.uuid.label("id"),
            account.name,
            account.account_type.label("accounttype"),
            account.state,
            account.network_domain.label("networkdomain"),
            account.created,
            domains.c.uuid.label("domainid"),
            domains.c.name.label("domain"),
            domains.c.path.label("domainpath"),
            roles.c.uuid.label("roleid"),
            roles.c.name.label("rolename"),
            roles.c.role_type.label("roletype"),
        )
        .select_from(
            accounts.join(domains, domains.c.id == account.domain_id).join(roles, roles.c.id == account.role_id)
        )
        .where(
            account.removed.is_(None),
            account.id != SYSTEM_ACCOUNT_ID,
            account.account_type != AccountType.PROJECT,
        )
        .order_by(account.id)
    )
