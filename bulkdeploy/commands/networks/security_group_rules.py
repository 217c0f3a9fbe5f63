"""authorizeSecurityGroupIngress, revokeSecurityGroupIngress, and the same for Egress."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.networks.responses import SECURITY_GROUP
from bulkdeploy.commands.ownership import by_id_or_name, named_owner
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.noun import Noun, Values
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import ExactlyOne, Parameter, integer, mapping, string, strings, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.networks.security_group_rules import Direction, PeerGroup, Protocol, Traffic
from bulkdeploy.services.networks import security_group_rules as service
from bulkdeploy.services.networks.security_group_rules import RequestedRules
from bulkdeploy.services.networks.security_groups import NOUN
from bulkdeploy.store.networks.security_group_rules import read_rules

TRAFFIC = ("protocol", "startport", "endport", "icmptype", "icmpcode")
PEER_FIELDS = {"account", "group"}


def authorize(direction: Direction, call: Call) -> JobTicket:
    """Add rules to a security group. The job's result is the group with the new rules."""
    group = by_id_or_name(call, Entity.SECURITY_GROUP, NOUN, "securitygroupid", "securitygroupname")
    parameter = "securitygroupid" if "securitygroupid" in call.arguments else "securitygroupname"
    requested = [_requested(call.arguments, group)]
    made = service.authorize(
        call.connection, call.caller, direction, requested, named_owner(call), parameter=parameter
    )
    return service.authorized(call.connection, call.caller, direction, group, made)


def add_missing(
    direction: Direction, connection: Connection, caller: Caller, batch: Sequence[Values]
) -> list[EntityRef]:
    """Add the rules of a zone file that the security groups do not have yet, and return the new rules."""
    requested = [_requested(given, given["securitygroupid"]) for given in batch]
    return service.authorize(connection, caller, direction, requested, skip_existing=True)


def _requested(given: Values, group: EntityRef) -> RequestedRules:
    return RequestedRules(group, _traffic(given), given.get("cidrlist", ()), _peers(given))


def _traffic(arguments: Values) -> Traffic:
    return Traffic(
        Protocol(arguments.get("protocol", Protocol.ALL)),
        arguments.get("startport"),
        arguments.get("endport"),
        arguments.get("icmptype"),
        arguments.get("icmpcode"),
    )


def revoke(direction: Direction, call: Call) -> JobTicket:
    """Remove a rule from its security group."""
    (group,) = service.revoke(call.connection, call.caller, direction, [call.arguments["id"]])
    return service.revoked(call.connection, call.caller, direction, group)


def _peers(arguments: Values) -> list[PeerGroup]:
    entries = arguments.get("usersecuritygrouplist", ())
    for entry in entries:
        if set(entry) != PEER_FIELDS or not all(entry.values()):
            raise InvalidParameter(
                "usersecuritygrouplist",
                str(dict(entry)),
                "each entry must have an account and a group: usersecuritygrouplist[0].account, [0].group",
            )
    return [PeerGroup(entry["account"], entry["group"]) for entry in entries]


AUTHORIZE: tuple[Parameter, ...] = (
    uuid("securitygroupid", Entity.SECURITY_GROUP, "the security group; not with securitygroupname"),
    string("securitygroupname", "the name of a security group of the owner; not with securitygroupid"),
    string(
        "protocol",
        "the allowed protocol; default: all",
        choices=tuple(protocol.value for protocol in Protocol),
    ),
    integer("startport", "the first port of the range, if the protocol is tcp or udp"),
    integer("endport", "the last port of the range, if the protocol is tcp or udp"),
    integer("icmptype", "the ICMP type, if the protocol is icmp; -1: all types"),
    integer("icmpcode", "the ICMP code, if the protocol is icmp; -1: all codes"),
    strings("cidrlist", "the networks at the other end of the connection; each becomes a rule"),
    mapping(
        "usersecuritygrouplist",
        "security groups at the other end of the connection; each becomes a rule: "
        "usersecuritygrouplist[0].account, [0].group",
    ),
    *FOR_OWNER,
)


def _commands(direction: Direction, what: str) -> tuple[Command, Command]:
    word = direction.title()
    return (
        Command(
            name=f"authorizeSecurityGroup{word}",
            description=f"Adds rules for {what} traffic to a security group",
            handler=partial(authorize, direction),
            shape=Shape.JOB,
            response=SECURITY_GROUP,
            errors=(PermissionDenied,),
            changes_state=True,
            parameters=AUTHORIZE,
            rules=(ExactlyOne(("securitygroupid", "securitygroupname")),),
        ),
        Command(
            name=f"revokeSecurityGroup{word}",
            description=f"Removes a rule for {what} traffic from a security group",
            handler=partial(revoke, direction),
            shape=Shape.JOB_SUCCESS,
            errors=(PermissionDenied,),
            changes_state=True,
            parameters=(uuid("id", Entity.SECURITY_GROUP_RULE, "the ruleid of the rule", required=True),),
        ),
    )


DIRECTIONS = {
    Direction.INGRESS: _commands(Direction.INGRESS, "incoming"),
    Direction.EGRESS: _commands(Direction.EGRESS, "outgoing"),
}
COMMANDS: tuple[Command, ...] = tuple(command for commands in DIRECTIONS.values() for command in commands)


def _key(values: Values) -> Hashable:
    """Return the key by which a rule in a zone file is found: its security group and its traffic.

    The networks and groups at the other end are not a part of the key.
    """
    return tuple(values.get(name) for name in ("securitygroupid", *TRAFFIC))


def _ends(written: Iterable[Mapping[str, str]]) -> list[tuple[str, str]]:
    return sorted((end.get("account", ""), end.get("group", "")) for end in written)


NOUNS = tuple(
    Noun(
        section=f"{direction}rules",
        create=authorizing,
        create_many=partial(add_missing, direction),
        read=partial(read_rules, direction),
        key=_key,
        parent="securitygroupid",
        compare={"usersecuritygrouplist": _ends},
    )
    for direction, (authorizing, _) in DIRECTIONS.items()
)
