"""The visibility of owners' objects in list queries, and the columns that name an owner.

``services.ownership`` creates a ``Visibility`` from the caller and the owner parameters of a call. Queries here and
in the list modules convert it to SQL conditions.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, case, false, func, literal, or_, select, true

from bulkdeploy.domain.accounts.accounts import AccountType
from bulkdeploy.store.rows.filters import Condition
from bulkdeploy.store.tables.accounts import accounts, domains, project_accounts, projects


class ProjectScope(Enum):
    """The treatment of the objects of projects in a list: hidden, shown, or shown exclusively."""

    HIDDEN = "hidden"
    SHOWN = "shown"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class Visibility:
    """The selection of owners whose objects a list shows. Without any field set, all owners are selected.

    Attributes:
        account_id: selects the objects of this account.
        lineage: the lineage of that account's domain, or of the only domain whose objects are shown.
        recursive: also selects the subdomains of ``lineage``.
        projects: how objects of projects are treated.
        member: additionally selects the objects of every project to which this account (by id) belongs.
        closed: the ids of accounts of projects that ``member`` does not add.
        own: selects only objects that belong to the domain itself, not objects of higher domains that the domain
            may use. It is set if the call named the domain.
    """

    account_id: int | None = None
    lineage: str | None = None
    recursive: bool = False
    projects: ProjectScope = ProjectScope.SHOWN
    member: int | None = None
    closed: frozenset[int] = frozenset()
    own: bool = False

    def condition(self) -> Condition:
        """Return the SQL condition for a query that joins ``accounts`` and ``domains`` of the objects' owners."""
        base = and_(self._owner(), self._project())
        if self.member is None:
            return base
        joined = (
            select(projects.c.account_id)
            .join(project_accounts, project_accounts.c.project_id == projects.c.id)
            .where(project_accounts.c.account_id == self.member, projects.c.removed.is_(None))
        )
        if self.closed:
            joined = joined.where(projects.c.account_id.not_in(self.closed))
        return or_(base, accounts.c.id.in_(joined))

    def of_account(self, account_id: ColumnElement[int]) -> Condition:
        """Return the condition on the column of an owner's id, without joining the owners to every row.

        The selected accounts are read once. A join would look up an account for each counted row.
        """
        if self == Visibility():
            return true()
        shown = select(accounts.c.id).join(domains, domains.c.id == accounts.c.domain_id).where(self.condition())
        return account_id == func.any(func.array(shown.scalar_subquery()))

    def reaches(self, lineage: ColumnElement[str], subdomain_access: Condition) -> Condition:
        """Return the condition that the selected owners can use an object that is open to a whole domain.

        ``lineage`` is that of the domain. ``subdomain_access`` is the condition that its subdomains may use the
        object.
        """
        if self.projects is ProjectScope.ONLY:
            return false()
        if self.lineage is None:
            return true()
        mine = literal(self.lineage)
        if self.own:
            return lineage.startswith(self.lineage) if self.recursive else lineage == mine
        usable = or_(lineage == mine, and_(subdomain_access, mine.startswith(lineage)))
        return or_(usable, lineage.startswith(self.lineage)) if self.recursive else usable

    def _owner(self) -> Condition:
        if self.account_id is not None:
            return accounts.c.id == self.account_id
        if self.lineage is None:
            return true()
        if self.recursive:
            return domains.c.lineage.startswith(self.lineage)
        return domains.c.lineage == self.lineage

    def _project(self) -> Condition:
        if self.projects is ProjectScope.SHOWN:
            return true()
        is_project = accounts.c.account_type == AccountType.PROJECT
        return is_project if self.projects is ProjectScope.ONLY else ~is_project


def with_owner(rows_source: FromClause, account_id: ColumnElement[Any]) -> FromClause:
    """Return ``rows_source`` joined with the owning account, its domain, and its project if it has one."""
    return (
        rows_source.join(accounts, accounts.c.id == account_id)
        .join(domains, domains.c.id == accounts.c.domain_id)
        .outerjoin(projects, projects.c.account_id == accounts.c.id)
    )


def owner_columns() -> tuple[ColumnElement[Any], ...]:
    """Return the columns ``account``, ``domainid``, ``domain``, ``domainpath``, ``project`` and ``projectid``.

    ``account`` is NULL for objects of projects.
    """
    return (
        account_name(),
        domains.c.uuid.label("domainid"),
        domains.c.name.label("domain"),
        domains.c.path.label("domainpath"),
        projects.c.name.label("project"),
        projects.c.uuid.label("projectid"),
    )


def account_name() -> ColumnElement[Any]:
    """Return the column ``account``, the owner's name. It is NULL for a project's account."""
    return case((accounts.c.account_type != AccountType.PROJECT, accounts.c.name)).label("account")


def within(caller_lineage: str, lineage: ColumnElement[str]) -> Condition:
    """Return the condition that the domain with ``lineage`` is the caller's domain or above it.

    Objects that are open to such a domain are open to the caller.
    """
    return literal(caller_lineage).startswith(lineage)


def open_to_domain(domain_ids: ColumnElement[Any], caller_lineage: str, *, below: bool) -> Condition:
    """Return the condition that an ARRAY of domain ids is empty or has a domain at or above the caller's.

    With ``below``, a subdomain of the caller's also matches, as domain admins see these.
    """
    mine = within(caller_lineage, domains.c.lineage)
    if below:
        mine = or_(mine, domains.c.lineage.startswith(caller_lineage))
    named = select(1).select_from(domains).where(domains.c.id == func.any(domain_ids), mine)
    return or_(func.cardinality(domain_ids) == 0, named.exists())
