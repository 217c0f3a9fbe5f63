"""Limits of what is counted when it is asked for, and not kept as a count: networks, templates, snapshots.

Who adds one holds an advisory lock of the account and of each domain above it, counts, and adds: two calls at
once can not both pass. ``resource_counts`` does the same for what deployments use by the thousand.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import BigInteger, ColumnElement, Connection, FromClause, cast, func, select

from bulkdeploy.domain.accounts import Owner
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.store.accounts.resource_counts import limit_exceeded
from bulkdeploy.store.accounts.resource_limits import domain_ids, limits_binding, read_limits
from bulkdeploy.store.filters import id_in
from bulkdeploy.store.locks import Lock, take_locks
from bulkdeploy.store.tables.accounts import accounts, domains, projects
from bulkdeploy.store.tables.networks import networks
from bulkdeploy.store.tables.offerings import templates
from bulkdeploy.store.tables.virtual_machines import vm_snapshots

LIVE: Mapping[ResourceType, FromClause] = {
    ResourceType.NETWORK: networks,
    ResourceType.PROJECT: projects,
    ResourceType.TEMPLATE: templates,
    ResourceType.SECONDARY_STORAGE: templates,
    ResourceType.SNAPSHOT: select(vm_snapshots).where(vm_snapshots.c.volume_id.is_not(None)).subquery("snapshots"),
}
"""Where what is counted so is."""


def lock_limits(connection: Connection, owners: Sequence[Owner]) -> None:
    """Wait until no other transaction adds what limits count to these accounts and the domains above them."""
    below_root = {domain_id for owner in owners for domain_id in domain_ids(owner.lineage)[1:]}
    take_locks(connection, Lock.DOMAIN_LIMITS, below_root)
    take_locks(connection, Lock.ACCOUNT_LIMITS, {owner.account_id for owner in owners})


def require_within_limits(
    connection: Connection, owners: Sequence[Owner], kind: ResourceType, *, amount: int = 1
) -> None:
    """Refuse so much more of this kind for each of these owners where one, or a domain above it, may not have it.

    Who is named twice gets two. Others who add for them wait until the transaction ends.

    Raises:
        ResourceLimitExceeded: names the first limit passed, account before domains.
    """
    bound = [owner for owner in owners if not owner.is_root_admin]
    if not bound:
        return
    account_ids = {owner.account_id for owner in bound}
    below_root = {domain_id for owner in bound for domain_id in domain_ids(owner.lineage)[1:]}
    lock_limits(connection, bound)
    book = read_limits(connection, account_ids, {owner.lineage for owner in bound})
    used = count_live(connection, kind, account_ids, below_root)
    for owner in bound:
        for holder, limits in limits_binding(book, owner).items():
            most = limits.get(kind, UNLIMITED)
            if most != UNLIMITED and used[holder] + amount > most:
                raise limit_exceeded(connection, owner, holder, kind, most, used[holder], amount)
            used[holder] += amount


def measure(kind: ResourceType) -> ColumnElement[int]:
    """Return what is counted of LIVE rows: their number, or the bytes of the files that were fetched."""
    if kind is ResourceType.SECONDARY_STORAGE:
        return cast(func.coalesce(func.sum(templates.c.fetched_bytes), 0), BigInteger)
    return func.count()


def count_live(
    connection: Connection, kind: ResourceType, account_ids: Iterable[int], of_domains: Iterable[int]
) -> Counter[tuple[str, int]]:
    """How much of this kind accounts have, and domains with those below."""
    table, measured = LIVE[kind], measure(kind)
    above = domains.alias("above")
    live = table.c.removed.is_(None)
    of_accounts = select(table.c.account_id, measured).where(live, id_in(table.c.account_id, account_ids))
    of_domains_below = (
        select(above.c.id, measured)
        .select_from(table)
        .join(accounts, accounts.c.id == table.c.account_id)
        .join(domains, domains.c.id == accounts.c.domain_id)
        .join(above, domains.c.lineage.startswith(above.c.lineage))
        .where(live, id_in(above.c.id, of_domains))
    )
    found = Counter[tuple[str, int]]()
    for holder, query, column in (
        ("account", of_accounts, table.c.account_id),
        ("domain", of_domains_below, above.c.id),
    ):
        found.update({(holder, row[0]): row[1] for row in connection.execute(query.group_by(column))})
    return found
