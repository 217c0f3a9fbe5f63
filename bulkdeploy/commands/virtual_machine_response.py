"""The UserVm object: what every command that answers a virtual machine declares (reference section 5.8).

``store.virtual_machines.virtual_machine_rows`` reads it.
"""

from bulkdeploy.declare.response_fields import (
    OWNER_FIELDS,
    TAGS,
    flag,
    large_number,
    moment,
    number,
    objects,
    text,
    text_map,
)
from bulkdeploy.declare.responses import Response
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY

NIC_FIELDS = (
    text("id", "the nic"),
    text("networkid", "the network it is in"),
    text("networkname", "the network's name"),
    text("netmask", "the netmask"),
    text("gateway", "the gateway"),
    text("ipaddress", "the address"),
    text("isolationuri", "how the network is kept apart, such as vlan://100", ROOT_ADMIN_ONLY),
    text("broadcasturi", "the broadcast domain, such as vlan://100", ROOT_ADMIN_ONLY),
    text("traffictype", "Guest"),
    text("type", "the network's type: Isolated, Shared or L2"),
    flag("isdefault", "whether it leads to the default network"),
    text("macaddress", "the MAC address"),
    text("deviceid", "its number in the VM, from 0"),
)

SECURITY_GROUP_FIELDS = (
    text("id", "the security group"),
    text("name", "its name"),
    text("description", "its description"),
    text("account", "the account that owns it"),
    text("domainid", "the domain of the owner"),
    text("domain", "the name of the owner's domain"),
)

AFFINITY_GROUP_FIELDS = (
    text("id", "the affinity group"),
    text("name", "its name"),
    text("description", "its description"),
    text("type", "its type, such as host anti-affinity"),
    text("account", "the account that owns it"),
    text("domainid", "the domain of the owner"),
    text("domain", "the name of the owner's domain"),
)

VIRTUAL_MACHINE = Response(
    "virtualmachine",
    (
        text("id", "the VM"),
        text("name", "its host name"),
        text("displayname", "the name it is shown by"),
        text("instancename", "its name on the hypervisor", ROOT_ADMIN_ONLY),
        *OWNER_FIELDS,
        text("userid", "the user who deployed it"),
        text("username", "the name of that user"),
        text("groupid", "its instance group"),
        text("group", "the name of its instance group"),
        moment("created", "when it was made"),
        moment("lastupdated", "when its state last changed"),
        text("state", "Running, Starting, Stopped, Stopping, Migrating, Destroyed, Expunging or Error"),
        text("vmtype", "User"),
        text("zoneid", "its zone"),
        text("zonename", "the zone's name"),
        text("hostid", "the host that it runs on, or is about to run on", ROOT_ADMIN_ONLY),
        text("hostname", "the host's name", ROOT_ADMIN_ONLY),
        text("hypervisor", "the hypervisor"),
        text("pooltype", "the kind of pool that its root disk is on"),
        text("serviceofferingid", "its service offering"),
        text("serviceofferingname", "the service offering's name"),
        text("diskofferingid", "the disk offering given at deployment"),
        text("diskofferingname", "the disk offering's name"),
        number("cpunumber", "its CPU cores"),
        number("cpuspeed", "the speed of a core, MHz"),
        number("memory", "its memory, MiB"),
        flag("isdynamicallyscalable", "whether it can be scaled while it runs"),
        flag("haenable", "whether it is started elsewhere when its host fails"),
        text("templateid", "the template that it was made from"),
        text("templatename", "the template's name"),
        text("templatedisplaytext", "the template's description"),
        text("templatetype", "the template's type"),
        text("templateformat", "the template's format"),
        text("isoid", "the ISO that it was made from"),
        text("isoname", "the ISO's name"),
        text("isodisplaytext", "the ISO's description"),
        text("guestosid", "its guest OS type"),
        text("ostypeid", "its guest OS type"),
        text("osdisplayname", "the name of its guest OS type"),
        text("arch", "its CPU architecture"),
        flag("passwordenabled", "whether its password can be reset"),
        large_number("rootdeviceid", "the device number of its root disk"),
        text("rootdevicetype", "ROOT"),
        objects("nic", "its nics", NIC_FIELDS),
        text("ipaddress", "the address of its default nic"),
        objects("securitygroup", "its security groups", SECURITY_GROUP_FIELDS),
        objects("affinitygroup", "its affinity groups", AFFINITY_GROUP_FIELDS),
        TAGS,
        text("keypairs", "the names of its SSH key pairs, separated by commas"),
        text("userdata", "its user data, base64, where it is asked for"),
        text_map("details", "its details"),
        flag("displayvm", "whether it is shown to users"),
        flag("deleteprotection", "whether it is protected from being destroyed"),
        text("jobid", "the job that works on it"),
        number("jobstatus", "the status of that job"),
    ),
)
