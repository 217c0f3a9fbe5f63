"""The conversion of a CloudStack's rows to entries of zone files (one file: one table of equivalents).

The keys of an entry are parameters of this service's commands, and the values are texts as in an API call. Objects
keep their ids of CloudStack. Fields without an equivalent are ignored. Rows without an equivalent are left out and
reported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bulkdeploy.cloudstack.client import Row
from bulkdeploy.cloudstack.host_capacity import cores_of, memory_mib_of, overcommit_of
from bulkdeploy.declare.value_rules import UNLIMITED as NO_LIMIT

Texts: TypeAlias = dict[str, Any]
"""Values of an entry: texts, lists of texts, or mappings of texts."""


class NotRepresented(Exception):
    """Raised when this service has no equivalent for a row of a CloudStack."""


@dataclass(frozen=True, slots=True)
class Source:
    """The list call of CloudStack that provides the entries of a section.

    Attributes:
        section: the section of zone files.
        command: the list command. Rows of a command that several sources use are read once.
        entries: a function that converts a row to entries. It gets the row and all rows of the import by command.
        parameters: the parameters of the list call.
        of_projects: whether a second call with ``projectid=-1`` is needed to list objects of projects.
    """

    section: str
    command: str
    entries: Callable[[Row, "Rows"], Iterator[Texts]]
    parameters: Mapping[str, str] = field(default_factory=dict)
    of_projects: bool = False


Rows: TypeAlias = Mapping[str, list[Row]]

OWNED = {"listall": "true"}


def taken(row: Row, *names: str, **renamed: str) -> Texts:
    """Return the non-empty fields of a row as texts.

    ``renamed`` maps names of the service to different names of CloudStack.
    """
    pairs = [(name, name) for name in names] + list(renamed.items())
    return {ours: text_of(row[theirs]) for ours, theirs in pairs if row.get(theirs) not in (None, "")}


def text_of(value: object) -> str:
    """Return a value as text in the format of an API parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def owner(row: Row) -> Texts:
    """Return the owner of a row: a project, or an account of a domain."""
    if row.get("projectid"):
        return {"projectid": str(row["projectid"])}
    return taken(row, "account", "domainid")


def _domains(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("parentdomainid"):
        yield taken(row, "name", "parentdomainid", "networkdomain")


def _roles(row: Row, rows: Rows) -> Iterator[Texts]:
    rules = [one for one in rows["listRolePermissions"] if one.get("roleid") == row["id"]]
    entry = taken(row, "name", "type", "description")
    if rules:
        entry["rules"] = [taken(one, "rule", "permission", "description") for one in rules]
    yield entry


def _accounts(row: Row, _: Rows) -> Iterator[Texts]:
    more = () if row.get("isdefault") else ("roleid", "networkdomain", "state")
    yield taken(row, "domainid", *more, account="name")


def _users(row: Row, _: Rows) -> Iterator[Texts]:
    more = () if row.get("isdefault") else ("firstname", "lastname", "email", "timezone", "state")
    if row.get("username") != "system":
        yield taken(row, "account", "domainid", "username", *more)


def _projects(row: Row, _: Rows) -> Iterator[Texts]:
    owners = row.get("owner") or [{}]
    name = row.get("account") or owners[0].get("account")
    yield {**taken(row, "name", "domainid"), "displaytext": row.get("displaytext") or row["name"], "account": name}


def _zones(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("type") == "Edge":
        raise NotRepresented("edge zones are not supported")
    entry = taken(
        row,
        *("name", "networktype", "dns1", "dns2", "internaldns1", "internaldns2", "domain", "domainid"),
        *("localstorageenabled", "allocationstate"),
        securitygroupenabled="securitygroupsenabled",
    )
    if entry["networktype"] == "Advanced" and row.get("guestcidraddress"):
        entry["guestcidraddress"] = str(row["guestcidraddress"])
    yield entry


def _physical_networks(row: Row, _: Rows) -> Iterator[Texts]:
    yield taken(row, "name", "zoneid", "vlan", "state")


def _pods(row: Row, _: Rows) -> Iterator[Texts]:
    entry = taken(row, "name", "zoneid", "gateway", "netmask", "allocationstate")
    if ranges := row.get("ipranges"):
        entry |= taken(ranges[0], startip="startip", endip="endip")
    yield entry


def _clusters(row: Row, _: Rows) -> Iterator[Texts]:
    entry = taken(row, "zoneid", "podid", "clustertype", "allocationstate", "managedstate", clustername="name")
    entry["hypervisor"] = hypervisor_of(row, "hypervisortype")
    yield entry


def hypervisor_of(row: Row, field_name: str = "hypervisor") -> str:
    """Return the hypervisor type of a row in the spelling of API parameters."""
    return HYPERVISORS.get(str(row[field_name]).lower(), str(row[field_name]))


HYPERVISORS = {
    name.lower(): name
    for name in ("XenServer", "KVM", "VMware", "Hyperv", "BareMetal", "Simulator", "Ovm", "Ovm3", "LXC", "None")
}


def _overcommit(row: Row, _: Rows) -> Iterator[Texts]:
    for name, field_name in (
        ("cpu.overprovisioning.factor", "cpuovercommitratio"),
        ("mem.overprovisioning.factor", "memoryovercommitratio"),
    ):
        if row.get(field_name):
            yield {"name": name, "value": str(float(row[field_name])), "clusterid": str(row["id"])}


def _hosts(row: Row, rows: Rows) -> Iterator[Texts]:
    cpu_factor, memory_factor = overcommit_of(row, rows["listClusters"])
    entry = taken(row, "name", "zoneid", "podid", "clusterid", "ipaddress", "hypervisorversion", "hosttags")
    entry |= {
        "hypervisor": hypervisor_of(row),
        "url": f"cloudstack://{row['id']}",
        "cpusockets": str(row.get("cpusockets") or 1),
        "cpucores": str(cores_of(row, cpu_factor)),
        "cpumhz": str(row["cpuspeed"]),
        "memorymib": str(memory_mib_of(row, memory_factor)),
        "state": "Up" if row.get("state") == "Up" else str(row.get("state") or "Down"),
        "resourcestate": str(row.get("resourcestate") or "Enabled"),
    }
    yield entry


def _pools(row: Row, rows: Rows) -> Iterator[Texts]:
    entry = taken(row, "name", "zoneid", "podid", "clusterid", "scope", "state", "tags", "path", pooltype="type")
    if row.get("scope") == "HOST":
        of_host = hosts_of_pool(row, rows["listHosts"])
        if len(of_host) != 1:
            raise NotRepresented(
                f"{len(of_host)} hosts of the pool's cluster have its address {row.get('ipaddress')}"
            )
        entry["hostid"] = str(of_host[0]["id"])
    entry |= {"server": str(row.get("ipaddress") or ""), "capacitybytes": str(int(row["disksizetotal"]))}
    if row.get("hypervisor"):
        entry["hypervisor"] = hypervisor_of(row)
    yield entry


def hosts_of_pool(pool: Row, hosts: Iterable[Row]) -> list[Row]:
    """Return the hosts that a local storage pool may be on: CloudStack names the host by address only."""
    return [
        host
        for host in hosts
        if host.get("ipaddress") == pool.get("ipaddress") and pool.get("clusterid") in (None, host.get("clusterid"))
    ]


def _pool_factors(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("overprovisionfactor") and row.get("scope") != "HOST":
        value = str(float(row["overprovisionfactor"]))
        yield {"name": "storage.overprovisioning.factor", "value": value, "storageid": str(row["id"])}


def _offering(row: Row, *names: str) -> Texts:
    entry = taken(row, "name", "displaytext", "storagetype", "domainid", "zoneid", *names)
    return {"displaytext": str(row["name"]), **entry}


def _service_offerings(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("issystem"):
        return
    entry = _offering(
        row,
        *("cpunumber", "cpuspeed", "memory", "hosttags", "deploymentplanner", "offerha", "limitcpuuse"),
        *("dynamicscalingenabled", "networkrate", "state"),
    )
    if tags := row.get("storagetags"):
        entry["tags"] = str(tags)
    if int(row.get("rootdisksize") or 0):
        entry["rootdisksize"] = str(row["rootdisksize"])
    if row.get("iscustomized"):
        for name in ("cpunumber", "memory"):
            entry.pop(name, None)
        entry["customized"] = "true"
        chosen = row.get("serviceofferingdetails") or {}
        bounds = {name: str(chosen[name]) for name in BOUNDS if chosen.get(name)}
        entry |= bounds if len(bounds) == len(BOUNDS) else {}
    yield entry


BOUNDS = ("mincpunumber", "maxcpunumber", "minmemory", "maxmemory")


def _disk_offerings(row: Row, _: Rows) -> Iterator[Texts]:
    entry = _offering(row, "provisioningtype", "tags", "displayoffering", "state")
    if row.get("iscustomized"):
        entry["customized"] = "true"
    else:
        entry["disksize"] = str(row["disksize"])
    yield entry


def _network_offerings(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("forvpc"):
        raise NotRepresented("VPCs are not supported, so their networks are not imported")
    entry = taken(
        row,
        "name",
        "displaytext",
        "guestiptype",
        "traffictype",
        "specifyvlan",
        "networkrate",
        "conservemode",
        "state",
    )
    if row.get("guestiptype") == "Shared":
        entry["specifyipranges"] = "true"
    if services := [str(one["name"]) for one in row.get("service") or () if one.get("name") in SERVICES]:
        entry["supportedservices"] = services
    yield entry


SERVICES = frozenset(
    {
        *("Dhcp", "Dns", "Firewall", "Gateway", "Lb", "NetworkACL", "PortForwarding", "SecurityGroup", "SourceNat"),
        *("StaticNat", "UserData", "Vpn"),
    }
)


def _images(row: Row, *names: str) -> Texts:
    entry = {
        **taken(
            row, "name", "displaytext", "zoneid", "ispublic", "isfeatured", "isextractable", "bootable", *names
        ),
        **taken(row, "passwordenabled", "isdynamicallyscalable", "isready"),
        **owner(row),
    }
    for ours, theirs in (("size", "size"), ("physicalsize", "physicalsize")):
        if int(row.get(theirs) or 0) > 0:
            entry[ours] = str(int(row[theirs]))
    return entry


def _templates(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("templatetype") == "SYSTEM" or row.get("format") not in FORMATS:
        return
    entry = _images(row, "format", "sshkeyenabled", "requireshvm", "templatetag")
    entry["hypervisor"] = HYPERVISORS.get(str(row.get("hypervisor")).lower(), "None")
    if row.get("templatetype") in ("BUILTIN", "USER"):
        entry["templatetype"] = str(row["templatetype"])
    yield entry


FORMATS = frozenset({"QCOW2", "RAW", "VHD", "VHDX", "OVA", "VMDK", "BAREMETAL", "TAR", "DIR"})


def _isos(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("zoneid"):
        yield _images(row)


def _networks(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("vpcid"):
        raise NotRepresented("VPCs are not supported, so their networks are not imported")
    if row.get("traffictype", "Guest") != "Guest":
        return
    entry = taken(
        row,
        *(
            "name",
            "displaytext",
            "zoneid",
            "networkofferingid",
            "acltype",
            "gateway",
            "netmask",
            "physicalnetworkid",
        ),
        *("networkdomain", "cidr"),
        guesttype="type",
    )
    if entry.get("acltype") == "Domain":
        entry |= taken(row, "domainid", "subdomainaccess")
    else:
        entry |= owner(row)
    if vlan := str(row.get("vlan") or row.get("broadcasturi") or "").removeprefix("vlan://"):
        entry["vlan"] = vlan
    yield entry


def _ranges(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("forvirtualnetwork"):
        raise NotRepresented("public addresses are not supported")
    if row.get("networkid"):
        yield taken(row, "zoneid", "networkid", "podid", "startip", "endip", "gateway", "netmask")


def _security_groups(row: Row, _: Rows) -> Iterator[Texts]:
    # every account has the group default, whose description this service sets
    described = () if row["name"] == "default" else ("description",)
    yield {**taken(row, "name", *described), **owner(row)}


def _rules(direction: str) -> Callable[[Row, Rows], Iterator[Texts]]:
    def entries(row: Row, _: Rows) -> Iterator[Texts]:
        for rule in row.get(f"{direction}rule") or ():
            entry = {"securitygroupid": str(row["id"]), **taken(rule, "protocol", "startport", "endport")}
            entry |= {name: text_of(rule[name]) for name in ("icmptype", "icmpcode") if rule.get(name) is not None}
            if rule.get("cidr"):
                entry["cidrlist"] = str(rule["cidr"])
            elif rule.get("securitygroupname"):
                other = {"account": str(rule["account"]), "group": str(rule["securitygroupname"])}
                entry["usersecuritygrouplist"] = [other]
            else:
                raise NotRepresented(
                    f"an {direction} rule of {row['name']} names neither a network nor a security group"
                )
            yield entry

    return entries


def _affinity_groups(row: Row, _: Rows) -> Iterator[Texts]:
    if row.get("type") == "ExplicitDedication":
        raise NotRepresented("dedications are not imported")
    yield {**taken(row, "name", "type", "description"), **owner(row)}


UNLIMITED = "Unlimited"
UNITS = {"memory": " MiB", "primary_storage": " GiB", "secondary_storage": " GiB"}


def _limits(holder: Callable[[Row], Texts]) -> Callable[[Row, Rows], Iterator[Texts]]:
    def entries(row: Row, _: Rows) -> Iterator[Texts]:
        if _is_never_limited(row):
            return
        for field_name, resource in LIMITS.items():
            value = row.get(f"{field_name}limit")
            if value in (None, ""):
                continue
            is_unlimited = value == UNLIMITED or int(value) < 0
            most = NO_LIMIT if is_unlimited else f"{value}{UNITS.get(resource, '')}"
            yield {"resourcetype": resource, "max": most, **holder(row)}

    return entries


def _is_never_limited(row: Row) -> bool:
    """Return whether a row is of the ROOT domain or of a root admin account: these have no limits here either."""
    is_root_domain = "accounttype" not in row and row.get("path") == "ROOT"
    return is_root_domain or str(row.get("accounttype")) == ROOT_ADMIN


ROOT_ADMIN = "1"


def _as_domain(row: Row) -> Texts:
    return {"domainid": str(row["id"])}


def _as_account(row: Row) -> Texts:
    return {"account": str(row["name"]), "domainid": str(row["domainid"])}


def _as_project(row: Row) -> Texts:
    return {"projectid": str(row["id"])}


LIMITS = {
    "vm": "user_vm",
    "ip": "public_ip",
    "volume": "volume",
    "snapshot": "snapshot",
    "template": "template",
    "project": "project",
    "network": "network",
    "vpc": "vpc",
    "cpu": "cpu",
    "memory": "memory",
    "primarystorage": "primary_storage",
    "secondarystorage": "secondary_storage",
}

SOURCES = (
    Source("domains", "listDomains", _domains, OWNED),
    Source("roles", "listRoles", _roles),
    Source("accounts", "listAccounts", _accounts, OWNED),
    Source("users", "listUsers", _users, OWNED),
    Source("projects", "listProjects", _projects, OWNED),
    Source("zones", "listZones", _zones),
    Source("physicalnetworks", "listPhysicalNetworks", _physical_networks),
    Source("pods", "listPods", _pods),
    Source("clusters", "listClusters", _clusters),
    Source("configuration", "listClusters", _overcommit),
    Source("serviceofferings", "listServiceOfferings", _service_offerings, OWNED),
    Source("diskofferings", "listDiskOfferings", _disk_offerings, OWNED),
    Source("networkofferings", "listNetworkOfferings", _network_offerings),
    Source("templates", "listTemplates", _templates, {**OWNED, "templatefilter": "all"}),
    Source("isos", "listIsos", _isos, {**OWNED, "isofilter": "all"}),
    Source("securitygroups", "listSecurityGroups", _security_groups, OWNED, of_projects=True),
    Source("ingressrules", "listSecurityGroups", _rules("ingress"), OWNED, of_projects=True),
    Source("egressrules", "listSecurityGroups", _rules("egress"), OWNED, of_projects=True),
    Source("affinitygroups", "listAffinityGroups", _affinity_groups, OWNED, of_projects=True),
    Source("networks", "listNetworks", _networks, OWNED, of_projects=True),
    Source("vlanipranges", "listVlanIpRanges", _ranges),
    Source("hosts", "listHosts", _hosts, {"type": "Routing"}),
    Source("storagepools", "listStoragePools", _pools),
    Source("poolfactors", "listStoragePools", _pool_factors),
    Source("limits", "listDomains", _limits(_as_domain), OWNED),
    Source("accountlimits", "listAccounts", _limits(_as_account), OWNED),
    Source("projectlimits", "listProjects", _limits(_as_project), OWNED),
)
"""In the order in which things are made: what is named comes before what names it."""
