"""Rules of security groups, added and taken away (reference section 8.10). Rows only: hypervisors are not told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.security_group_rules import Direction, PeerGroup, Traffic, check_cidrs
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.networks.security_groups import NOUN, about, security_group_row
from bulkdeploy.services.owned_entities import lock_own, named_entity
from bulkdeploy.services.ownership import NamedOwner, require_same_owner
from bulkdeploy.store.accounts.owned_entities import find_by_name
from bulkdeploy.store.accounts.owners import owners_by_name
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.networks import security_group_rules as rules

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
    """Rules of a group: one per network and per group at the other end."""

    group: EntityRef
    direction: Direction
    traffic: Traffic
    cidrs: Sequence[str]
    peers: Sequence[PeerGroup]


def authorize(
    connection: Connection,
    caller: Caller,
    direction: Direction,
    named: NamedOwner,
    group: EntityRef | str,
    traffic: Traffic,
    cidrs: Sequence[str],
    peers: Sequence[PeerGroup],
) -> JobTicket:
    """Add one rule per network and per group at the other end, all or none.

    The job's result is the group with the rules added and no others, as CloudStack answers.
    ``group``: by its id, or by its name among the owner's.

    Raises:
        InvalidParameter, InvalidCombination: a number, network or group that breaks a rule, or a rule that
            the security group has already.
        PermissionDenied: the group is not the caller's to touch, or not of the owner named beside its id.
    """
    _check(traffic, cidrs, peers)
    parameter = "securitygroupid"
    ref = group
    if isinstance(ref, str):
        parameter = "securitygroupname"
        ref = named_entity(connection, caller, Entity.SECURITY_GROUP, named, ref, NOUN, parameter)
    row, owner = lock_own(connection, caller, ref, NOUN, parameter)
    require_same_owner(connection, caller, named, owner.account_id, NOUN)
    ends = [*((cidr, None) for cidr in cidrs), *((None, _peer(connection, owner, peer)) for peer in peers)]
    there = rules.existing_rule(connection, ref.id, direction, traffic, ends)
    if there is not None:
        raise InvalidParameter(parameter, row.name, f"the security group has this rule already: {there}")
    made = set(rules.insert_rules(connection, ref.id, direction, traffic, ends))
    text = f"added {len(made)} {direction} rule(s) to security group {row.name}"
    record_event(connection, caller, AUTHORIZED[direction], text, about(ref), owner)
    shown = security_group_row(connection, caller, ref)
    for kind in Direction:
        shown[f"{kind}rule"] = [rule for rule in shown[f"{kind}rule"] if rule["ruleid"] in made]
    cmd = f"{COMMANDS}.AuthorizeSecurityGroup{direction.title()}Cmd"
    return done_with_object(connection, caller, cmd, "securitygroup", shown, about(ref))


def add_missing(connection: Connection, caller: Caller, batch: Sequence[RequestedRules]) -> list[EntityRef]:
    """Give groups the rules that they have not yet.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: as ``authorize``.
    """
    for requested in batch:
        _check(requested.traffic, requested.cidrs, requested.peers)
        row, owner = lock_own(connection, caller, requested.group, NOUN, "securitygroupid")
        ends = [
            *((cidr, None) for cidr in requested.cidrs),
            *((None, _peer(connection, owner, peer)) for peer in requested.peers),
        ]
        facts = (requested.group.id, requested.direction, requested.traffic)
        missing = [end for end in ends if rules.existing_rule(connection, *facts, [end]) is None]
        if missing:
            rules.insert_rules(connection, *facts, missing)
            text = f"added {len(missing)} {requested.direction} rule(s) to security group {row.name}"
            record_event(connection, caller, AUTHORIZED[requested.direction], text, about(requested.group), owner)
    return []


def _check(traffic: Traffic, cidrs: Sequence[str], peers: Sequence[PeerGroup]) -> None:
    traffic.check()
    check_cidrs(cidrs)
    if not cidrs and not peers:
        raise InvalidCombination(
            ("cidrlist", "usersecuritygrouplist"),
            "At least one cidr or at least one security group needs to be given",
        )


def revoke(connection: Connection, caller: Caller, direction: Direction, rule: EntityRef) -> JobTicket:
    """Take a rule away.

    Raises:
        InvalidParameter: the rule is gone, or is one of the other direction.
        PermissionDenied: its group is not the caller's to touch.
    """
    place = rules.place_of(connection, rule.id)
    if place is None or place["direction"] != direction:
        raise InvalidParameter("id", str(rule.uuid), f"there is no {direction} rule with this id")
    group = EntityRef(Entity.SECURITY_GROUP, place["id"], place["uuid"], place["name"])
    row, owner = lock_own(connection, caller, group, NOUN, given=f"{NOUN} rule {rule.uuid}")
    if not rules.delete_rule(connection, rule.id):
        raise InvalidParameter("id", str(rule.uuid), "the rule was taken away already")
    text = f"took a {direction} rule from security group {row.name}"
    record_event(connection, caller, REVOKED[direction], text, about(group), owner)
    cmd = f"{COMMANDS}.RevokeSecurityGroup{direction.title()}Cmd"
    return done_with_success(connection, caller, cmd, about(group))


def _peer(connection: Connection, owner: Owner, peer: PeerGroup) -> int:
    """The internal id of a group at the other end: of an account in the owner's domain, as CloudStack has it."""
    name = (peer.account.lower(), owner.domain_id)
    holder = owners_by_name(connection, [name]).get(name)
    found = (
        None
        if holder is None
        else find_by_name(connection, Entity.SECURITY_GROUP, holder.account_id, peer.group, keep=True)
    )
    if found is None:
        raise InvalidParameter(
            "usersecuritygrouplist",
            f"{peer.account}/{peer.group}",
            "there is no such account in the group's domain, or it has no such security group",
        )
    return found.id
