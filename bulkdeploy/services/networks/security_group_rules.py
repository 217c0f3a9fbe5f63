"""Operations on rules of security groups: add and remove.

Only rows change. The sweeper sends the rules to hypervisors that can apply them
(``provisioning.watches.filter_updates``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.networks.security_group_rules import Direction, PeerGroup, Traffic, check_cidrs
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.networks.security_groups import NOUN, group_reference, security_group_row
from bulkdeploy.services.owned_entities import lock_all_own, lock_named
from bulkdeploy.services.ownership import NO_OWNER, NamedOwner, require_same_owner
from bulkdeploy.store.accounts.owned_entities import find_by_names
from bulkdeploy.store.accounts.owners import owners_by_name
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.networks import security_group_rules as store
from bulkdeploy.store.networks.security_group_rules import End
from bulkdeploy.store.rows.live_rows import insert_rows

COMMANDS = "org.apache.cloudstack.api.command.user.securitygroup"

AUTHORIZED: Mapping[Direction, EventType] = {
    Direction.INGRESS: EventType.SECURITY_GROUP_AUTHORIZE_INGRESS,
    Direction.EGRESS: EventType.SECURITY_GROUP_AUTHORIZE_EGRESS,
}
REVOKED: Mapping[Direction, EventType] = {
    Direction.INGRESS: EventType.SECURITY_GROUP_REVOKE_INGRESS,
    Direction.EGRESS: EventType.SECURITY_GROUP_REVOKE_EGRESS,
}


@dataclass(frozen=True, slots=True)
class RequestedRules:
    """The requested rules of a security group: one rule for each CIDR and for each group at the other end."""

    group: EntityRef
    traffic: Traffic
    cidrs: Sequence[str]
    peers: Sequence[PeerGroup]


def authorize(
    connection: Connection,
    caller: Caller,
    direction: Direction,
    batch: Sequence[RequestedRules],
    named: NamedOwner = NO_OWNER,
    *,
    parameter: str = "securitygroupid",
    skip_existing: bool = False,
) -> list[EntityRef]:
    """Add rules to security groups: one per CIDR and per group at the other end.

    Either all rules are added or none.

    ``parameter`` is the parameter that names the groups. If ``skip_existing`` is true, rules that a group already
    has are skipped; otherwise they are an error.

    Raises:
        InvalidParameter, InvalidCombination: a port, CIDR or group is not valid, or a security group already has
        one of the rules.
        PermissionDenied: the caller may not access a group, or the named owner does not own a group.
    """
    for requested in batch:
        _check(requested)
    locked = lock_all_own(connection, caller, [requested.group for requested in batch], NOUN, parameter)
    owners = [owner for _, owner in locked]
    require_same_owner(connection, caller, named, [owner.account_id for owner in owners], NOUN)
    peers = _peers(connection, batch, owners)
    there = store.read_ends(connection, direction, {requested.group.id for requested in batch})
    rows: list[dict[str, Any]] = []
    happened = []
    for requested, (group, owner) in zip(batch, locked, strict=True):
        known = there.setdefault((group.id, requested.traffic), {})
        ends: dict[End, str] = {(cidr, None): cidr for cidr in requested.cidrs}
        ends |= {(None, peers[peer, owner.domain_id].id): peer.group for peer in requested.peers}
        missing = {end: shown for end, shown in ends.items() if end not in known}
        if len(missing) < len(ends) and not skip_existing:
            shown = next(shown for end, shown in ends.items() if end in known)
            raise InvalidParameter(parameter, group.name, f"the security group has this rule already: {shown}")
        if missing:
            known |= missing
            rows += store.rows_of(group.id, direction, requested.traffic, missing)
            text = f"added {len(missing)} {direction} rule(s) to security group {group.name}"
            happened.append(Happened(AUTHORIZED[direction], text, group_reference(requested.group), owner))
    made = insert_rows(connection, Entity.SECURITY_GROUP_RULE, rows)
    record_events(connection, caller, happened)
    return made


def authorized(
    connection: Connection, caller: Caller, direction: Direction, group: EntityRef, made: Sequence[EntityRef]
) -> JobTicket:
    """Return the finished job of a call that added rules.

    As in CloudStack, its result is the group with only these rules.
    """
    shown = security_group_row(connection, caller, group)
    new = {rule.uuid for rule in made}
    for kind in Direction:
        shown[f"{kind}rule"] = [rule for rule in shown[f"{kind}rule"] if rule["ruleid"] in new]
    cmd = f"{COMMANDS}.AuthorizeSecurityGroup{direction.title()}Cmd"
    return done_with_object(connection, caller, cmd, "securitygroup", shown, group_reference(group))


def _check(requested: RequestedRules) -> None:
    requested.traffic.check()
    check_cidrs(requested.cidrs)
    if not requested.cidrs and not requested.peers:
        raise InvalidCombination(
            ("cidrlist", "usersecuritygrouplist"),
            "At least one cidr or at least one security group needs to be given",
        )


def _peers(
    connection: Connection, batch: Sequence[RequestedRules], owners: Sequence[Owner]
) -> dict[tuple[PeerGroup, int], EntityRef]:
    """Return the security groups at the other end of the rules.

    As in CloudStack, each group is found by its name, its account's name and the domain of the owner.
    """
    named = [
        (peer, owner.domain_id) for requested, owner in zip(batch, owners, strict=True) for peer in requested.peers
    ]
    accounts = owners_by_name(connection, [(peer.account, domain_id) for peer, domain_id in named])
    holders = {
        (peer, domain_id): accounts[peer.account.lower(), domain_id].account_id
        for peer, domain_id in named
        if (peer.account.lower(), domain_id) in accounts
    }
    names = {(account_id, peer.group) for (peer, _), account_id in holders.items()}
    groups = find_by_names(connection, Entity.SECURITY_GROUP, names, for_share=True)
    found = {}
    for peer, domain_id in named:
        group = groups.get((holders.get((peer, domain_id), 0), peer.group))
        if group is None:
            raise InvalidParameter(
                "usersecuritygrouplist",
                f"{peer.account}/{peer.group}",
                "there is no such account in the group's domain, or it has no such security group",
            )
        found[peer, domain_id] = group
    return found


def revoke(
    connection: Connection, caller: Caller, direction: Direction, rules: Sequence[EntityRef]
) -> list[EntityRef]:
    """Remove rules, and return their groups in the order of the rules.

    Raises:
        InvalidParameter: a rule was removed already, or has the other direction.
        PermissionDenied: the caller may not access a rule's group.
    """
    groups = store.groups_of(connection, direction, [rule.id for rule in rules])
    for rule in rules:
        if rule.id not in groups:
            raise InvalidParameter("id", str(rule.uuid), f"there is no {direction} rule with this id")
    named = {f"{NOUN} rule {rule.uuid}": groups[rule.id] for rule in rules}
    locked = lock_named(connection, caller, named, NOUN)
    deleted = store.delete_rules(connection, [rule.id for rule in rules])
    for rule in rules:
        if rule.id not in deleted:
            raise InvalidParameter("id", str(rule.uuid), "the rule was removed already")
    happened = (
        Happened(
            REVOKED[direction],
            f"removed a {direction} rule of security group {row.name}",
            group_reference(group),
            owner,
        )
        for group, (row, owner) in zip(named.values(), locked, strict=True)
    )
    record_events(connection, caller, happened)
    return list(named.values())


def revoked(connection: Connection, caller: Caller, direction: Direction, group: EntityRef) -> JobTicket:
    """Return the finished job of a call that removed a rule of a group."""
    cmd = f"{COMMANDS}.RevokeSecurityGroup{direction.title()}Cmd"
    return done_with_success(connection, caller, cmd, group_reference(group))
