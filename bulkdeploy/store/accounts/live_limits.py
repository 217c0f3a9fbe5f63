"""Limits of resources that are counted on request instead of by a stored count: networks, templates, snapshots.

A transaction that adds such a resource first acquires an advisory lock of the account and of each domain above it,
then counts, then adds. Therefore two concurrent calls cannot both pass the same limit. ``resource_counts`` does the
same for the resources that large deployments use.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Select,
    cast,
    func,
    literal,
    select,
    union_all,
)

from bulkdeploy.domain.accounts.accounts import Owner
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.store.accounts.resource_counts import limit_exceeded
from bulkdeploy.store.accounts.resource_limits import domain_ids, limits_binding, read_limits
from bulkdeploy.store.locks import Lock, take_locks
from bulkdeploy.store.rows.filters import id_in
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
    """Lock the limits of these accounts and of the domains above them until the transaction ends.

    Other transactions that add limited objects for these owners wait meanwhile.
    """
    below_root = {domain_id for owner in owners for domain_id in domain_ids(owner.lineage)[1:]}
    take_locks(connection, Lock.DOMAIN_LIMITS, below_root)
    take_locks(connection, Lock.ACCOUNT_LIMITS, {owner.account_id for owner in owners})


def require_within_limits(
    connection: Connection, owners: Sequence[Owner], kind: ResourceType, *, amount: int = 1
) -> None:
    """Reject ``amount`` more objects of a kind per owner if a limit forbids them.

    The limits are those of the owner and of the domains above it. An owner that is listed twice gets twice the
    amount. Other transactions that add objects for the same owners wait until this transaction ends.

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
    used = count_live(connection, [kind], account_ids, below_root)
    for owner in bound:
        for holder, limits in limits_binding(book, owner).items():
            most = limits.get(kind, UNLIMITED)
            now = used[kind, *holder]
            if most != UNLIMITED and now + amount > most:
                raise limit_exceeded(connection, owner, holder, kind, most, now, amount)
            used[kind, *holder] += amount


def measure(kind: ResourceType) -> ColumnElement[int]:
    """Return the expression that counts a resource: the number of rows, or the bytes of fetched files."""
    if kind is ResourceType.SECONDARY_STORAGE:
        return cast(func.coalesce(func.sum(templates.c.fetched_bytes), 0), BigInteger)
    return func.count()


def count_live(
    connection: Connection, kinds: Iterable[ResourceType], account_ids: Collection[int], of_domains: Collection[int]
) -> Counter[tuple[ResourceType, str, int]]:
    """Return how much of each resource type accounts and domains use, in one statement.

    The keys are the type, ``"account"`` or ``"domain"``, and the internal id. The use of a domain includes its
    subdomains.
    """
    parts: list[Select[Any]] = []
    above = domains.alias("above")
    for kind in kinds:
        table, measured = LIVE[kind], measure(kind)
        live, label = table.c.removed.is_(None), literal(kind.value, Integer)
        if account_ids:
            of_accounts = select(label, literal("account"), table.c.account_id, measured)
            of_accounts = of_accounts.where(live, id_in(table.c.account_id, account_ids))
            parts.append(of_accounts.group_by(table.c.account_id))
        if of_domains:
            of_domains_below = (
                select(label, literal("domain"), above.c.id, measured)
                .select_from(table)
                .join(accounts, accounts.c.id == table.c.account_id)
                .join(domains, domains.c.id == accounts.c.domain_id)
                .join(above, domains.c.lineage.startswith(above.c.lineage))
                .where(live, id_in(above.c.id, of_domains))
            )
            parts.append(of_domains_below.group_by(above.c.id))
    if not parts:
        return Counter()
    rows = connection.execute(union_all(*parts))
    return Counter({(ResourceType(kind), holder, holder_id): amount for kind, holder, holder_id, amount in rows})
