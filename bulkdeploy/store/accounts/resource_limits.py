"""Limits of accounts and domains: the configured limits, the default limits, and writing them.

Amounts are in the unit of the stored counts: storage in bytes, memory in MiB, other resources as numbers of
objects; -1 means no limit. Root admin accounts and the ROOT domain are never limited (cloudstack-protocol.md 7.2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, and_, or_, select, text
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.accounts.accounts import AccountType, Owner
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.domain.units import gib_to_bytes
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.ledger import resource_limits

OwnerKind = Literal["account", "domain"]
Limits = dict[ResourceType, int]

SETTING_NOUNS: Mapping[ResourceType, str] = {
    ResourceType.USER_VM: "user.vms",
    ResourceType.PUBLIC_IP: "public.ips",
    ResourceType.VOLUME: "volumes",
    ResourceType.SNAPSHOT: "snapshots",
    ResourceType.TEMPLATE: "templates",
    ResourceType.NETWORK: "networks",
    ResourceType.VPC: "vpcs",
    ResourceType.CPU: "cpus",
    ResourceType.MEMORY: "memory",
    ResourceType.PRIMARY_STORAGE: "primary.storage",
    ResourceType.SECONDARY_STORAGE: "secondary.storage",
}
"""The noun in the settings ``max.account.<noun>``, ``max.project.<noun>`` and ``max.domain.<noun>``.

They hold where no limit is set. The number of projects has no such setting: it is unlimited.
"""


@dataclass(frozen=True, slots=True)
class LimitBook:
    """The configured limits of some owners, together with the default limits for all other owners."""

    configuration: Configuration
    rows: Mapping[tuple[str, int], Limits]

    def of_account(self, account_id: int, account_type: AccountType) -> Limits:
        """Return the effective limit of every resource type: the account's own, else the global default."""
        if account_type is AccountType.ADMIN:
            return dict.fromkeys(ResourceType, UNLIMITED)
        noun = "project" if account_type is AccountType.PROJECT else "account"
        own = self.rows.get(("account", account_id), {})
        return {kind: own.get(kind, self._default(noun, kind)) for kind in ResourceType}

    def of_domain(self, lineage: str) -> Limits:
        """Return the domain's own limit, else its nearest ancestor's below ROOT, else the global default."""
        upwards = domain_ids(lineage)[:0:-1]
        if not upwards:
            return dict.fromkeys(ResourceType, UNLIMITED)
        return {kind: self._nearest(upwards, kind) for kind in ResourceType}

    def _nearest(self, upwards: Iterable[int], kind: ResourceType) -> int:
        for domain_id in upwards:
            own = self.rows.get(("domain", domain_id), {}).get(kind)
            if own is not None:
                return own
        return self._default("domain", kind)

    def _default(self, owner: str, kind: ResourceType) -> int:
        noun = SETTING_NOUNS.get(kind)
        if noun is None:
            return UNLIMITED
        amount = self.configuration.number(f"max.{owner}.{noun}")
        return gib_to_bytes(amount) if kind.counted_in_bytes and amount != UNLIMITED else amount


def domain_ids(lineage: str) -> list[int]:
    """Return the internal ids of a lineage, ROOT first."""
    return [int(part) for part in lineage.strip("/").split("/")]


def read_limits(
    connection: Connection,
    account_ids: Iterable[int],
    lineages: Iterable[str],
    *,
    configuration: Configuration | None = None,
) -> LimitBook:
    """Return all limits that apply to these accounts and domains, in at most two statements.

    ``configuration`` has the default limits; it is read if it is None.
    """
    domains = {domain_id for lineage in lineages for domain_id in domain_ids(lineage)}
    query = select(resource_limits).where(
        or_(
            and_(resource_limits.c.owner_kind == "account", id_in(resource_limits.c.owner_id, account_ids)),
            and_(resource_limits.c.owner_kind == "domain", id_in(resource_limits.c.owner_id, domains)),
        )
    )
    rows: dict[tuple[str, int], Limits] = {}
    for row in connection.execute(query):
        rows.setdefault((row.owner_kind, row.owner_id), {})[ResourceType(row.resource_type)] = row.max
    return LimitBook(configuration or read_configuration(connection), rows)


def effective_limit_rows(
    connection: Connection, owner: Owner, *, configuration: Configuration | None = None
) -> dict[tuple[str, int], Limits]:
    """Return the limits that apply to requests of ``owner``: its account's and those of each domain except ROOT.

    Keys are ``("account", id)`` and ``("domain", id)``: the account first, then the domains from the top down.
    Every resource type is present. A root admin account has no limits, so the result is empty for it.
    """
    if owner.is_root_admin:
        return {}
    return limits_binding(
        read_limits(connection, [owner.account_id], [owner.lineage], configuration=configuration), owner
    )


def limits_binding(book: LimitBook, owner: Owner) -> dict[tuple[str, int], Limits]:
    """Return the limits that apply to requests of ``owner``, out of limits that were read before.

    The result has the format of ``effective_limit_rows``.
    """
    limits = {("account", owner.account_id): book.of_account(owner.account_id, owner.account_type)}
    lineage = "/"
    for depth, domain_id in enumerate(domain_ids(owner.lineage)):
        lineage += f"{domain_id}/"
        if depth > 0:
            limits["domain", domain_id] = book.of_domain(lineage)
    return limits


def write_limits(connection: Connection, limits: Mapping[tuple[OwnerKind, int, ResourceType], int]) -> None:
    """Write limits by owner and resource type, in the unit of the counts. The caller has validated them."""
    statement = insert(resource_limits).values(
        [
            {"owner_kind": owner_kind, "owner_id": owner_id, "resource_type": kind.value, "max": most}
            for (owner_kind, owner_id, kind), most in limits.items()
        ]
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["owner_kind", "owner_id", "resource_type"], set_={"max": statement.excluded.max}
        )
    )
    note_use(connection)


_SET_LIMITS = text(
    "SELECT l.owner_kind, l.owner_id, l.resource_type, l.max, a.name AS account, p.id AS project_id,"
    " coalesce(a.domain_id, d.id) AS domain_id FROM resource_limits l"
    " LEFT JOIN accounts a ON l.owner_kind = 'account' AND a.id = l.owner_id AND a.removed IS NULL"
    " LEFT JOIN projects p ON p.account_id = a.id"
    " LEFT JOIN domains d ON l.owner_kind = 'domain' AND d.id = l.owner_id AND d.removed IS NULL"
    " WHERE (a.id IS NOT NULL AND a.account_type <> :admin) OR d.parent_id IS NOT NULL"
    " ORDER BY l.owner_kind, l.owner_id, l.resource_type"
)


def read_set_limits(connection: Connection) -> list[dict[str, Any]]:
    """Return all configured limits of live accounts and domains, except those of root admins and of ROOT."""
    return [dict(row) for row in connection.execute(_SET_LIMITS, {"admin": AccountType.ADMIN.value}).mappings()]


_NOTE_USE = text(
    "UPDATE resource_limits l SET amount_when_set = c.amount FROM resource_counts c"
    " WHERE c.owner_kind = l.owner_kind AND c.owner_id = l.owner_id AND c.resource_type = l.resource_type"
    " AND l.max >= 0 AND c.amount > l.max AND c.amount > l.amount_when_set"
)


def note_use(connection: Connection) -> None:
    """Record the current use above newly set limits, so that the audit does not report it as a violation."""
    connection.execute(_NOTE_USE)
