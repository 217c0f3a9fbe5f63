"""Limits of what is counted when it is asked for, and not kept as a count: networks, templates.

Who adds one holds an advisory lock of the account and of each domain above it, counts, and adds: two calls at
once can not both pass. ``resource_counts`` does the same for what deployments use by the thousand.
"""

from sqlalchemy import Connection, func, select

from bulkdeploy.domain.accounts import Owner
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.store.accounts.resource_counts import limit_exceeded
from bulkdeploy.store.accounts.resource_limits import domain_ids, effective_limit_rows
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.tables.accounts import accounts, domains
from bulkdeploy.store.tables.networks import networks
from bulkdeploy.store.tables.offerings import templates

_TABLES = {ResourceType.NETWORK: networks, ResourceType.TEMPLATE: templates}


def require_within_limits(connection: Connection, owner: Owner, kind: ResourceType) -> None:
    """Refuse one more of this kind where the account or a domain above it has as many as it may.

    Others who add for them wait until the transaction ends.

    Raises:
        ResourceLimitExceeded: names the first limit passed, account before domains.
    """
    if owner.is_root_admin:
        return
    for domain_id in domain_ids(owner.lineage)[1:]:
        take_lock(connection, Lock.DOMAIN_LIMITS, domain_id)
    take_lock(connection, Lock.ACCOUNT_LIMITS, owner.account_id)
    for holder, limits in effective_limit_rows(connection, owner).items():
        most = limits.get(kind, UNLIMITED)
        if most == UNLIMITED:
            continue
        used = _count(connection, kind, holder)
        if used + 1 > most:
            raise limit_exceeded(connection, owner, holder, kind, most, used, 1)


def _count(connection: Connection, kind: ResourceType, holder: tuple[str, int]) -> int:
    table = _TABLES[kind]
    query = select(func.count()).select_from(table).where(table.c.removed.is_(None))
    if holder[0] == "account":
        query = query.where(table.c.account_id == holder[1])
    else:
        above = select(domains.c.lineage).where(domains.c.id == holder[1]).scalar_subquery()
        query = query.where(
            table.c.account_id.in_(
                select(accounts.c.id)
                .join(domains, domains.c.id == accounts.c.domain_id)
                .where(domains.c.lineage.startswith(above))
            )
        )
    return connection.execute(query).scalar_one()
