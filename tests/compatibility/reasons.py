"""Why response fields of CloudStack are missing here, by class of reason: patterns over names of fields."""

import re

REASONS: tuple[tuple[str, str], ...] = (
    (
        "objects do not say whether they have annotations: listAnnotations does",
        r"annotation|lastannotated|hasannotations|adminsonly|entity(id|name|type)",
    ),
    ("a provider of network services serves one physical network", r"destinationphysicalnetworkid"),
    ("nothing here has an icon", r"icon|resourceicon|base64image"),
    ("hosts are not known by their GPUs", r".*gpu.*|maxheads|maxresolution[xy]|videoram"),
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
        r"vlanid|vlanname|dhcpprovider|maxconnections|mtu",
    ),
    ("there are no private VLANs, NSX and Tungsten Fabric", r"isolatedpvlan.*|nsx.*|tungsten.*|isportable"),
    (
        "offerings, not volumes, say rates, cache mode and encryption",
        r"disk(Bytes|Iops).*|(min|max)iops|cacheMode|encrypt.*",
    ),
    ("offerings, not volumes, say rates, cache mode and encryption", r"hypervisorsnapshotreserve|.*iops$"),
    ("there are no storage access groups and storage policies", r".*storageaccessgroups|vspherestoragepolicy"),
    ("the settings name the extension that runs the VMs of a hypervisor", r"extension.*"),
    ("VMs have no leases", r"lease.*"),
    ("there are no network appliances", r"vnf.*"),
    ("there are no groups of VMs that scale by themselves", r"autoscale.*"),
    ("passwords are never shown", r"password"),
    ("power and host HA of a host are in the objects outofbandmanagement and hostha", r"powerstate"),
    ("a call that changes host HA answers the state in listHosts", r"haenable|hastate|haprovider"),
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
    ("limits and counts by host or storage tag are not kept", r"tag|taggedresources"),
    ("whether API keys may be used is not said for an account or a user", r"apikeyaccess"),
    ("hosts run no agent", r"events|lastpinged|disconnected|capabilities|cpuloadaverage|ueficapability"),
    ("hosts have no operating system type", r"oscategory.*|osdisplayname|osid"),
    (
        "fields of system VMs, which do not exist",
        r"systemvmtype|forsystemvms|hostcontrolstate|virtualmachineid|agentstate",
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
        "figures in words of lists with metrics, which the plain fields have in numbers",
        r"(disk|network)(read|write)",
    ),
    (
        "figures in words of lists with metrics, which the plain fields have in numbers",
        r".*threshold|.*maxdeviation",
    ),
    (
        "figures in words of lists with metrics, which the plain fields have in numbers",
        r"(cpu|memory)used(ghz|gb)?|drsimbalance",
    ),
    ("a snapshot lies in its volume", r"datastore.*|snapshotid|storage$|chain.*|downloaddetails|status"),
    ("ISOs are attached to VMs, not to volumes", r"iso(id|name|displaytext)"),
    ("user data that is registered is copied into a VM, or not linked to templates", r"userdata.*"),
    ("templates have no parents and no properties", r"(parent|source)templateid|deployasisdetails|host(id|name)"),
    (
        "usage of networks, domains and projects is counted under other types only",
        r"(project|network|template)(limit|total|available)",
    ),
    (
        "accounts and domains have no details and no groups",
        r"accountdetails|domaindetails|resourcedetails|defaultzoneid",
    ),
    ("accounts and domains have no details and no groups", r"iscleanuprequired"),
    (
        "offerings and networks are for everybody or for one owner, without conditions",
        r"domain(id|path)?|zone(id|token)?|tags?",
    ),
    (
        "offerings and networks are for everybody or for one owner, without conditions",
        r"account|project(id)?|provider",
    ),
    ("Oracle VM is no hypervisor here", r"ovm3vip"),
    ("hosts that were removed, and their users, are not shown", r"removed|username"),
    ("findHostsForMigration lists only what is suitable", r"hasenoughcapacity|requiresStorageMotion|suitablefor.*"),
    ("the detail UEFI of a VM says how it boots", r"boot(mode|type)"),
    ("VMs and networks belong to no service outside", r"servicestate|externalid|associatednetwork.*"),
    ("pools have no settings of their own", r"storagecustomstats|nfsmountopts"),
    ("accounts and domains have no details and no groups", r"groups"),
    ("listDedicatedHosts and its like say what is dedicated", r"dedicatedresources"),
    ("the object has no details", r"details"),
    ("networks have no reserved ranges and lie in one zone", r"reservediprange|networkcidr|zonesnetworkspans"),
    ("a network shows this of its offering by listNetworkOfferings", r"networkofferingconservemode|canenable.*"),
    ("the root disk is part of the service offering", r"diskoffering(id|name|displaytext)"),
    ("hosts have no operating system type", r"ostypeid"),
    ("keys are shown by getUserKeys only", r"secretkey"),
    ("users log in by their password only", r"usersource"),
    ("there are no shared file systems", r"sharedfs.*"),
    ("usage is kept for the time that vm.stats.* say", r"instances.*retentiontime"),
    ("hypervisors are listed under their own names", r"customhypervisordisplayname"),
    ("settings have names, no titles and no parents", r"displaytext|parent|id"),
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
    ("listApis describes parameters by their type", r"type"),
    ("accounts belong to projects, and are not invited by e-mail", r"userid|email"),
    ("there is no usage server, whose jobs could succeed", r"lastsuccessfuljob"),
    ("TLS ends in front of the service", r"tlsversions"),
    ("a snapshot lies where its volume does", r"zone|storage|snapshotname"),
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
