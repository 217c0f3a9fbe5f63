"""The holders of limits (accounts and domains), as rows of limits identify them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.store.accounts.resource_limits import Limits, OwnerKind, read_limits
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.rows.visibility import owner_columns
from bulkdeploy.store.tables.accounts import accounts, domains, projects


@dataclass(frozen=True, slots=True)
class LimitHolder:
    """An account, the account of a project, or a domain that has limits.

    ``owner`` is None for a domain. ``names`` are the response fields that identify the holder.
    """

    kind: OwnerKind
    id: int
    lineage: str
    owner: Owner | None
    names: dict[str, Any]


def account_holder(connection: Connection, owner: Owner) -> LimitHolder:
    """Return an account or a project as the holder of limits."""
    return account_holders(connection, [owner])[owner.account_id]


def account_holders(connection: Connection, owners: Iterable[Owner]) -> dict[int, LimitHolder]:
    """Return accounts and projects as holders of limits, by account id."""
    by_id = {owner.account_id: owner for owner in owners}
    tables = accounts.join(domains, domains.c.id == accounts.c.domain_id).outerjoin(
        projects, projects.c.account_id == accounts.c.id
    )
    query = select(accounts.c.id.label("_id"), *owner_columns()).select_from(tables)
    rows = connection.execute(query.where(id_in(accounts.c.id, by_id))).mappings() if by_id else ()
    holders = {}
    for row in rows:
        names = dict(row)
        owner = by_id[names.pop("_id")]
        holders[owner.account_id] = LimitHolder("account", owner.account_id, owner.lineage, owner, names)
    return holders


def domain_holder(connection: Connection, domain_id: int) -> LimitHolder:
    """Return a domain as the holder of limits."""
    return domain_holders(connection, [domain_id])[domain_id]


def domain_holders(connection: Connection, domain_ids: Collection[int]) -> dict[int, LimitHolder]:
    """Return domains as holders of limits, by internal id. Unknown ids are omitted."""
    domain = domains.c
    query = select(
        domain.id,
        domain.lineage,
        domain.uuid.label("domainid"),
        domain.name.label("domain"),
        domain.path.label("domainpath"),
    ).where(id_in(domain.id, domain_ids))
    holders = {}
    for row in connection.execute(query).mappings() if domain_ids else ():
        names = dict(row)
        holder_id = names.pop("id")
        holders[holder_id] = LimitHolder("domain", holder_id, names.pop("lineage"), None, names)
    return holders


def limits_of(connection: Connection, holder: LimitHolder) -> Limits:
    """Return the effective limit of the holder for every resource type, in the unit of the stored counts."""
    if holder.owner is None:
        return read_limits(connection, [], [holder.lineage]).of_domain(holder.lineage)
    return read_limits(connection, [holder.id], []).of_account(holder.id, holder.owner.account_type)
