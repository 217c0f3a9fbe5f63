"""Why response fields of CloudStack are missing here, by class of reason: patterns over names of fields."""

import re

REASONS: tuple[tuple[str, str], ...] = (
    ("a provider of network services serves one physical network", r"destinationphysicalnetworkid"),
    ("nothing here has an icon", r"icon|resourceicon|base64image"),
    ("GPUs of hosts are not recorded", r".*gpu.*|maxheads|maxresolution[xy]|videoram"),
    ("there are no backups, buckets and object stores", r"backup.*|bucket.*|objectstorage.*"),
    ("there are no VPCs, access lists and private gateways", r"vpc.*|acl.*|.*vpc(id|name)?"),
    ("networks have IPv4 addresses only", r"ip6.*|.*ipv6|ipv6.*"),
    (
        "networks have no routers, public addresses and dynamic routing",
        r"asn.*|bgp.*|ip4rout.*|publicip.*|isredundant.*",
    ),
    (
        "networks have no routers, public addresses and dynamic routing",
        r"(router|public|private).*mtu|routingmode|networkmode",
    ),
    (
        "networks have no routers, public addresses and dynamic routing",
        r"vlanid|vlanname|dhcpprovider|mtu",
    ),
    ("there are no private VLANs, NSX and Tungsten Fabric", r"isolatedpvlan.*|nsx.*|tungsten.*|isportable"),
    (
        "offerings, not volumes, say rates, cache mode and encryption",
        r"disk(Bytes|Iops).*|(min|max)iops|cacheMode|encrypt.*",
    ),
    ("offerings, not volumes, say rates, cache mode and encryption", r"hypervisorsnapshotreserve|.*iops$"),
    ("there are no storage access groups and storage policies", r".*storageaccessgroups|vspherestoragepolicy"),
    ("extensions are configured in the settings of the service", r"extension.*"),
    ("there are no network appliances", r"vnf.*"),
    ("there are no autoscale groups", r"autoscale.*"),
    ("passwords are never shown", r"password"),
    ("listHosts shows the power of a host in the object outofbandmanagement", r"powerstate"),
    ("listHosts shows the state of host HA in the object hostha", r"haenable|hastate|haprovider"),
    ("the service is no program for the Java machine", r"java.*|heap.*|threads.*|availableprocessors"),
    (
        "processes of the service come and go and are not told apart",
        r"(last(server|boot|agents|heartbeat)|cpuload$|loginfo).*",
    ),
    (
        "processes of the service come and go and are not told apart",
        r"system(memory|load|total|cycle).*|sessions|agentcount",
    ),
    ("processes of the service come and go and are not told apart", r"collectiontime|(db|usage)islocal|serviceip"),
    ("processes of the service come and go and are not told apart", r"ipaddress"),
    ("there are no limits per host tag or storage tag", r"tag|taggedresources"),
    ("API keys cannot be switched off apart from their users: a disabled user's keys do not work", r"apikeyaccess"),
    ("no agent on a host reports pings, events and its load", r"events|lastpinged|disconnected|cpuloadaverage"),
    ("the driver of a host's hypervisor, not the host, says whether guests boot with UEFI", r"ueficapability"),
    ("drivers are not told which operating system a host runs", r"oscategory.*"),
    ("drivers are not told which operating system an unmanaged guest runs", r"osdisplayname|osid"),
    (
        "fields of system VMs, which do not exist",
        r"systemvmtype|forsystemvms|virtualmachineid|agentstate",
    ),
    (
        "sizes and paths of volumes on pools are the hypervisor's to know",
        r"chaininfo|path|physicalsize|virtualsize|chainsize",
    ),
    (
        "sizes and paths of volumes on pools are the hypervisor's to know",
        r"utilization|externaluuid|volume.*result|disksizeused.*",
    ),
    (
        "figures are kept by VM, not by volume or network",
        r"diskio(read|write)|diskkbs.*|(received|sent)bytes|diskiopstotal",
    ),
    (
        "use is measured by host; listHostsMetrics with clusterid or zoneid shows it",
        r"(cpu|memory)(used|threshold|disablethreshold|maxdeviation)",
    ),
    ("listClusterDrsPlan with its commands says whether a cluster is unbalanced", r"drsimbalance"),
    ("snapshots are stored with their volume, not in a separate data store", r"datastore.*|snapshotid|storage$"),
    ("a snapshot or a volume is complete when its job has ended: its state says so", r"status|downloaddetails"),
    ("ISOs are attached to VMs, not to volumes", r"iso(id|name|displaytext)"),
    ("registered user data is copied into VMs, which do not name it", r"userdata.*"),
    ("templates are registered by URL or made from a volume, never copied from a template", r".*templateid"),
    ("OVF properties exist on VMware only", r"deployasisdetails"),
    ("templates, tags and host HA answers belong to a zone or to the host that the call names", r"host(id|name)"),
    ("projects are limited and counted by domain: listDomains shows it", r"project(limit|total|available)"),
    ("accounts, domains, zones and clusters have settings in place of details", r".+details"),
    ("accounts have no default zone: calls name theirs", r"defaultzoneid"),
    ("an account that was deleted is cleaned up by jobs, and is not listed", r"iscleanuprequired"),
    ("ranges of addresses, physical networks and routers belong to zones, not to owners", r"domain(id|path)?"),
    ("ranges of addresses, physical networks and routers belong to zones, not to owners", r"account|project(id)?"),
    ("the only DNS and DHCP of zones is what networks say: there are no providers of zones", r"provider"),
    ("a snapshot policy takes snapshots where its volume lies", r"zone"),
    ("zones have no tokens: hosts are added by their addresses", r"zonetoken"),
    ("tags of projects are listed by listTags", r"tags"),
    ("Oracle VM is no hypervisor here", r"ovm3vip"),
    ("lists show nothing that was removed", r"removed"),
    ("names of users with which hosts are managed are not shown", r"username"),
    (
        "findHostsForMigration says by suitableformigration whether a host has room, and why not",
        r"hasenoughcapacity",
    ),
    ("a VM moves with its volumes where they are: storage does not move", r"requiresStorageMotion"),
    ("volumes do not move between pools, and offerings are listed for the volume", r"suitablefor.*"),
    ("drivers are not told how an unmanaged guest boots", r"boot(mode|type)"),
    ("VMs belong to no network service", r"servicestate"),
    ("networks exist here only, and on their own", r"externalid|associatednetwork.*"),
    ("pools have no settings of their own", r"storagecustomstats|nfsmountopts"),
    ("accounts have one role and are in no groups", r"groups"),
    ("listDedicatedHosts and its like say what is dedicated", r"dedicatedresources"),
    ("consoles, networks, network offerings and extensions have no details", r"details"),
    ("networks have no reserved ranges and lie in one zone", r"reservediprange|networkcidr|zonesnetworkspans"),
    ("a network shows this of its offering by listNetworkOfferings", r"networkofferingconservemode|canenable.*"),
    ("the root disk is part of the service offering", r"diskoffering(id|name|displaytext)"),
    ("the template of a snapshot's volume has the operating system type", r"ostypeid"),
    ("keys are shown by getUserKeys only", r"secretkey"),
    ("users log in by their password only", r"usersource"),
    ("there are no shared file systems", r"sharedfs.*"),
    ("usage is kept for the time that vm.stats.* say", r"instances.*retentiontime"),
    ("hypervisors are listed under their own names", r"customhypervisordisplayname"),
    ("settings, host tags and storage tags are named by their texts", r"displaytext|id"),
    ("events name resources by their ids", r"resourcename|resources"),
    (
        "categories, groups and extensions are made with the service",
        r"created|description|fordisplay|isuserdefined",
    ),
    ("tags are texts of hosts and pools, without ids", r"isimplicit|poolid"),
    ("hypervisors have no such limit", r"maxhostspercluster|securitygroupenabled|cpucorepersocket"),
    (
        "nics have no driver, DHCP options and secondary addresses of this form",
        r"adaptertype|ipaddresses|extradhcpoption",
    ),
    ("listNetworkOfferings says what a service can do", r"capability"),
    ("the type of an API's answer is that of its fields, which listApis describes", r"type"),
    ("accounts belong to projects, and are not invited by e-mail", r"userid|email"),
    ("there is no usage server, whose jobs could succeed", r"lastsuccessfuljob"),
    ("TLS ends in front of the service", r"tlsversions"),
    ("details of resources name no customer", r"customer"),
    ("snapshots are stored on the pool of the volume", r"zone|storage|snapshotname"),
)
"""Reasons with patterns that the whole name of a field fits; the first that fits gives the reason."""

OTHER_CLASS = frozenset(
    {
        *("executeClusterDrsPlan", "generateClusterDrsPlan"),
        *("addIpToNic", "authorizeSecurityGroupEgress", "authorizeSecurityGroupIngress", "listProjectAccounts"),
        *("listTrafficTypes", "registerUserData", "updateCustomAction"),
    }
)
"""Commands for which CloudStack declares another class of responses than the one that it answers."""

NO_REASON = "no reason is given yet"


def reason_for(command: str, field: str) -> str:
    """Return why a field that CloudStack declares for a command's answer is missing."""
    if command in OTHER_CLASS:
        return "CloudStack answers other fields than the class has that it declares for the command"
    found = (reason for reason, pattern in REASONS if re.fullmatch(pattern, field))
    return next(found, NO_REASON)


NOTHING_THERE = "there is nothing of this kind that an id could name"
DIFFERENCES: dict[tuple[str, str], str] = {
    ("archiveAlerts", "type"): "alerts have types by number",
    ("deleteAlerts", "type"): "alerts have types by number",
    ("listAlerts", "type"): "alerts have types by number",
    ("listAsyncJobs", "startdate"): "a moment may be given, not only a day",
    ("updateStoragePool", "tags"): "one text; elements are separated by commas in both",
    ("login", "domainid"): "a domain is named by its uuid",
    ("importRole", "type"): "a role without a type has no rights",
    ("addAccountToProject", "account"): "accounts, not users, are in projects",
    ("createVlanIpRange", "startip"): "a range consists of addresses",
    ("createVolume", "zoneid"): "volumes are made from an offering in a zone",
    ("createVolume", "diskofferingid"): "volumes are made from an offering in a zone",
    ("deployVirtualMachine", "templateid"): "VMs are made from a template or an ISO",
    ("addImageStore", "url"): "an image store is an NFS export of a zone",
    ("addImageStore", "zoneid"): "an image store is an NFS export of a zone",
}
"""Why parameters differ in type, length or need, by command and parameter."""


def reason_for_difference(command: str, parameter: str, *, is_empty_list: bool) -> str:
    """Return why a parameter is declared otherwise than in CloudStack."""
    if is_empty_list or command.startswith(
        ("listExtensions", "listManagementServers", "listHypervisorCapabilities")
    ):
        return (
            NOTHING_THERE
            if is_empty_list
            else "the one that there is has an id that is no uuid, or is found by text"
        )
    if parameter == "managementserverid":
        return "the service is one management server"
    return DIFFERENCES.get((command, parameter), "less is needed here, or more is accepted")
