"""The list query of users, and users of accounts."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, select

from bulkdeploy.domain.accounts import AccountType, Caller
from bulkdeploy.store.filters import Arguments, Filters, by_id, equal, filtered, id_in, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_rows
from bulkdeploy.store.tables.accounts import accounts, api_keys, domains, roles, users
from bulkdeploy.store.visibility import Visibility

SYSTEM_USER_ID = 1
"""The user that the service acts as; clients do not see it, as in CloudStack."""

FILTERS: Filters = {
    "id": by_id(users.c.id),
    "username": same_text(users.c.username),
    "keyword": keyword(users.c.username, users.c.firstname, users.c.lastname, users.c.email),
    "accounttype": equal(accounts.c.account_type),
    "state": same_text(users.c.state),
}


def list_users(
    connection: Connection, caller: Caller, visibility: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """One page of users by id."""
    query = _query(caller).where(visibility.condition()).order_by(users.c.id)
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    for row in rows:
        del row["_account_id"]
    return Page(rows, count)


def users_of(connection: Connection, caller: Caller, account_ids: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """The users of each account, by id."""
    query = _query(caller).where(id_in(accounts.c.id, account_ids)).order_by(users.c.id)
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        fields = dict(row)
        found[fields.pop("_account_id")].append(fields)
    return found


def user_by_key(connection: Connection, caller: Caller, api_key: str) -> dict[str, Any] | None:
    """The live user that has this API key, or None."""
    holder = select(api_keys.c.user_id).where(api_keys.c.api_key == api_key).scalar_subquery()
    row = connection.execute(_query(caller).where(users.c.id == holder)).mappings().one_or_none()
    return None if row is None else {name: value for name, value in row.items() if name != "_account_id"}


def _query(caller: Caller) -> Select[Any]:
    return (
        select(accounts.c.id.label("_account_id"), *_user_columns(), *_account_columns(caller))
        .select_from(
            users.join(accounts, accounts.c.id == users.c.account_id)
            .join(domains, domains.c.id == accounts.c.domain_id)
            .join(roles, roles.c.id == accounts.c.role_id)
        )
        .where(
            users.c.removed.is_(None),
            users.c.id != SYSTEM_USER_ID,
            accounts.c.account_type != AccountType.PROJECT,
        )
    )


def _user_columns() -> tuple[ColumnElement[Any], ...]:
    newest_key = (
        select(api_keys.c.api_key)
        .where(api_keys.c.user_id == users.c.id)
        .order_by(api_keys.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return (
        users.c.uuid.label("id"),
        users.c.username,
        users.c.firstname,
        users.c.lastname,
        users.c.email,
        users.c.timezone,
        users.c.state,
        users.c.is_default.label("isdefault"),
        users.c.created,
        newest_key.label("apikey"),
    )


def _account_columns(caller: Caller) -> tuple[ColumnElement[Any], ...]:
    mine = caller.owner.lineage
    return (
        accounts.c.uuid.label("accountid"),
        accounts.c.name.label("account"),
        accounts.c.account_type.label("accounttype"),
        domains.c.uuid.label("domainid"),
        domains.c.name.label("domain"),
        (domains.c.lineage.startswith(mine) & (domains.c.lineage != mine)).label("iscallerchilddomain"),
        roles.c.uuid.label("roleid"),
        roles.c.name.label("rolename"),
        roles.c.role_type.label("roletype"),
    )
