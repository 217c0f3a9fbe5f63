"""The response fields of commands about networks and security groups."""

from bulkdeploy.commands.constant_fields import OF_NETWORKS
from bulkdeploy.declare.response_fields import OWNER_FIELDS, TAGS, flag, moment, number, objects, text, texts
from bulkdeploy.declare.responses import Response
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY

NETWORK = Response(
    "network",
    (
        text("id", "the network"),
        text("name", "its name"),
        text("displaytext", "its description"),
        text("type", "Isolated, Shared or L2"),
        text("traffictype", "Guest"),
        text("acltype", "Account where one account has it, Domain where a whole domain may use it"),
        *OWNER_FIELDS,
        flag("subdomainaccess", "whether the domains below may use it, too"),
        text("zoneid", "its zone"),
        text("zonename", "the zone's name"),
        text("networkofferingid", "its network offering"),
        text("networkofferingname", "the network offering's name"),
        text("networkofferingdisplaytext", "the network offering's description"),
        text("networkofferingavailability", "the network offering's availability"),
        text("physicalnetworkid", "its physical network", ROOT_ADMIN_ONLY),
        text("cidr", "its CIDR"),
        text("gateway", "its gateway"),
        text("netmask", "its netmask"),
        text("networkdomain", "its DNS domain"),
        text("dns1", "its first DNS server; its zone's where it has none of its own"),
        text("dns2", "its second DNS server"),
        number("publicmtu", "the largest packets to the outside, bytes; absent: not said"),
        number("privatemtu", "the largest packets within, bytes; absent: not said"),
        text("vlan", "its VLAN", ROOT_ADMIN_ONLY),
        text("broadcasturi", "its broadcast domain, such as vlan://100", ROOT_ADMIN_ONLY),
        text("broadcastdomaintype", "Vlan", ROOT_ADMIN_ONLY),
        text("related", "the network itself"),
        text("state", "Allocated, Setup, Implementing, Implemented, Shutdown or Destroy"),
        flag("isdefault", "whether VMs of its zone get it where they name none"),
        flag("issystem", "whether only the system uses it"),
        flag("canusefordeploy", "whether a deployment may name it"),
        flag("specifyipranges", "whether its addresses are given as ranges"),
        flag("specifyvlan", "whether its VLAN is given when it is made"),
        flag("ispersistent", "always false"),
        flag("restartrequired", "always false"),
        flag("displaynetwork", "always true"),
        objects("service", "what it offers to VMs", (text("name", "the service, such as Dhcp"),)),
        TAGS,
        moment("created", "when it was made"),
        *OF_NETWORKS,
    ),
)

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
