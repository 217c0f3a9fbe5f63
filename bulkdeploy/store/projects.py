"""The list query of projects, with limits and totals."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, or_, select, true

from bulkdeploy.domain.accounts import AccountType, Caller, RoleType
from bulkdeploy.store.filters import Arguments, Condition, Filters, by_id, filtered, id_in, keyword, same_text
from bulkdeploy.store.listing import Page, Paging, fetch_rows
from bulkdeploy.store.resource_counters import CountedAccount, account_counters
from bulkdeploy.store.tables.accounts import accounts, domains, project_accounts, projects

ADMIN = "Admin"
"""``project_accounts.role`` of who may manage a project."""

FILTERS: Filters = {
    "id": by_id(projects.c.id),
    "name": same_text(projects.c.name),
    "displaytext": same_text(projects.c.display_text),
    "keyword": keyword(projects.c.name, projects.c.display_text),
    "state": same_text(projects.c.state),
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
) -> Page:
    """One page of projects by id.

    ``member_id`` keeps the projects of one account, ``lineage`` those of a domain, with ``recursive`` of
    the domains below it too; whatever they say, only what the caller may see.
    """
    query = filtered(_query().where(_seen_by(caller)), FILTERS, arguments)
    if member_id is not None:
        query = query.where(_has_member(member_id))
    if lineage is not None:
        place = domains.c.lineage
        query = query.where(place.startswith(lineage) if recursive else place == lineage)
    rows, count = fetch_rows(connection, query, paging)
    ids = [row.pop("_id") for row in rows]
    account_ids = [row.pop("_account_id") for row in rows]
    counters = account_counters(connection, [CountedAccount(found, AccountType.PROJECT) for found in account_ids])
    owners = _owners_of(connection, ids)
    for project_id, account_id, row in zip(ids, account_ids, rows, strict=True):
        row.update(counters[account_id])
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
    """``owner[]``: the accounts that manage each project."""
    link = project_accounts.c
    query = (
        select(link.project_id, accounts.c.name, accounts.c.uuid)
        .join(accounts, accounts.c.id == link.account_id)
        .where(id_in(link.project_id, project_ids), link.role == ADMIN)
        .order_by(link.project_id, link.account_id)
    )
    owners: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for project_id, name, uuid in connection.execute(query):
        owners[project_id].append({"account": name, "accountid": uuid})
    return owners
