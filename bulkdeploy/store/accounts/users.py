"""Rows of users and their keys: the list query, inserts, updates and deletes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, func, insert, select, true, update

from bulkdeploy.domain.accounts.accounts import AccountType, Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.rows.filters import (
    Arguments,
    Filters,
    always,
    by_id,
    equal,
    filtered,
    id_in,
    keyword,
    same_text,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields, lock_live
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.store.tables.accounts import accounts, api_keys, domains, roles, sessions, users

SYSTEM_USER_ID = 1
"""The user that the service acts as; clients do not see it, as in CloudStack."""

FILTERS: Filters = {
    "id": by_id(users.c.id),
    "username": same_text(users.c.username),
    "keyword": keyword(users.c.username, users.c.firstname, users.c.lastname, users.c.email),
    "accounttype": equal(accounts.c.account_type),
    "state": same_text(users.c.state),
    "usersource": always("native"),
}

FIELDS: Fields = {
    "username": users.c.username,
    "firstname": users.c.firstname,
    "lastname": users.c.lastname,
    "email": users.c.email,
    "timezone": users.c.timezone,
    "passwordhash": users.c.password_hash,
    "state": users.c.state,
}


def read_users(connection: Connection) -> list[dict[str, Any]]:
    """Return all users except the service's own, in the format of zone files.

    The newest secret key of each user is returned encrypted, as it is stored.
    """
    newest = (
        select(api_keys.c.api_key, api_keys.c.secret_key_encrypted)
        .where(api_keys.c.user_id == users.c.id)
        .order_by(api_keys.c.id.desc())
        .limit(1)
        .lateral()
    )
    query = (
        select(
            users.c.id.label("_id"),
            users.c.uuid.label("_uuid"),
            accounts.c.id.label("_account_id"),
            accounts.c.name.label("account"),
            accounts.c.domain_id.label("domainid"),
            *(column.label(name) for name, column in FIELDS.items()),
            newest.c.api_key.label("userapikey"),
            newest.c.secret_key_encrypted.label("_secret"),
        )
        .select_from(users.join(accounts, accounts.c.id == users.c.account_id).outerjoin(newest, true()))
        .where(users.c.removed.is_(None), users.c.id != SYSTEM_USER_ID)
        .order_by(users.c.id)
    )
    rows = [dict(row) for row in connection.execute(query).mappings()]
    return [{**row, "_within": (Entity.ACCOUNT, row["_account_id"])} for row in rows]


def list_users(
    connection: Connection, caller: Caller, visibility: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """Return one page of visible users, ordered by id."""
    query = _query(caller).where(visibility.condition()).order_by(users.c.id)
    rows, count = fetch_rows(connection, filtered(query, FILTERS, arguments), paging)
    for row in rows:
        del row["_account_id"]
    return Page(rows, count)


def users_of(connection: Connection, caller: Caller, account_ids: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the users of each account, as response fields, by account id."""
    query = _query(caller).where(id_in(accounts.c.id, account_ids)).order_by(users.c.id)
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        fields = dict(row)
        found[fields.pop("_account_id")].append(fields)
    return found


def user_by_key(
    connection: Connection, caller: Caller, visibility: Visibility, api_key: str
) -> dict[str, Any] | None:
    """Return the user who has this API key, or None if there is no such user whom the caller may see."""
    holder = select(api_keys.c.user_id).where(api_keys.c.api_key == api_key).scalar_subquery()
    query = _query(caller).where(users.c.id == holder, visibility.condition())
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else {name: value for name, value in row.items() if name != "_account_id"}


def read_user(connection: Connection, caller: Caller, user_id: int) -> dict[str, Any]:
    """Return one live user with the same fields as in lists."""
    row = connection.execute(_query(caller).where(users.c.id == user_id)).mappings().one()
    return {name: value for name, value in row.items() if name != "_account_id"}


def lock_users(connection: Connection, user_ids: Iterable[int]) -> dict[int, Row[Any]]:
    """Lock live users and return their rows by internal id. Other ids are omitted."""
    return lock_live(connection, users, user_ids)


def accounts_of(connection: Connection, user_ids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return the account id and the role id of each live user of a live account, by user id.

    Other ids are omitted.
    """
    query = (
        select(users.c.id.label("user_id"), accounts.c.id, accounts.c.role_id)
        .join(users, users.c.account_id == accounts.c.id)
        .where(id_in(users.c.id, user_ids), users.c.removed.is_(None), accounts.c.removed.is_(None))
    )
    return {row.user_id: (row.id, row.role_id) for row in connection.execute(query)}


def holders_of_names(
    connection: Connection, wanted: Collection[tuple[int, str]]
) -> dict[tuple[int, str], tuple[int, EntityRef]]:
    """Return the live users with these names in these domains, ignoring case. The caller has locked the domains.

    The keys are pairs of domain id and name in lower case; the values are the account's id and the user.
    """
    query = (
        select(users.c.id, users.c.uuid, users.c.username, users.c.account_id, accounts.c.domain_id)
        .join(accounts, accounts.c.id == users.c.account_id)
        .where(
            func.lower(users.c.username).in_({name for _, name in wanted}),
            id_in(accounts.c.domain_id, {domain_id for domain_id, _ in wanted}),
            users.c.removed.is_(None),
            accounts.c.removed.is_(None),
        )
    )
    return {
        (row.domain_id, row.username.lower()): (
            row.account_id,
            EntityRef(Entity.USER, row.id, row.uuid, row.username),
        )
        for row in connection.execute(query)
    }


def update_user(connection: Connection, user_id: int, columns: Mapping[str, Any]) -> None:
    """Update columns of a user whose row the caller has locked."""
    if columns:
        connection.execute(update(users).where(users.c.id == user_id).values(**columns))


def end_sessions(connection: Connection, user_ids: Collection[int]) -> None:
    """Delete all sessions of these users, which logs them out everywhere."""
    if user_ids:
        connection.execute(delete(sessions).where(id_in(sessions.c.user_id, user_ids)))


def remove_users(connection: Connection, user_ids: Collection[int]) -> None:
    """Mark locked users as removed, and delete their keys, sessions and passwords."""
    end_sessions(connection, user_ids)
    connection.execute(delete(api_keys).where(id_in(api_keys.c.user_id, user_ids)))
    gone = {"removed": func.now(), "password_hash": None}
    connection.execute(update(users).where(id_in(users.c.id, user_ids)).values(gone))


def replace_keys(connection: Connection, keys: Mapping[int, tuple[str, bytes]]) -> None:
    """Replace the keys of locked users by pairs of API key and encrypted secret key.

    All earlier keys become invalid.
    """
    connection.execute(delete(api_keys).where(id_in(api_keys.c.user_id, keys)))
    rows = [
        {"user_id": user_id, "api_key": api_key, "secret_key_encrypted": secret}
        for user_id, (api_key, secret) in keys.items()
    ]
    if rows:
        connection.execute(insert(api_keys).values(rows))


def holders_of_keys(connection: Connection, keys: Iterable[str]) -> dict[str, int]:
    """Return the ids of the users who have these API keys, by key."""
    query = select(api_keys.c.api_key, api_keys.c.user_id).where(api_keys.c.api_key.in_(set(keys)))
    return {row.api_key: row.user_id for row in connection.execute(query)}


def newest_keys(connection: Connection, user_id: int) -> tuple[str, bytes] | None:
    """Return the newest API key of a user and its encrypted secret key, or None if the user has no key."""
    query = select(api_keys.c.api_key, api_keys.c.secret_key_encrypted).where(api_keys.c.user_id == user_id)
    row = connection.execute(query.order_by(api_keys.c.id.desc()).limit(1)).one_or_none()
    return None if row is None else (row.api_key, row.secret_key_encrypted)


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
