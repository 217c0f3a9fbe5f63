"""authorizeSecurityGroupIngress, revokeSecurityGroupIngress, and the same for Egress (reference section 8.10)."""

from functools import partial

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.networks.responses import SECURITY_GROUP
from bulkdeploy.commands.ownership import named_owner
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import ExactlyOne, Parameter, integer, mapping, string, strings, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.security_group_rules import Direction, PeerGroup, Protocol, Traffic
from bulkdeploy.services.networks import security_group_rules

PEER_FIELDS = {"account", "group"}


def authorize(direction: Direction, call: Call) -> JobTicket:
    """Add rules; the job's result is the group with them."""
    arguments = call.arguments
    traffic = Traffic(
        Protocol(arguments.get("protocol", Protocol.ALL)),
        arguments.get("startport"),
        arguments.get("endport"),
        arguments.get("icmptype"),
        arguments.get("icmpcode"),
    )
    return security_group_rules.authorize(
        call.connection,
        call.caller,
        direction,
        named_owner(call),
        call.ref("securitygroupid") or arguments["securitygroupname"],
        traffic,
        arguments.get("cidrlist", ()),
        _peers(call),
    )


def revoke(direction: Direction, call: Call) -> JobTicket:
    """Take a rule away."""
    return security_group_rules.revoke(call.connection, call.caller, direction, call.arguments["id"])


def _peers(call: Call) -> list[PeerGroup]:
    entries = call.arguments.get("usersecuritygrouplist", ())
    for entry in entries:
        if set(entry) != PEER_FIELDS or not all(entry.values()):
            raise InvalidParameter(
                "usersecuritygrouplist",
                str(dict(entry)),
                "each entry should have an account and a group: usersecuritygrouplist[0].account, [0].group",
            )
    return [PeerGroup(entry["account"], entry["group"]) for entry in entries]


AUTHORIZE: tuple[Parameter, ...] = (
    uuid("securitygroupid", Entity.SECURITY_GROUP, "the security group; not with securitygroupname"),
    string("securitygroupname", "the security group by its name among the owner's; not with securitygroupid"),
    string(
        "protocol",
        "what is let through; all where not given",
        choices=tuple(protocol.value for protocol in Protocol),
    ),
    integer("startport", "the first port, for tcp and udp"),
    integer("endport", "the last port, for tcp and udp"),
    integer("icmptype", "the ICMP type, -1 for all, for icmp"),
    integer("icmpcode", "the ICMP code, -1 for all, for icmp"),
    strings("cidrlist", "the networks at the other end, one rule each"),
    mapping(
        "usersecuritygrouplist",
        "security groups at the other end, one rule each: usersecuritygrouplist[0].account, [0].group",
    ),
    *FOR_OWNER,
)


def _commands(direction: Direction, what: str) -> tuple[Command, Command]:
    word = direction.title()
    return (
        Command(
            name=f"authorizeSecurityGroup{word}",
            description=f"Adds rules to a security group: what may {what}",
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
            description=f"Takes a rule from a security group: what may {what}",
            handler=partial(revoke, direction),
            shape=Shape.JOB_SUCCESS,
            errors=(PermissionDenied,),
            changes_state=True,
            parameters=(uuid("id", Entity.SECURITY_GROUP_RULE, "the rule, by its ruleid", required=True),),
        ),
    )


COMMANDS: tuple[Command, ...] = (
    *_commands(Direction.INGRESS, "come in"),
    *_commands(Direction.EGRESS, "go out"),
)
