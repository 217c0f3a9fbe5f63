"""The parameters of deployVirtualMachine and of the bulk call (cloudstack-protocol.md 5.1).

Both calls have the parameters that can apply to many equal VMs. Only the single call has the parameters that apply
to one VM; the bulk call rejects them. Both reject parameters of CloudStack that the service does not have.
"""

from bulkdeploy.commands.parameters.lease_parameters import LEASE, LEASE_RULES
from bulkdeploy.commands.unsupported import (
    NO_CUSTOM_IDS,
    NO_DHCP_OPTIONS,
    NO_EXTENSIONS,
    NO_IPV6,
    NO_SETUP,
    NO_VNF,
    NOTHING_FROM_SNAPSHOTS,
)
from bulkdeploy.declare.parameters import (
    Exclusive,
    Needs,
    Parameter,
    Rule,
    WireType,
    boolean,
    long,
    mapping,
    string,
    strings,
    uuid,
    uuids,
)
from bulkdeploy.declare.value_rules import VARIANT_NAME
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.infrastructure.topology import HypervisorType
from bulkdeploy.domain.virtual_machines.firmware import BootMode, BootType
from bulkdeploy.domain.virtual_machines.sizes import MOST_DISK_GIB
from bulkdeploy.scheduling.catalog import planners

DATA_DISK = (("diskofferingid", Entity.DISK_OFFERING), ("size", None))
"""The fields of a data disk: its offering, and its size in GiB if the offering leaves the size open."""

NUMBERED_DATA_DISK = (*DATA_DISK, ("deviceid", None), ("miniops", None), ("maxiops", None))
"""The fields of a data disk with its number in the VM.

IOPS are for offerings with custom IOPS, which this service does not have.
"""

KEYBOARDS = ("de", "de-ch", "es", "fi", "fr", "fr-be", "fr-ch", "is", "it", "jp", "nl-be", "no", "pt", "uk", "us")

NIC = (("networkid", Entity.NETWORK), ("ip", None), ("ipv6", None), ("mac", None))
"""The fields of a NIC: its network, and its requested addresses."""


def deployment_planner(description: str) -> Parameter:
    """Return the declaration of the parameter that names a deployment planner.

    The parameter is ignored unless the caller is a root admin (cloudstack-protocol.md 5.1).
    """
    return Parameter("deploymentplanner", WireType.STRING, description, choices=planners(), roles=ROOT_ADMIN_ONLY)


OF_ANY_VM: tuple[Parameter, ...] = (
    uuid("zoneid", Entity.ZONE, "the zone to deploy in", required=True),
    uuid("serviceofferingid", Entity.SERVICE_OFFERING, "the service offering of each VM", required=True),
    Parameter(
        "templateid",
        WireType.UUID,
        "the template or ISO of each VM",
        required=True,
        entity=(Entity.TEMPLATE, Entity.ISO),
    ),
    string("account", "the account that will own the VMs; domainid names its domain"),
    uuid("domainid", Entity.DOMAIN, "the domain of the account"),
    uuid("projectid", Entity.PROJECT, "the project that will own the VMs; used instead of account"),
    string(
        "hypervisor",
        "the hypervisor; required if the template has none",
        choices=tuple(kind.value for kind in HypervisorType),
    ),
    string("keypair", "the owner's SSH key pair to log in with"),
    strings("keypairs", "the owner's SSH key pairs to log in with"),
    string("userdata", "the user data for the guests, in base64; not with userdataid", length=1048576),
    uuid("userdataid", Entity.USER_DATA, "the id of registered user data; not with userdata", since="4.18"),
    mapping("userdatadetails", "values of variables in the user data: userdatadetails[0].variable=value"),
    uuids(
        "networkids", Entity.NETWORK, "the networks of each VM, the default network first; only in Advanced zones"
    ),
    Parameter(
        "diskofferingid",
        WireType.UUID,
        "the disk offering of the root disk if an ISO is given, otherwise of a data disk",
        entity=(Entity.DISK_OFFERING,),
        spellings=("diwskofferingid",),  # the spelling in the functional specification of the bulk call
    ),
    long("size", "the size in GiB of the disk of diskofferingid; only for custom disk offerings", minimum=1),
    long(
        "rootdisksize",
        "the size of the root disk in GiB; default: the size that the offering or the template determines",
        minimum=1,
        maximum=MOST_DISK_GIB,
    ),
    uuid(
        "overridediskofferingid",
        Entity.DISK_OFFERING,
        "the disk offering of the root disk; overrides the service offering",
    ),
    mapping(
        "datadiskofferinglist",
        "the disk offerings of several data disks, one per index; instead of diskofferingid",
        DATA_DISK,
    ),
    mapping(
        "datadisksdetails",
        "the data disks of each VM: datadisksdetails[0].diskofferingid, .size (GiB) and .deviceid (the number "
        "of the disk in the VM, at least 1); not with datadiskofferinglist. miniops and maxiops are ignored, "
        "because no disk offering has custom IOPS",
        NUMBERED_DATA_DISK,
    ),
    uuids(
        "securitygroupids",
        Entity.SECURITY_GROUP,
        "the security groups of each VM, in zones with security groups; default: the group named default; not with "
        "securitygroupnames",
    ),
    strings("securitygroupnames", "the security groups by name; not with securitygroupids"),
    uuids("affinitygroupids", Entity.AFFINITY_GROUP, "the affinity groups of each VM; not with affinitygroupnames"),
    strings("affinitygroupnames", "the affinity groups by name; not with affinitygroupids"),
    string("group", "the instance group of the VMs; created if it does not exist"),
    mapping(
        "details",
        "cpuNumber, cpuSpeed (MHz) and memory (MiB) for custom offerings; rootdisksize (GiB), which overrides the"
        " parameter rootdisksize; from root admins disk.NAME and nic.NAME, which the driver reads; other details"
        " are stored with the VMs",
    ),
    string("templatevariant", "the variant of the template", rule=VARIANT_NAME),
    boolean("forcetemplatevariant", "allow a variant that the template does not declare"),
    boolean("displayvm", "whether users can see the VMs; default true", roles=ROOT_ADMIN_ONLY),
    boolean("dynamicscalingenabled", "false: running VMs cannot be scaled even if the offering allows it"),
    string(
        "boottype",
        "the firmware of the guests; default: UEFI if the template has the detail UEFI, otherwise BIOS",
        choices=tuple(BootType),
    ),
    string(
        "bootmode", "SECURE: the UEFI firmware boots only signed software; default: LEGACY", choices=tuple(BootMode)
    ),
    string("keyboard", "the layout of the keyboard; accepted but ignored", choices=KEYBOARDS),
    uuid("podid", Entity.POD, "deploy only in this pod; root admins only"),
    uuid("clusterid", Entity.CLUSTER, "deploy only in this cluster; root admins only"),
    deployment_planner(
        "the deployment planner that places the VMs. Default of a bulk call: dispersal by count over the hosts "
        "that the planner of the service offering allows; of a single VM: the planner of the service offering, or "
        "else the setting vm.deployment.planner"
    ),
    *LEASE,
    boolean("startvm", "whether the VMs are started; default true"),
    boolean("dryrun", "true: only return the plan with its reasons; the call deploys nothing"),
    boolean("summary", "with dryrun: true leaves the list of hosts that get VMs out of the response"),
    long(
        "planindex",
        "the index of a plan that a dry run of this call returned. The call applies exactly that plan, or is "
        "rejected if that is no longer possible",
        minimum=1,
    ),
    uuids(
        "hostids",
        Entity.HOST,
        "with dryrun: hosts about which the response reports whether they can get VMs, or why not; root admins "
        "only",
    ),
)

OF_ONE_VM: tuple[Parameter, ...] = (
    string("name", "the host name; default: a generated name"),
    string("displayname", "the display name; default: the host name"),
    string("ipaddress", "the IP address in the default network; default: a free address"),
    string("macaddress", "the MAC address in the default network; default: a generated address"),
    mapping(
        "iptonetworklist", "the networks, the default network first, each with optional IP and MAC addresses", NIC
    ),
    uuid("hostid", Entity.HOST, "deploy only on this host; root admins only"),
)

NOT_OF_MANY = {
    "name": "the names of the VMs are generated; use nameprefix",
    "displayname": "each VM gets its host name as display name; use nameprefix",
    "ipaddress": "each VM gets its own IP address",
    "macaddress": "each VM gets its own MAC address",
    "iptonetworklist": "each VM gets its own addresses; use networkids to select the networks",
    "customid": NO_CUSTOM_IDS,
    "customjobid": "each VM has its own job, with a generated id",
    "hostid": "the VMs are dispersed over hosts; use podid or clusterid to limit the placement",
}
"""Parameters of the single call that the bulk call rejects, with the reasons."""

RULES: tuple[Rule, ...] = (
    *LEASE_RULES,
    Needs("forcetemplatevariant", "templatevariant"),
    Needs("hostids", "dryrun"),
    Needs("summary", "dryrun"),
    Exclusive(("securitygroupids", "securitygroupnames")),
    Exclusive(("affinitygroupids", "affinitygroupnames")),
    Exclusive(("userdata", "userdataid")),
    Exclusive(("diskofferingid", "datadiskofferinglist")),
    Exclusive(("diskofferingid", "datadisksdetails")),
    Exclusive(("datadiskofferinglist", "datadisksdetails")),
)

RULES_OF_ONE_VM: tuple[Rule, ...] = (
    *RULES,
    Exclusive(("iptonetworklist", "networkids")),
    Exclusive(("iptonetworklist", "ipaddress")),
    Exclusive(("iptonetworklist", "macaddress")),
)

UNSUPPORTED = {
    "ip6address": NO_IPV6,
    "dhcpoptionsnetworklist": NO_DHCP_OPTIONS,
    "snapshotid": NOTHING_FROM_SNAPSHOTS,
    "volumeid": "a VM is created from a template or an ISO, not from a volume",
    "password": "the password of a guest cannot be set at deployment",
    "extraconfig": "extra configuration for hypervisors is not supported",
    "nicnetworklist": NO_VNF,
    "bootintosetup": NO_SETUP,
    "copyimagetags": "tags of the image are not copied; use createTags",
    "externaldetails": NO_EXTENSIONS,
    "properties": "templates have no OVF properties",
    **dict.fromkeys(
        ("iodriverpolicy", "iothreadsenabled", "nicmultiqueuenumber", "nicpackedvirtqueuesenabled"),
        "the hypervisor chooses the drivers of disks and nics",
    ),
}
"""Parameters of CloudStack's deploy call that both calls reject, with the reasons."""
