"""Rows of projects and their members: the list queries with limits and totals, inserts and updates."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, or_, select, text, true, update
from sqlalchemy.dialects.postgresql import insert as upsert

from bulkdeploy.domain.accounts.accounts import PROJECT_ADMIN, PROJECT_REGULAR, AccountType, Caller, RoleType
from bulkdeploy.store.accounts.resource_counters import CountedAccount, account_counters
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.rows.filters import Arguments, Condition, Filters, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.rows.listing import Page, Paging, fetch_page, fetch_rows
from bulkdeploy.store.rows.live_rows import lock_live
from bulkdeploy.store.tables.accounts import accounts, domains, project_accounts, projects, roles, users


def _has_user(name: str) -> Condition:
    link = project_accounts.c
    found = (
        select(1)
        .join(users, users.c.account_id == link.account_id)
        .where(link.project_id == projects.c.id, func.lower(users.c.username) == name.lower())
    )
    return found.where(users.c.removed.is_(None)).exists()


FILTERS: Filters = {
    "id": by_id(projects.c.id),
    "name": same_text(projects.c.name),
    "displaytext": same_text(projects.c.display_text),
    "keyword": keyword(projects.c.name, projects.c.display_text),
    "state": same_text(projects.c.state),
    "username": _has_user,
}


def list_projects(
    connection: Connection,
    caller: Caller,
    arguments: Arguments,
    paging: Paging,
    *,
    member_id: int | None,
    lineage: str | None,
    recursive: bool,
    with_counters: bool,
) -> Page:
    """Return one page of projects that the caller may see, ordered by id.

    ``member_id`` keeps the projects of one account. ``lineage`` keeps the projects of a domain, and with
    ``recursive`` also those of its subdomains. ``with_counters`` adds limits and totals, which are the most
    expensive part.
    """
    query = filtered(_query().where(_seen_by(caller)), FILTERS, arguments)
    if member_id is not None:
        query = query.where(_has_member(member_id))
    if lineage is not None:
        place = domains.c.lineage
        query = query.where(place.startswith(lineage) if recursive else place == lineage)
    return _page(connection, query, paging, with_counters=with_counters)


def read_project(connection: Connection, project_id: int) -> dict[str, Any]:
    """Return one live project with the same fields as in lists."""
    query = _query().where(projects.c.id == project_id)
    return dict(_page(connection, query, Paging(limit=1), with_counters=True).rows[0])


def list_members(connection: Connection, project_id: int, arguments: Arguments, paging: Paging) -> Page:
    """Return one page of the accounts of a project, by id."""
    link = project_accounts.c
    query = (
        select(
            projects.c.uuid.label("projectid"),
            projects.c.name.label("project"),
            accounts.c.uuid.label("accountid"),
            accounts.c.name.label("account"),
            accounts.c.account_type.label("accounttype"),
            link.role,
            roles.c.uuid.label("projectroleid"),
            domains.c.uuid.label("domainid"),
            domains.c.name.label("domain"),
        )
        .join(projects, projects.c.id == link.project_id)
        .join(accounts, accounts.c.id == link.account_id)
        .join(domains, domains.c.id == accounts.c.domain_id)
        .outerjoin(roles, roles.c.id == link.role_id)
        .where(link.project_id == project_id, accounts.c.removed.is_(None))
        .order_by(accounts.c.id)
    )
    filters: Filters = {
        "account": same_text(accounts.c.name),
        "role": same_text(link.role),
        "projectroleid": by_id(link.role_id),
        "keyword": keyword(accounts.c.name),
    }
    return fetch_page(connection, filtered(query, filters, arguments), paging)


def domains_of(connection: Connection, project_ids: Collection[int]) -> dict[int, int]:
    """Return the internal ids of the projects' domains, by the internal id of the project."""
    query = select(projects.c.id, projects.c.domain_id).where(id_in(projects.c.id, project_ids))
    return {row.id: row.domain_id for row in connection.execute(query)}


def lock_projects(connection: Connection, project_ids: Collection[int]) -> dict[int, Row[Any]]:
    """Lock live projects, after their domains, and return their rows by internal id. Other ids are omitted."""
    return lock_live(connection, projects, project_ids)


def managed_by(connection: Connection, account_id: int, project_ids: Collection[int]) -> set[int]:
    """Return the ids of the projects that an account manages, out of ``project_ids``."""
    link = project_accounts.c
    query = select(link.project_id).where(
        id_in(link.project_id, project_ids), link.account_id == account_id, link.role == PROJECT_ADMIN
    )
    return set(connection.execute(query).scalars())


def is_project_name_taken(connection: Connection, name: str, domain_id: int) -> bool:
    """Return whether a live project of the domain has this name, ignoring case.

    The caller has locked the domain.
    """
    query = select(projects.c.id).where(
        func.lower(projects.c.name) == name.lower(), projects.c.domain_id == domain_id, projects.c.removed.is_(None)
    )
    return connection.execute(query.limit(1)).first() is not None


def insert_project(connection: Connection, columns: Mapping[str, Any]) -> int:
    """Insert a new project and return its id."""
    return int(connection.execute(insert(projects).values(**columns).returning(projects.c.id)).scalar_one())


def update_project(connection: Connection, project_id: int, columns: Mapping[str, Any]) -> None:
    """Update columns of a project whose row the caller has locked."""
    if columns:
        connection.execute(update(projects).where(projects.c.id == project_id).values(**columns))


def roles_in_project(connection: Connection, project_id: int) -> dict[int, str]:
    """Return the role of each account in a project, by the id of the account."""
    query = select(project_accounts.c.account_id, project_accounts.c.role).where(
        project_accounts.c.project_id == project_id
    )
    return {row.account_id: row.role for row in connection.execute(query)}


def set_member(
    connection: Connection, project_id: int, account_id: int, role: str, *, role_id: int | None = None
) -> None:
    """Add an account to a locked project with a role of the project, or make a member Admin or Regular."""
    statement = upsert(project_accounts).values(
        project_id=project_id, account_id=account_id, role=role, role_id=role_id
    )
    connection.execute(
        statement.on_conflict_do_update(index_elements=["project_id", "account_id"], set_={"role": role})
    )


def demote_others(connection: Connection, project_id: int, account_id: int) -> None:
    """Make one account the only manager of a locked project; all other members become regular members."""
    others = project_accounts.c.account_id != account_id
    mine = project_accounts.c.project_id == project_id
    connection.execute(update(project_accounts).where(mine, others).values(role=PROJECT_REGULAR))


def remove_member(connection: Connection, project_id: int, account_id: int) -> None:
    """Remove an account from a locked project."""
    link = project_accounts.c
    connection.execute(delete(project_accounts).where(link.project_id == project_id, link.account_id == account_id))


_OWNS = text(
    "SELECT a.id,"
    " (SELECT count(*) FROM virtual_machines WHERE account_id = a.id AND removed IS NULL) AS vms,"
    " (SELECT count(*) FROM volumes WHERE account_id = a.id AND removed IS NULL) AS volumes,"
    " (SELECT count(*) FROM networks WHERE account_id = a.id AND removed IS NULL) AS networks,"
    " (SELECT count(*) FROM templates WHERE account_id = a.id AND removed IS NULL) AS templates"
    " FROM unnest(CAST(:ids AS bigint[])) AS a (id)"
)


def things_of_projects(connection: Connection, account_ids: Collection[int]) -> dict[int, dict[str, int]]:
    """Return how many VMs, volumes, networks and templates the accounts of projects own, by account id and kind.

    Kinds without objects are omitted.
    """
    rows = connection.execute(_OWNS, {"ids": int_array(account_ids)}).mappings()
    return {row["id"]: {kind: count for kind, count in row.items() if count and kind != "id"} for row in rows}


_MANAGED = text(
    "SELECT count(*) FROM project_accounts m JOIN projects p ON p.id = m.project_id"
    " WHERE m.account_id = :account AND m.role = 'Admin' AND p.removed IS NULL"
)
_IN_DOMAIN = text(
    "SELECT count(*) FROM projects p JOIN domains d ON d.id = p.domain_id JOIN domains up ON up.id = :domain"
    " WHERE p.removed IS NULL AND d.lineage LIKE up.lineage || '%'"
)


def count_projects(connection: Connection, owner_kind: str, owner_id: int) -> int:
    """Return the number of live projects that an account manages, or that are in a domain and its subdomains.

    ``owner_kind`` is ``"account"`` or ``"domain"``.
    """
    if owner_kind == "account":
        return int(connection.execute(_MANAGED, {"account": owner_id}).scalar_one())
    return int(connection.execute(_IN_DOMAIN, {"domain": owner_id}).scalar_one())


def _page(connection: Connection, query: Select[Any], paging: Paging, *, with_counters: bool) -> Page:
    rows, count = fetch_rows(connection, query, paging)
    ids = [row.pop("_id") for row in rows]
    account_ids = [row.pop("_account_id") for row in rows]
    counted = [CountedAccount(found, AccountType.PROJECT) for found in account_ids]
    counters = account_counters(connection, counted) if with_counters else {}
    owners = _owners_of(connection, ids)
    for project_id, account_id, row in zip(ids, account_ids, rows, strict=True):
        row.update(counters.get(account_id, {}))
        row["owner"] = owners.get(project_id, [])
    return Page(rows, count)


def _query() -> Select[Any]:
    project = projects.c
    return (
        select(
            project.id.label("_id"),
            project.account_id.label("_account_id"),
            project.uuid.label("id"),
            project.name,
            project.display_text.label("displaytext"),
            project.state,
            project.created,
            domains.c.uuid.label("domainid"),
            domains.c.name.label("domain"),
            accounts.c.name.label("projectaccountname"),
        )
        .select_from(
            projects.join(domains, domains.c.id == project.domain_id).join(
                accounts, accounts.c.id == project.account_id
            )
        )
        .where(project.removed.is_(None))
        .order_by(project.id)
    )


def _seen_by(caller: Caller) -> Condition:
    if caller.is_root_admin:
        return true()
    joined = _has_member(caller.owner.account_id)
    if caller.role_type is RoleType.USER:
        return joined
    return or_(joined, domains.c.lineage.startswith(caller.owner.lineage))


def _has_member(account_id: int) -> Condition:
    link = project_accounts.c
    found = select(1).where(link.project_id == projects.c.id, link.account_id == account_id)
    return found.exists()


def _owners_of(connection: Connection, project_ids: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the response field ``owner`` of each project, by id: the accounts that manage the project."""
    link = project_accounts.c
    query = (
        select(link.project_id, accounts.c.name, accounts.c.uuid)
        .join(accounts, accounts.c.id == link.account_id)
        .where(id_in(link.project_id, project_ids), link.role == PROJECT_ADMIN)
        .order_by(link.project_id, link.account_id)
    )
    owners: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for project_id, name, uuid in connection.execute(query):
        owners[project_id].append({"account": name, "accountid": uuid})
    return owners
