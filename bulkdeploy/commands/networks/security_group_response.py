"""The security group object with its rules, as lists and jobs answer it."""

from bulkdeploy.declare.response_fields import OWNER_FIELDS, TAGS, number, objects, text, texts
from bulkdeploy.declare.responses import Response

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
