"""The stored resource counts of accounts and domains, and the check of requests against the limits.

An owner has a count row for each resource type of which something was counted. The rows of the account and of every
domain of its lineage, including ROOT, change together. Limits apply to the account and to each domain below ROOT;
root admin accounts are never limited (cloudstack-protocol.md 7.2).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, text

from bulkdeploy.domain.accounts.accounts import AccountType, Owner
from bulkdeploy.domain.errors import ResourceLimitExceeded
from bulkdeploy.domain.resources import UNLIMITED, ResourceAmounts, ResourceType
from bulkdeploy.domain.units import GIB
from bulkdeploy.store.accounts.resource_limits import effective_limit_rows
from bulkdeploy.store.database.engine import TransactionConflict

CHECK_ORDER = (
    ResourceType.USER_VM,
    ResourceType.CPU,
    ResourceType.MEMORY,
    ResourceType.VOLUME,
    ResourceType.PRIMARY_STORAGE,
)


def check_limits(connection: Connection, owner: Owner, amounts: ResourceAmounts) -> None:
    """Reject amounts that would exceed a limit of the account or of a domain above it.

    This check reads without locks. ``add_amounts`` checks the limits again when it writes.

    Raises:
        ResourceLimitExceeded: names the first exceeded limit; the account's limits are checked before those of
            domains.
    """
    wanted = amounts.by_type()
    for holder, kind, most, used in _limits(connection, owner, wanted):
        if used + wanted[kind] > most:
            raise limit_exceeded(connection, owner, holder, kind, most, used, wanted[kind])


def most_within_limits(
    connection: Connection, owner: Owner, each: ResourceAmounts, count: int, beside: ResourceAmounts | None = None
) -> int:
    """Return how many of ``count`` equal objects the limits of the account and of its domains allow.

    This function locks nothing. ``beside`` are other amounts that the owner gets in the same request.
    """
    wanted, more = each.by_type(), {} if beside is None else beside.by_type()
    capacity = [
        (most - used - more.get(kind, 0)) // wanted[kind]
        for _, kind, most, used in _limits(connection, owner, wanted)
    ]
    return max(min([count, *capacity]), 0)


def _limits(
    connection: Connection, owner: Owner, wanted: Mapping[ResourceType, int]
) -> Iterator[tuple[tuple[str, int], ResourceType, int, int]]:
    """Yield the limits on the requested resources as tuples of holder, resource type, limit and current use.

    For each resource type the account's limit comes before those of domains. Nothing is yielded for root admins.
    """
    if owner.is_root_admin:
        return
    limits = effective_limit_rows(connection, owner)
    current = _read_counts(connection, owner)
    for kind in CHECK_ORDER:
        for holder, most_of in limits.items():
            most = most_of.get(kind, UNLIMITED)
            if kind in wanted and most != UNLIMITED:
                yield holder, kind, most, current.get((*holder, kind), 0)


def add_amounts(
    connection: Connection, owner: Owner, amounts: ResourceAmounts, *, enforce_limits: bool = True
) -> None:
    """Add amounts to the counts of the account and of all domains above it; the same statement checks the limits.

    Raises:
        TransactionConflict: a limit would be exceeded, because another transaction added amounts after
            ``check_limits``.
    """
    add_amounts_of(connection, [(owner, amounts)], enforce_limits=enforce_limits)


def add_amounts_of(
    connection: Connection, taken: Sequence[tuple[Owner, ResourceAmounts]], *, enforce_limits: bool = True
) -> None:
    """Add several pairs of owner and amounts to the counts, as ``add_amounts`` does.

    An owner may occur several times.
    """
    limits: dict[tuple[str, int], Mapping[ResourceType, int]] = {}
    for owner in {owner.account_id: owner for owner, _ in taken}.values():
        if enforce_limits and not owner.is_root_admin:
            limits |= effective_limit_rows(connection, owner)
    together: Counter[tuple[str, int, ResourceType]] = Counter()
    for owner, amounts in taken:
        for holder in _holders(owner):
            for resource, amount in amounts.by_type().items():
                together[(*holder, resource)] += amount
    rows = [
        (kind, holder, resource.value, amount, limits.get((kind, holder), {}).get(resource, UNLIMITED))
        for (kind, holder, resource), amount in together.items()
    ]
    changed = connection.execute(
        text(
            "WITH w AS (SELECT unnest(CAST(:kinds AS text[])) AS owner_kind,"
            "   unnest(CAST(:owners AS bigint[])) AS owner_id, unnest(CAST(:types AS smallint[])) AS resource_type,"
            "   unnest(CAST(:amounts AS bigint[])) AS amount, unnest(CAST(:limits AS bigint[])) AS most)"
            " INSERT INTO resource_counts AS c (owner_kind, owner_id, resource_type, amount)"
            " SELECT owner_kind, owner_id, resource_type, amount FROM w WHERE most = -1 OR amount <= most"
            " ORDER BY owner_kind, owner_id, resource_type"
            " ON CONFLICT (owner_kind, owner_id, resource_type) DO UPDATE SET amount = c.amount + excluded.amount"
            " WHERE (SELECT most = -1 OR c.amount + excluded.amount <= most FROM w WHERE"
            "   (w.owner_kind, w.owner_id, w.resource_type) = (c.owner_kind, c.owner_id, c.resource_type))"
        ),
        {
            "kinds": [row[0] for row in rows],
            "owners": [row[1] for row in rows],
            "types": [row[2] for row in rows],
            "amounts": [row[3] for row in rows],
            "limits": [row[4] for row in rows],
        },
    ).rowcount
    if changed != len(rows):
        raise TransactionConflict


def subtract_amounts(connection: Connection, by_account: Mapping[int, ResourceAmounts]) -> None:
    """Subtract released amounts from the counts of accounts and of the domains above them.

    ``by_account`` has the amounts by the internal id of the account.
    """
    rows = [
        (account_id, resource.value, amount)
        for account_id, amounts in by_account.items()
        for resource, amount in amounts.by_type().items()
    ]
    if not rows:
        return
    connection.execute(
        text(
            "WITH given AS (SELECT unnest(CAST(:accounts AS bigint[])) AS account_id,"
            "   unnest(CAST(:types AS smallint[])) AS resource_type, unnest(CAST(:amounts AS bigint[])) AS amount),"
            " w AS (SELECT 'account' AS owner_kind, account_id AS owner_id, resource_type, amount FROM given"
            "   UNION ALL SELECT 'domain', up.id, g.resource_type, sum(g.amount) FROM given g"
            "   JOIN accounts a ON a.id = g.account_id JOIN domains d ON d.id = a.domain_id"
            "   JOIN domains up ON d.lineage LIKE up.lineage || '%' GROUP BY up.id, g.resource_type),"
            " locked AS (SELECT c.owner_kind, c.owner_id, c.resource_type FROM resource_counts c JOIN w USING"
            "   (owner_kind, owner_id, resource_type) ORDER BY 1, 2, 3 FOR UPDATE OF c)"
            " UPDATE resource_counts c SET amount = c.amount - w.amount FROM w JOIN locked USING"
            " (owner_kind, owner_id, resource_type) WHERE (c.owner_kind, c.owner_id, c.resource_type)"
            " = (w.owner_kind, w.owner_id, w.resource_type)"
        ),
        {
            "accounts": [row[0] for row in rows],
            "types": [row[1] for row in rows],
            "amounts": [row[2] for row in rows],
        },
    )


def _holders(owner: Owner) -> Sequence[tuple[str, int]]:
    """Return the account and every domain of its lineage, ROOT included."""
    domains = [int(part) for part in owner.lineage.strip("/").split("/")]
    return [("account", owner.account_id), *(("domain", domain_id) for domain_id in domains)]


def _read_counts(connection: Connection, owner: Owner) -> dict[tuple[str, int, ResourceType], int]:
    rows = connection.execute(
        text(
            "SELECT owner_kind, owner_id, resource_type, amount FROM resource_counts"
            " WHERE (owner_kind = 'account' AND owner_id = :account)"
            " OR (owner_kind = 'domain' AND owner_id = ANY(:domains))"
        ),
        {"account": owner.account_id, "domains": [holder for kind, holder in _holders(owner) if kind == "domain"]},
    )
    return {(row.owner_kind, row.owner_id, ResourceType(row.resource_type)): row.amount for row in rows}


def limit_exceeded(
    connection: Connection,
    owner: Owner,
    holder: tuple[str, int],
    kind: ResourceType,
    most: int,
    used: int,
    wanted: int,
) -> ResourceLimitExceeded:
    """Create the error for an exceeded limit of ``holder``, an account or a domain.

    ``most`` is the limit, ``used`` the current use and ``wanted`` the requested amount. The error's text shows
    storage in GiB and in bytes.
    """
    domain_uuid = owner.domain_uuid
    if holder[0] == "domain":
        domain_uuid = connection.execute(
            text("SELECT uuid FROM domains WHERE id = :id"), {"id": holder[1]}
        ).scalar_one()
    account_noun = "project" if owner.account_type is AccountType.PROJECT else "account"
    return ResourceLimitExceeded(
        resource=kind.wire_name,
        owner_kind="domain" if holder[0] == "domain" else account_noun,
        owner_name=owner.account_name,
        domain_uuid=domain_uuid,
        limit=_shown(kind, most),
        current=_shown(kind, used),
        requested=_shown(kind, wanted),
    )


def _shown(kind: ResourceType, amount: int) -> str:
    return f"({amount / GIB:.2f} GB) {amount}" if kind.counted_in_bytes else str(amount)
