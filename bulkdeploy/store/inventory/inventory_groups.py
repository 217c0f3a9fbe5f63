"""Writing what accounts of an inventory own: SSH key pairs, security groups, affinity groups; and dedication."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from bulkdeploy.domain.inventory import Dedication
from bulkdeploy.domain.inventory_owners import Account, AccountName, SecurityGroupRule
from bulkdeploy.domain.ssh_keys import fingerprint
from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.store.inventory.inventory_staging import Changes, FixedColumn, InventoryConflict, Upsert
from bulkdeploy.store.tables.groups import affinity_groups, security_group_rules, security_groups, ssh_key_pairs
from bulkdeploy.store.tables.topology import dedicated_resources

KEY_PAIRS = Upsert(ssh_key_pairs, ("account_id", "name"))
SECURITY_GROUPS = Upsert(security_groups, ("account_id", "name"))
RULES = Upsert(
    security_group_rules,
    (
        "security_group_id",
        "direction",
        "protocol",
        "start_port",
        "end_port",
        "icmp_type",
        "icmp_code",
        "cidr",
        "peer_group_id",
    ),
)
AFFINITY_GROUPS = Upsert(affinity_groups, ("account_id", "domain_id", "name"), fixed=("affinity_type",))
DEDICATIONS = Upsert(dedicated_resources, ("zone_id", "pod_id", "cluster_id", "host_id"))

GroupIds = Mapping[tuple[AccountName, str], int]


@dataclass(frozen=True, slots=True)
class DedicatedPlace:
    """A zone, pod, cluster or host (``column`` of dedicated_resources, internal id) that somebody has alone."""

    column: str
    id: int
    holder: Dedication


def write_key_pairs(
    connection: Connection, accounts: Sequence[Account], account_ids: Mapping[AccountName, int], changes: Changes
) -> None:
    """The public keys, with their fingerprints."""
    rows = [
        {
            "account_id": account_ids[account.full_name],
            "name": pair.name,
            "public_key": pair.public_key,
            "fingerprint": fingerprint(pair.public_key),
        }
        for account in accounts
        for pair in account.ssh_key_pairs
    ]
    KEY_PAIRS.write(connection, rows, changes, "SSH key pairs")


def write_security_groups(
    connection: Connection, accounts: Sequence[Account], account_ids: Mapping[AccountName, int], changes: Changes
) -> GroupIds:
    """The security groups and the rules they lack; ids by account and name."""
    owned = [(account.full_name, group) for account in accounts for group in account.security_groups]
    rows = [
        {"account_id": account_ids[owner], "name": group.name, "description": group.description}
        for owner, group in owned
    ]
    found = SECURITY_GROUPS.write(connection, rows, changes, "security groups")
    ids = {(owner, group.name): group_id for (owner, group), group_id in zip(owned, found, strict=True)}
    rules = [_rule_row(owner, group.name, rule, ids) for owner, group in owned for rule in group.rules]
    RULES.write(connection, rules, changes, "security group rules")
    return ids


def _rule_row(owner: AccountName, group: str, rule: SecurityGroupRule, ids: GroupIds) -> dict[str, object]:
    return {
        "security_group_id": ids[owner, group],
        "direction": rule.direction,
        "protocol": rule.protocol,
        "start_port": rule.start_port,
        "end_port": rule.end_port,
        "icmp_type": rule.icmp_type,
        "icmp_code": rule.icmp_code,
        "cidr": rule.cidr,
        "peer_group_id": None if rule.group is None else ids[owner, rule.group],
    }


def write_affinity_groups(
    connection: Connection,
    accounts: Sequence[Account],
    account_ids: Mapping[AccountName, int],
    domain_ids: Mapping[str, int],
    changes: Changes,
) -> GroupIds:
    """The affinity groups; ids by account and name.

    Raises:
        InventoryConflict: a group that exists is of another type.
    """
    owned = [(account.full_name, group) for account in accounts for group in account.affinity_groups]
    rows = [
        {
            "account_id": account_ids[owner],
            "domain_id": domain_ids[owner.domain],
            "name": group.name,
            "affinity_type": group.type,
            "description": group.description,
        }
        for owner, group in owned
    ]
    try:
        found = AFFINITY_GROUPS.write(connection, rows, changes, "affinity groups")
    except FixedColumn as fixed:
        rule = "type: the group exists with another type, and groups do not change theirs"
        raise InventoryConflict(owned[fixed.position][1].where, rule) from fixed
    return {(owner, group.name): group_id for (owner, group), group_id in zip(owned, found, strict=True)}


def write_dedications(
    connection: Connection,
    places: Sequence[DedicatedPlace],
    account_ids: Mapping[AccountName, int],
    domain_ids: Mapping[str, int],
    changes: Changes,
) -> None:
    """Who has which place alone; each holder gets an ExplicitDedication group if it has none."""
    groups = _dedication_groups(connection, {place.holder for place in places}, account_ids, domain_ids, changes)
    rows = [
        {
            "zone_id": None,
            "pod_id": None,
            "cluster_id": None,
            "host_id": None,
            place.column: place.id,
            "domain_id": domain_ids[place.holder.domain],
            "account_id": _holder_account(place.holder, account_ids),
            "affinity_group_id": groups[place.holder],
        }
        for place in places
    ]
    DEDICATIONS.write(connection, rows, changes, "dedications")


def _holder_account(holder: Dedication, account_ids: Mapping[AccountName, int]) -> int | None:
    return None if holder.account is None else account_ids[AccountName(holder.account, holder.domain)]


def _dedication_groups(
    connection: Connection,
    holders: set[Dedication],
    account_ids: Mapping[AccountName, int],
    domain_ids: Mapping[str, int],
    changes: Changes,
) -> dict[Dedication, int]:
    stored = {
        (row.account_id, row.domain_id): row.id
        for row in connection.execute(
            select(
                affinity_groups.c.account_id,
                affinity_groups.c.domain_id,
                func.min(affinity_groups.c.id).label("id"),
            )
            .where(
                affinity_groups.c.affinity_type == AffinityType.EXPLICIT_DEDICATION.value,
                affinity_groups.c.removed.is_(None),
            )
            .group_by(affinity_groups.c.account_id, affinity_groups.c.domain_id)
        )
    }
    keys = {holder: (_holder_account(holder, account_ids), domain_ids[holder.domain]) for holder in holders}
    missing = sorted((h for h in holders if keys[h] not in stored), key=lambda h: (h.domain, h.account or ""))
    rows = [
        {
            "account_id": keys[holder][0],
            "domain_id": keys[holder][1],
            "name": f"DedicatedGrp-{holder.account or holder.domain.rpartition('/')[2]}",
            "affinity_type": AffinityType.EXPLICIT_DEDICATION,
            "description": "dedicated resources group",
        }
        for holder in missing
    ]
    made = AFFINITY_GROUPS.write(connection, rows, changes, "affinity groups")
    fresh = dict(zip(missing, made, strict=True))
    return {holder: fresh[holder] if holder in fresh else stored[keys[holder]] for holder in holders}
