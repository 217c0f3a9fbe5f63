"""What accounts own, as rows by the parameters that make it, with whose it is."""

from collections.abc import Hashable, Mapping
from typing import Any

from sqlalchemy import Connection, select

from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.database.default_rows import (
    ADMIN_ACCOUNT_ID,
    ADMIN_USERNAME,
    ROOT_DOMAIN_ID,
    SYSTEM_ACCOUNT_ID,
)
from bulkdeploy.store.entities import SOURCES
from bulkdeploy.store.live_rows import Fields
from bulkdeploy.store.tables.accounts import accounts, projects

WHOSE = ("account", "domainid", "projectid")
ADMIN = (ROOT_DOMAIN_ID, ADMIN_USERNAME, None)


def read_owned(connection: Connection, entity: Entity, fields: Fields) -> list[dict[str, Any]]:
    """Every live one of a kind, by id, whose owner is live and not the system.

    ``account`` and ``domainid``, or ``projectid``, say whose it is, and none of them where it is the default
    admin's. ``_within``: the account that owns it.
    """
    source = SOURCES[entity]
    columns = source.table.c
    query = (
        select(
            columns.id.label("_id"),
            columns.uuid.label("_uuid"),
            columns.account_id.label("_account"),
            accounts.c.name.label("account"),
            accounts.c.domain_id.label("domainid"),
            projects.c.id.label("projectid"),
            *(column.label(name) for name, column in fields.items()),
        )
        .select_from(
            source.table.join(accounts, accounts.c.id == columns.account_id).outerjoin(
                projects, projects.c.account_id == accounts.c.id
            )
        )
        .where(columns.removed.is_(None), accounts.c.removed.is_(None), accounts.c.id != SYSTEM_ACCOUNT_ID)
        .order_by(columns.id)
    )
    if source.kind is not None:
        query = query.where(columns.kind == source.kind.value)
    return [_with_owner(dict(row)) for row in connection.execute(query).mappings()]


def _with_owner(row: dict[str, Any]) -> dict[str, Any]:
    account_id = row.pop("_account")
    row["_within"] = (Entity.ACCOUNT, account_id)
    said = ("projectid",) if row["projectid"] is not None else ("account", "domainid")
    for name in WHOSE:
        if name not in said or account_id == ADMIN_ACCOUNT_ID:
            del row[name]
    return row


def owner_in(values: Mapping[str, Any]) -> Hashable:
    """Whose a thing is by its values, references as internal ids: equal for equal owners, None the default admin.

    A domain without an account says nothing.
    """
    account, project_id = values.get("account"), values.get("projectid")
    if account is None and project_id is None:
        return None
    whose = (None, None, project_id) if account is None else (values.get("domainid"), account.lower(), project_id)
    return None if whose == ADMIN else whose
