"""Accounts as owners: looked up by id, by name in a domain, or as the account behind a project."""

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import Connection, Select, func, select

from bulkdeploy.domain.accounts import AccountState, AccountType, Owner
from bulkdeploy.store.filters import id_in
from bulkdeploy.store.tables.accounts import accounts, domains, project_accounts, projects


def owners_by_id(connection: Connection, account_ids: Iterable[int]) -> dict[int, Owner]:
    """The owners with these internal account ids, removed accounts too; unknown ids are left out."""
    query = _owners().where(id_in(accounts.c.id, account_ids))
    return {owner.account_id: owner for owner in _read(connection, query)}


def owner_by_name(connection: Connection, name: str, domain_id: int) -> Owner | None:
    """The live account of this name (in any case) in a domain, or None; project accounts have no name to give."""
    query = _owners().where(
        func.lower(accounts.c.name) == name.lower(),
        accounts.c.domain_id == domain_id,
        accounts.c.account_type != AccountType.PROJECT,
        accounts.c.removed.is_(None),
    )
    return next(iter(_read(connection, query)), None)


def lock_account(connection: Connection, account_id: int) -> AccountState | None:
    """The state of an account, which keeps it until the end of the transaction; None: it was deleted.

    Others may do the same at once; who deletes or disables the account waits.
    """
    query = select(accounts.c.state).where(accounts.c.id == account_id, accounts.c.removed.is_(None))
    state = connection.execute(query.with_for_update(read=True)).scalar()
    return None if state is None else AccountState(state)


def project_owner(connection: Connection, project_id: int) -> Owner | None:
    """The account that a live project's things belong to, or None."""
    query = (
        _owners()
        .join(projects, projects.c.account_id == accounts.c.id)
        .where(projects.c.id == project_id, projects.c.removed.is_(None))
    )
    return next(iter(_read(connection, query)), None)


def is_project_member(connection: Connection, project_account_id: int, account_id: int) -> bool:
    """Whether an account belongs to the project that owns through ``project_account_id``."""
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
    """The uuid and the lineage (internal ids from ROOT, ``/1/4/9/``) of an existing domain."""
    row = connection.execute(select(domains.c.uuid, domains.c.lineage).where(domains.c.id == domain_id)).one()
    return row.uuid, row.lineage


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
