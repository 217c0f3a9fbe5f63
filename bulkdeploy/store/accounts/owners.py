"""Accounts as owners, found by id, by name in a domain, or as the account of a project."""

from collections.abc import Collection, Iterable
from uuid import UUID

from sqlalchemy import Connection, Select, Text, any_, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from bulkdeploy.domain.accounts.accounts import AccountState, AccountType, Owner
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.accounts import accounts, domains, project_accounts, projects


def owners_by_id(connection: Connection, account_ids: Iterable[int]) -> dict[int, Owner]:
    """Return the owners with these internal account ids, removed accounts too; unknown ids are left out."""
    query = _owners().where(id_in(accounts.c.id, account_ids))
    return {owner.account_id: owner for owner in _read(connection, query)}


def owners_by_name(connection: Connection, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Owner]:
    """Return live accounts by lower-case name and domain id. Accounts of projects and unknown names are omitted."""
    wanted = {(name.lower(), domain_id) for name, domain_id in names}
    query = _owners().where(
        func.lower(accounts.c.name) == any_(bindparam("names", [name for name, _ in wanted], ARRAY(Text))),
        id_in(accounts.c.domain_id, {domain_id for _, domain_id in wanted}),
        accounts.c.account_type != AccountType.PROJECT,
        accounts.c.removed.is_(None),
    )
    found = _read(connection, query) if wanted else []
    return {(owner.account_name.lower(), owner.domain_id): owner for owner in found}


def lock_accounts(connection: Connection, account_ids: Iterable[int]) -> dict[int, AccountState]:
    """Lock the live ones of these accounts until the transaction ends, and return their states by id.

    The lock is shared: other transactions may take it as well, but they cannot delete or disable the accounts.
    """
    query = select(accounts.c.id, accounts.c.state).where(
        id_in(accounts.c.id, account_ids), accounts.c.removed.is_(None)
    )
    rows = connection.execute(query.order_by(accounts.c.id).with_for_update(read=True))
    return {row.id: AccountState(row.state) for row in rows}


def project_owner(connection: Connection, project_id: int) -> Owner | None:
    """Return the account that owns the objects of a live project, or None if there is no such project."""
    query = (
        _owners()
        .join(projects, projects.c.account_id == accounts.c.id)
        .where(projects.c.id == project_id, projects.c.removed.is_(None))
    )
    return next(iter(_read(connection, query)), None)


def is_project_member(connection: Connection, project_account_id: int, account_id: int) -> bool:
    """Return whether an account belongs to the project whose own account is ``project_account_id``."""
    query = (
        select(project_accounts.c.project_id)
        .join(projects, projects.c.id == project_accounts.c.project_id)
        .where(
            projects.c.account_id == project_account_id,
            projects.c.removed.is_(None),
            project_accounts.c.account_id == account_id,
        )
    )
    return connection.execute(query.limit(1)).first() is not None


def domain_place(connection: Connection, domain_id: int) -> tuple[UUID, str]:
    """Return the uuid and the lineage of an existing domain."""
    return domain_places(connection, [domain_id])[domain_id]


def domain_places(connection: Connection, domain_ids: Collection[int]) -> dict[int, tuple[UUID, str]]:
    """Return the uuids and the lineages (such as ``/1/4/9/``) of existing domains by internal id."""
    if not domain_ids:
        return {}
    query = select(domains.c.id, domains.c.uuid, domains.c.lineage).where(id_in(domains.c.id, domain_ids))
    return {row.id: (row.uuid, row.lineage) for row in connection.execute(query)}


def _owners() -> Select[tuple[object, ...]]:
    return select(
        accounts.c.id.label("account_id"),
        accounts.c.uuid.label("account_uuid"),
        accounts.c.name.label("account_name"),
        accounts.c.account_type,
        accounts.c.domain_id,
        domains.c.uuid.label("domain_uuid"),
        domains.c.lineage,
    ).join(domains, domains.c.id == accounts.c.domain_id)


def _read(connection: Connection, query: Select[tuple[object, ...]]) -> list[Owner]:
    return [
        Owner(**{**row, "account_type": AccountType(row["account_type"])})
        for row in connection.execute(query).mappings()
    ]
