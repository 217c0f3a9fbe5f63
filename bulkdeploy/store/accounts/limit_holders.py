"""Who a limit belongs to, as limit rows name them."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from bulkdeploy.domain.accounts import Owner
from bulkdeploy.store.accounts.resource_limits import Limits, OwnerKind, read_limits
from bulkdeploy.store.tables.accounts import accounts, domains, projects
from bulkdeploy.store.visibility import owner_columns


@dataclass(frozen=True, slots=True)
class LimitHolder:
    """An account (or the one behind a project) or a domain; ``names`` are its fields on the wire."""

    kind: OwnerKind
    id: int
    lineage: str
    owner: Owner | None
    names: dict[str, Any]


def account_holder(connection: Connection, owner: Owner) -> LimitHolder:
    """An account or a project as the holder of limits."""
    tables = accounts.join(domains, domains.c.id == accounts.c.domain_id).outerjoin(
        projects, projects.c.account_id == accounts.c.id
    )
    query = select(*owner_columns()).select_from(tables).where(accounts.c.id == owner.account_id)
    names = dict(connection.execute(query).mappings().one())
    return LimitHolder("account", owner.account_id, owner.lineage, owner, names)


def domain_holder(connection: Connection, domain_id: int) -> LimitHolder:
    """A domain as the holder of limits."""
    domain = domains.c
    query = select(
        domain.lineage, domain.uuid.label("domainid"), domain.name.label("domain"), domain.path.label("domainpath")
    ).where(domain.id == domain_id)
    names = dict(connection.execute(query).mappings().one())
    return LimitHolder("domain", domain_id, names.pop("lineage"), None, names)


def limits_of(connection: Connection, holder: LimitHolder) -> Limits:
    """The effective limit of every resource type, in the unit that counts are kept in."""
    if holder.owner is None:
        return read_limits(connection, [], [holder.lineage]).of_domain(holder.lineage)
    return read_limits(connection, [holder.id], []).of_account(holder.id, holder.owner.account_type)
