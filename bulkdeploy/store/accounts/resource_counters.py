"""The response fields with the limit, the use and the remaining amount of each resource of accounts and domains.

For VMs the fields are ``vmlimit``, ``vmtotal`` and ``vmavailable``. Limits and remaining amounts are texts,
``Unlimited`` if there is no limit; totals are numbers. Storage is in GiB, memory in MiB. The number of statements
does not depend on the number of owners.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, literal, select, union_all

from bulkdeploy.domain.accounts.accounts import AccountType
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.domain.units import bytes_to_whole_gib
from bulkdeploy.domain.virtual_machines.virtual_machines import GONE, VmState
from bulkdeploy.store.accounts.live_limits import LIVE, count_live, measure
from bulkdeploy.store.accounts.resource_limits import Limits, OwnerKind, read_limits
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.ledger import resource_counts
from bulkdeploy.store.tables.virtual_machines import virtual_machines

COUNTED: Mapping[ResourceType, str] = {
    ResourceType.USER_VM: "vm",
    ResourceType.VOLUME: "volume",
    ResourceType.CPU: "cpu",
    ResourceType.MEMORY: "memory",
    ResourceType.PRIMARY_STORAGE: "primarystorage",
}
"""Resources that deployments count, with the noun their fields begin with."""

NEVER_USED: Mapping[ResourceType, str] = {
    ResourceType.PUBLIC_IP: "ip",
    ResourceType.VPC: "vpc",
}
"""Resources that do not exist here: their totals are 0."""

LIVE_COUNTS: Mapping[ResourceType, str] = {
    ResourceType.NETWORK: "network",
    ResourceType.TEMPLATE: "template",
    ResourceType.SNAPSHOT: "snapshot",
    ResourceType.SECONDARY_STORAGE: "secondarystorage",
}
"""Resources of accounts that are counted when they are asked for."""

LIVE_OF_DOMAINS: Mapping[ResourceType, str] = {**LIVE_COUNTS, ResourceType.PROJECT: "project"}
OF_DOMAINS: Mapping[ResourceType, str] = {
    **COUNTED,
    **NEVER_USED,
    **LIVE_OF_DOMAINS,
}
"""Resources that domains show."""


@dataclass(frozen=True, slots=True)
class CountedAccount:
    """An account whose resource counters are requested."""

    id: int
    type: AccountType


Fields = dict[str, Any]


def account_counters(connection: Connection, accounts: Sequence[CountedAccount]) -> dict[int, Fields]:
    """Return the resource counter fields of each account, by id. Accounts of projects are allowed."""
    ids = [account.id for account in accounts]
    book = read_limits(connection, ids, [])
    totals = _counts(connection, "account", ids)
    live, states = _live_counts(connection, ids), _vm_states(connection, ids)
    fields: dict[int, Fields] = {}
    for account in accounts:
        limits = book.of_account(account.id, account.type)
        row = _fields(limits, {**COUNTED, **NEVER_USED, **LIVE_COUNTS}, {**totals[account.id], **live[account.id]})
        row["vmrunning"] = states[account.id, True]
        row["vmstopped"] = states[account.id, False]
        fields[account.id] = row
    return fields


def domain_counters(connection: Connection, lineages: Mapping[int, str]) -> dict[int, Fields]:
    """Return the counter fields of each domain by its id. Totals include the subdomains.

    ``lineages`` are the lineages of the requested domains by id.
    """
    book = read_limits(connection, [], lineages.values())
    totals = _counts(connection, "domain", list(lineages))
    live = count_live(connection, LIVE_OF_DOMAINS, (), lineages)
    for domain_id in lineages:
        totals[domain_id].update({kind: live[kind, "domain", domain_id] for kind in LIVE_OF_DOMAINS})
    return {
        domain_id: _fields(book.of_domain(lineage), OF_DOMAINS, totals[domain_id])
        for domain_id, lineage in lineages.items()
    }


def _fields(limits: Limits, nouns: Mapping[ResourceType, str], totals: Mapping[ResourceType, int]) -> Fields:
    fields: Fields = {}
    for kind, noun in nouns.items():
        limit, total = limits[kind], totals.get(kind, 0)
        if kind.counted_in_bytes:
            limit = limit if limit == UNLIMITED else bytes_to_whole_gib(limit)
            total = bytes_to_whole_gib(total)
        unlimited = limit == UNLIMITED
        fields[f"{noun}limit"] = "Unlimited" if unlimited else str(limit)
        fields[f"{noun}total"] = float(total) if kind is ResourceType.SECONDARY_STORAGE else total
        fields[f"{noun}available"] = "Unlimited" if unlimited else str(max(limit - total, 0))
    return fields


def _counts(
    connection: Connection, owner_kind: OwnerKind, ids: Sequence[int]
) -> dict[int, dict[ResourceType, int]]:
    count = resource_counts.c
    query = select(count.owner_id, count.resource_type, count.amount).where(
        count.owner_kind == owner_kind, id_in(count.owner_id, ids)
    )
    totals: dict[int, dict[ResourceType, int]] = defaultdict(dict)
    for owner_id, kind, amount in connection.execute(query):
        totals[owner_id][ResourceType(kind)] = amount
    return totals


def _live_counts(connection: Connection, ids: Sequence[int]) -> dict[int, dict[ResourceType, int]]:
    """Return, for each account, the amounts of the resource types that have no stored count (LIVE_COUNTS)."""
    parts = [
        select(literal(kind.value).label("kind"), table.c.account_id, measure(kind))
        .where(id_in(table.c.account_id, ids), table.c.removed.is_(None))
        .group_by(table.c.account_id)
        for kind, table in ((kind, LIVE[kind]) for kind in LIVE_COUNTS)
    ]
    counts: dict[int, dict[ResourceType, int]] = defaultdict(dict)
    for kind, account_id, amount in connection.execute(union_all(*parts)):
        counts[account_id][ResourceType(kind)] = amount
    return counts


def _vm_states(connection: Connection, ids: Sequence[int]) -> dict[tuple[int, bool], int]:
    """Count each account's running VMs (key True) and its other VMs that are not expunged (key False)."""
    vm = virtual_machines.c
    running = (vm.state == VmState.RUNNING).label("running")
    query = (
        select(vm.account_id, running, func.count())
        .where(id_in(vm.account_id, ids), vm.removed.is_(None), vm.state.not_in(GONE))
        .group_by(vm.account_id, running)
    )
    states: dict[tuple[int, bool], int] = defaultdict(int)
    for account_id, is_running, amount in connection.execute(query):
        states[account_id, is_running] = amount
    return states
