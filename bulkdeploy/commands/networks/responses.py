"""The response fields of commands about networks and security groups."""

from bulkdeploy.commands.constant_fields import OF_NETWORKS
from bulkdeploy.declare.response_fields import (
    HAS_ANNOTATIONS,
    OWNER_FIELDS,
    TAGS,
    flag,
    moment,
    number,
    objects,
    text,
    texts,
)
from bulkdeploy.declare.responses import Response
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY

NETWORK = Response(
    "network",
    (
        text("id", "the network"),
        text("name", "the name of the network"),
        text("displaytext", "the description of the network"),
        text("type", "Isolated, Shared or L2"),
        text("traffictype", "Guest"),
        text("acltype", "who may use the network: Account (the owner only) or Domain (all accounts of the domain)"),
        *OWNER_FIELDS,
        flag("subdomainaccess", "whether the domains below may use the network, too"),
        text("zoneid", "the zone of the network"),
        text("zonename", "the zone's name"),
        text("networkofferingid", "the offering of the network"),
        text("networkofferingname", "the network offering's name"),
        text("networkofferingdisplaytext", "the network offering's description"),
        text("networkofferingavailability", "the network offering's availability"),
        text("physicalnetworkid", "the physical network of the network", ROOT_ADMIN_ONLY),
        text("cidr", "the CIDR of the network"),
        text("gateway", "the gateway of the network"),
        text("netmask", "the netmask of the network"),
        text("networkdomain", "the DNS domain of the network"),
        text("dns1", "the first DNS server of the network, or that of the zone if the network has none"),
        text("dns2", "the second DNS server of the network"),
        number("publicmtu", "the MTU of the public side of the network, in bytes; absent if it was not set"),
        number("privatemtu", "the MTU inside the network, in bytes; absent if it was not set"),
        text("vlan", "the VLAN of the network", ROOT_ADMIN_ONLY),
        text("broadcasturi", "the broadcast domain of the network, such as vlan://100", ROOT_ADMIN_ONLY),
        text("broadcastdomaintype", "Vlan", ROOT_ADMIN_ONLY),
        text("related", "the id of the network itself"),
        text(
            "state",
            "Setup (shared networks), Implemented, or Allocated: the network has no VM and is not persistent",
        ),
        flag("isdefault", "whether VMs of the zone that name no network are in this network"),
        flag("issystem", "whether the network is reserved for the system"),
        flag("canusefordeploy", "whether VMs can be deployed in the network"),
        flag("specifyipranges", "whether callers set the address ranges of the network"),
        flag("specifyvlan", "whether callers set the VLAN when they create the network"),
        flag("ispersistent", "whether the network is set up even if it has no VMs"),
        flag("restartrequired", "always false"),
        flag("displaynetwork", "always true"),
        objects("service", "the services of the network", (text("name", "the service, such as Dhcp"),)),
        TAGS,
        moment("created", "the date and time of creation"),
        *OF_NETWORKS,
        HAS_ANNOTATIONS,
    ),
)

RULE_FIELDS = (
    text("ruleid", "the rule"),
    text("protocol", "tcp, udp, icmp or all"),
    number("startport", "the first port"),
    number("endport", "the last port"),
    number("icmptype", "the ICMP type"),
    number("icmpcode", "the ICMP code"),
    text("cidr", "the addresses at the other end, in CIDR notation; absent if the rule names a security group"),
    text("securitygroupname", "the security group at the other end; absent if the rule names addresses"),
    text("account", "the account that owns the security group at the other end"),
)

SECURITY_GROUP = Response(
    "securitygroup",
    (
        text("id", "the security group"),
        text("name", "the name of the security group"),
        text("description", "the description of the security group"),
        *OWNER_FIELDS,
        objects("ingressrule", "the rules for incoming traffic", RULE_FIELDS),
        objects("egressrule", "the rules for outgoing traffic", RULE_FIELDS),
        number("virtualmachinecount", "the number of VMs in the security group"),
        texts("virtualmachineids", "the VMs in the group"),
        TAGS,
    ),
)
