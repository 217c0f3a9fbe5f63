"""Rows of network permissions, which allow accounts to have VMs in networks of other accounts."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Select, delete, select
from sqlalchemy.dialects.postgresql import insert as upsert

from bulkdeploy.domain.accounts.accounts import AccountType
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.rows.visibility import account_name
from bulkdeploy.store.tables.accounts import accounts, domains, projects
from bulkdeploy.store.tables.networks import network_permissions, networks

PERMISSION = network_permissions.c


def list_permissions(connection: Connection, network_id: int) -> list[Mapping[str, Any]]:
    """Return the permissions of a network as response fields, ordered by account."""
    query: Select[Any] = (
        select(
            networks.c.uuid.label("networkid"),
            account_name(),
            accounts.c.uuid.label("accountid"),
            domains.c.uuid.label("domainid"),
            domains.c.name.label("domain"),
            projects.c.uuid.label("projectid"),
            projects.c.name.label("project"),
        )
        .select_from(network_permissions)
        .join(networks, networks.c.id == PERMISSION.network_id)
        .join(accounts, accounts.c.id == PERMISSION.account_id)
        .join(domains, domains.c.id == accounts.c.domain_id)
        .outerjoin(projects, projects.c.account_id == accounts.c.id)
        .where(PERMISSION.network_id == network_id)
        .order_by(accounts.c.id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def accounts_by_uuid(connection: Connection, uuids: Iterable[str], domain_id: int) -> dict[str, int]:
    """Return the internal ids of the live accounts of a domain with these uuids, by uuid.

    Accounts of projects and unknown uuids are omitted.
    """
    query = select(accounts.c.uuid, accounts.c.id).where(
        accounts.c.uuid.in_(list(uuids)),
        accounts.c.domain_id == domain_id,
        accounts.c.account_type != AccountType.PROJECT,
        accounts.c.removed.is_(None),
    )
    return {str(row.uuid): row.id for row in connection.execute(query)}


def add_permissions(connection: Connection, network_id: int, account_ids: Iterable[int]) -> None:
    """Allow accounts to use a network. Existing permissions are kept."""
    rows = [{"network_id": network_id, "account_id": account_id} for account_id in account_ids]
    if rows:
        connection.execute(upsert(network_permissions).on_conflict_do_nothing(), rows)


def remove_permissions(
    connection: Connection, network_ids: Collection[int], account_ids: Collection[int] | None = None
) -> None:
    """Remove the permissions of accounts to use networks.

    If ``account_ids`` is None, all permissions are removed.
    """
    statement = delete(network_permissions).where(id_in(PERMISSION.network_id, network_ids))
    if account_ids is not None:
        statement = statement.where(id_in(PERMISSION.account_id, account_ids))
    connection.execute(statement)
