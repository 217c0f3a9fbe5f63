"""The recalculation of the stored resource counts of accounts and domains.

The counts are calculated from the VMs and volumes in the same way as ``store/auditing/audit.sql`` checks them.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, TextClause, text

from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.store.database.arrays import int_array

COUNTED = (
    ResourceType.USER_VM,
    ResourceType.VOLUME,
    ResourceType.CPU,
    ResourceType.MEMORY,
    ResourceType.PRIMARY_STORAGE,
)
"""Types that counts are kept of; the others are counted when they are asked for."""

_HOLDERS = (
    "SELECT CAST('account' AS text) AS owner_kind, id AS owner_id FROM accounts"
    " WHERE id = ANY(CAST(:accounts AS bigint[]))"
    " UNION SELECT 'domain', up.id FROM accounts a JOIN domains d ON d.id = a.domain_id"
    "   JOIN domains up ON d.lineage LIKE up.lineage || '%' WHERE a.id = ANY(CAST(:accounts AS bigint[]))"
)


def _sql(statement: str) -> TextClause:
    """Return the statement with ``$holders`` replaced by a query of the accounts and the domains above them."""
    return text(statement.replace("$holders", _HOLDERS))


_LOCK = _sql(
    "SELECT c.amount FROM resource_counts c JOIN ($holders) h USING (owner_kind, owner_id)"
    " WHERE c.resource_type = ANY(CAST(:types AS smallint[]))"
    " ORDER BY c.owner_kind, c.owner_id, c.resource_type FOR UPDATE OF c"
)
_FILL = _sql(
    "INSERT INTO resource_counts (owner_kind, owner_id, resource_type, amount)"
    " SELECT h.owner_kind, h.owner_id, t, 0 FROM ($holders) h, unnest(CAST(:types AS smallint[])) t"
    " ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING"
)
_ACCOUNTS = _sql(
    "WITH found AS (SELECT account_id, kind, sum(amount) AS amount FROM ("
    "   SELECT v.account_id, u.kind, u.amount FROM virtual_machines v,"
    "     LATERAL (VALUES (0, 1), (8, v.cpu_number), (9, v.memory_mib)) u(kind, amount)"
    "     WHERE NOT v.compute_released AND v.removed IS NULL AND v.account_id = ANY(CAST(:accounts AS bigint[]))"
    "   UNION ALL SELECT v.account_id, u.kind, u.amount FROM volumes v,"
    "     LATERAL (VALUES (2, CAST(1 AS bigint)), (10, v.size_bytes)) u(kind, amount)"
    "     WHERE v.removed IS NULL AND v.account_id = ANY(CAST(:accounts AS bigint[]))) every GROUP BY 1, 2)"
    " UPDATE resource_counts c SET amount = coalesce((SELECT f.amount FROM found f"
    "   WHERE f.account_id = c.owner_id AND f.kind = c.resource_type), 0)"
    " WHERE c.owner_kind = 'account' AND c.owner_id = ANY(CAST(:accounts AS bigint[]))"
    " AND c.resource_type = ANY(CAST(:types AS smallint[]))"
)
_DOMAINS = _sql(
    "UPDATE resource_counts c SET amount = coalesce((SELECT sum(x.amount) FROM resource_counts x"
    "   JOIN accounts a ON a.id = x.owner_id JOIN domains d ON d.id = a.domain_id"
    "   JOIN domains up ON up.id = c.owner_id AND d.lineage LIKE up.lineage || '%'"
    "   WHERE x.owner_kind = 'account' AND x.resource_type = c.resource_type), 0)"
    " FROM ($holders) h WHERE h.owner_kind = 'domain' AND c.owner_kind = 'domain'"
    " AND c.owner_id = h.owner_id AND c.resource_type = ANY(CAST(:types AS smallint[]))"
)


def recount(connection: Connection, account_ids: Sequence[int], types: Sequence[ResourceType]) -> None:
    """Recalculate the counts of these accounts, and of all domains above them, from the existing objects.

    The counts are locked first, so that uncommitted changes are awaited and included, and later changes are added
    to the new counts.
    """
    values = {"accounts": int_array(account_ids), "types": int_array(kind.value for kind in types)}
    for statement in (_FILL, _LOCK, _ACCOUNTS, _DOMAINS):
        connection.execute(statement, values)


_OF_DOMAIN = text(
    "SELECT a.id FROM accounts a JOIN domains d ON d.id = a.domain_id"
    " WHERE d.lineage LIKE :lineage || '%' ORDER BY a.id"
)


def accounts_below(connection: Connection, lineage: str) -> list[int]:
    """Return the accounts in a domain and its subdomains.

    Deleted accounts are included, because their VMs may still use resources.
    """
    return list(connection.execute(_OF_DOMAIN, {"lineage": lineage}).scalars())


_AMOUNTS = text("SELECT resource_type, amount FROM resource_counts WHERE owner_kind = :kind AND owner_id = :id")


def amounts_of(connection: Connection, owner_kind: str, owner_id: int) -> dict[ResourceType, int]:
    """Return the stored resource counts of an account or a domain, by resource type."""
    rows = connection.execute(_AMOUNTS, {"kind": owner_kind, "id": owner_id})
    return {ResourceType(row.resource_type): row.amount for row in rows}
