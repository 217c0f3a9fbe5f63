"""VMs that an inventory says run already: which were written before, whose they are, what they count for."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from bulkdeploy.domain.inventory import Load
from bulkdeploy.domain.resources import ResourceAmounts


@dataclass(frozen=True, slots=True)
class StoredLoad:
    """A load that was written before: its deployment, its account and how many VMs it has made so far."""

    deployment_id: int
    account_id: int
    vm_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadToPlace:
    """A load in this database's ids, and the size of each of its VMs.

    ``host_ids``: the only hosts that may be used, in order; ``chosen``: the file names them.
    """

    load: Load
    stored: StoredLoad | None
    account_id: int
    user_id: int
    pod_id: int
    cluster_id: int
    hypervisor: str
    host_ids: tuple[int, ...]
    chosen: bool
    offering_id: int
    template_id: int
    network_id: int
    network_name: str
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    disk_bytes: int
    local_storage: bool
    host_tags: frozenset[str]
    storage_tags: frozenset[str]
    security_group_ids: tuple[int, ...]
    affinity_group_ids: tuple[int, ...]

    @property
    def already(self) -> int:
        """VMs made by earlier loads of the file."""
        return 0 if self.stored is None else self.stored.vm_count

    @property
    def fresh(self) -> int:
        """VMs still to be made: numbered after those already made."""
        return max(0, self.load.count - self.already)

    @property
    def amounts(self) -> ResourceAmounts:
        """What all fresh VMs count for."""
        return ResourceAmounts(
            user_vm=1,
            volume=1,
            cpu=self.cpu_number,
            memory_mib=self.memory_mib,
            primary_storage_bytes=self.disk_bytes,
        ).times(self.fresh)


@dataclass(frozen=True, slots=True)
class PlacedLoad:
    """A load with the host and the pool of each fresh VM."""

    wanted: LoadToPlace
    host_ids: list[int]
    pool_ids: list[int]


def stored_loads(connection: Connection, zone_id: int) -> dict[str, StoredLoad]:
    """The loads that were written before, by name."""
    rows = connection.execute(
        text(
            "SELECT id, account_id, vm_count, plan -> 'load' ->> 'name' AS name FROM deployments"
            " WHERE zone_id = :zone AND plan -> 'load' IS NOT NULL"
        ),
        {"zone": zone_id},
    )
    return {row.name: StoredLoad(row.id, row.account_id, row.vm_count) for row in rows}


def first_users(connection: Connection, account_ids: Sequence[int]) -> dict[int, int]:
    """The oldest user of each account that has one: the one who made what runs already."""
    rows = connection.execute(
        text(
            "SELECT account_id, min(id) AS id FROM users WHERE account_id = ANY(:accounts) AND removed IS NULL"
            " GROUP BY account_id"
        ),
        {"accounts": list(account_ids)},
    )
    return {row.account_id: row.id for row in rows}


def add_counts(connection: Connection, wanted: Sequence[LoadToPlace]) -> None:
    """Count all fresh VMs on their accounts and every domain above, in the order of the locks; no limit binds."""
    by_account: Counter[tuple[int, int]] = Counter()
    for one in wanted:
        for resource, amount in one.amounts.by_type().items():
            by_account[one.account_id, resource.value] += amount
    connection.execute(
        text(
            "WITH given AS (SELECT unnest(CAST(:accounts AS bigint[])) AS account_id,"
            "   unnest(CAST(:types AS smallint[])) AS resource_type, unnest(CAST(:amounts AS bigint[])) AS amount)"
            " INSERT INTO resource_counts AS c (owner_kind, owner_id, resource_type, amount)"
            " SELECT 'account', account_id, resource_type, amount FROM given"
            " UNION ALL SELECT 'domain', up.id, g.resource_type, sum(g.amount) FROM given g"
            "   JOIN accounts a ON a.id = g.account_id JOIN domains d ON d.id = a.domain_id"
            "   JOIN domains up ON d.lineage LIKE up.lineage || '%' GROUP BY up.id, g.resource_type"
            " ORDER BY 1, 2, 3"
            " ON CONFLICT (owner_kind, owner_id, resource_type) DO UPDATE SET amount = c.amount + excluded.amount"
        ),
        {
            "accounts": [account for account, _ in by_account],
            "types": [resource for _, resource in by_account],
            "amounts": list(by_account.values()),
        },
    )
