"""listSecurityGroups."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.parameters import mapping, string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, TAGS, number, objects, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.store import security_groups
from bulkdeploy.store.listing import Page

RULE_FIELDS = (
    text("ruleid", "the rule"),
    text("protocol", "tcp, udp, icmp or all"),
    number("startport", "the first port"),
    number("endport", "the last port"),
    number("icmptype", "the ICMP type"),
    number("icmpcode", "the ICMP code"),
    text("cidr", "the addresses it is about"),
    text("securitygroupname", "the security group it is about, instead of addresses"),
    text("account", "the account of that group"),
)

SECURITY_GROUP = Response(
    "securitygroup",
    (
        text("id", "the security group"),
        text("name", "its name"),
        text("description", "its description"),
        *OWNER_FIELDS,
        objects("ingressrule", "what may come in", RULE_FIELDS),
        objects("egressrule", "what may go out", RULE_FIELDS),
        number("virtualmachinecount", "how many VMs are in it"),
        texts("virtualmachineids", "the VMs in it"),
        TAGS,
    ),
)


def list_security_groups(call: Call) -> Page:
    """Security groups with their rules and VMs.

    Raises:
        PermissionDenied: an owner parameter names somebody outside the caller's reach.
    """
    return security_groups.list_security_groups(call.connection, visible(call), call.arguments, paging(call))


COMMANDS = (
    Command(
        name="listSecurityGroups",
        description="Lists security groups with their rules and VMs",
        handler=list_security_groups,
        shape=Shape.LIST,
        response=SECURITY_GROUP,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.SECURITY_GROUP, "only this security group"),
            string("securitygroupname", "only security groups of this name"),
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "only those that this VM is in"),
            mapping("tags", "only those with these tags: tags[0].key, tags[0].value"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
)
