"""A small CloudStack zone: the rows of its list calls, with the fields that each release has.

Rows follow the response classes of CloudStack's API (``*Response.java``) and the code that fills them
(``server/.../api/query/dao/*JoinDaoImpl.java``, ``ApiResponseHelper.java``). Line numbers are those of 4.20.1.0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, uuid5

Row = dict[str, Any]

GIB = 1 << 30
CPU_FACTOR, MEMORY_FACTOR = 4.0, 2.0
CORES, MHZ, MEMORY_BYTES = 16, 2000, 128 * GIB
"""Physical size of each host."""

SINCE: Mapping[tuple[str, str], str] = {
    ("listDiskOfferings", "state"): "4.20",
    ("listHosts", "arch"): "4.20",
    ("listRoles", "state"): "4.20",
    ("listServiceOfferings", "state"): "4.20",
}
"""The first releases whose responses have a field, where 4.18 does not have the field."""

KEYS = {
    "listAccounts": "account",
    "listAffinityGroups": "affinitygroup",
    "listClusters": "cluster",
    "listDiskOfferings": "diskoffering",
    "listDomains": "domain",
    "listHosts": "host",
    "listIsos": "iso",
    "listNetworkOfferings": "networkoffering",
    "listNetworks": "network",
    "listPhysicalNetworks": "physicalnetwork",
    "listPods": "pod",
    "listProjects": "project",
    "listRolePermissions": "rolepermission",
    "listRoles": "role",
    "listSecurityGroups": "securitygroup",
    "listServiceOfferings": "serviceoffering",
    "listStoragePools": "storagepool",
    "listTemplates": "template",
    "listUsers": "user",
    "listVlanIpRanges": "vlaniprange",
    "listZones": "zone",
}
"""Names of the rows within the response of each list call."""

NO_LIMITS = dict.fromkeys(
    (
        *("vmlimit", "iplimit", "volumelimit", "snapshotlimit", "templatelimit", "projectlimit", "networklimit"),
        *("vpclimit", "cpulimit", "memorylimit", "primarystoragelimit", "secondarystoragelimit"),
    ),
    "Unlimited",
)
"""Limits of an account without any: ``Resource.UNLIMITED``, AccountJoinDaoImpl.java:131."""


def id_of(name: str) -> str:
    """Return the id of a thing in the zone, which is the same in each run."""
    return str(uuid5(NAMESPACE_URL, f"cloudstack-double/{name}"))


ZONE, POD, CLUSTER, POOL = (id_of(name) for name in ("berlin", "pod-1", "cluster-1", "nfs-1"))
ROOT_DOMAIN, CUSTOMERS = id_of("ROOT"), id_of("customers")
SMALL, CUSTOM, DATA_20, DATA_CUSTOM = (id_of(name) for name in ("small", "custom", "data-20", "data-custom"))
TEMPLATE, SHARED, ISOLATED = id_of("debian-12"), id_of("shared-net"), id_of("acme-net")


@dataclass
class ZoneRows:
    """The zone of one double.

    Attributes:
        hosts: names of the hosts, by id.
        states: states of hosts that are not Up, by id.
    """

    hosts: Mapping[str, str]
    states: dict[str, str] = field(default_factory=dict)

    def rows(self, command: str, release: str) -> list[Row]:
        """Return the rows of a list call as a release answers the call."""
        method: Callable[[], list[Row]] = getattr(self, f"_{command}", list)
        rows = self._hosts(release) if command == "listHosts" else method()
        newer = {key for key, since in SINCE.items() if _is_older(release, since)}
        return [{name: value for name, value in row.items() if (command, name) not in newer} for row in rows]

    def _hosts(self, release: str) -> list[Row]:
        # 4.18 multiplies cpunumber with the over-commit (HostJoinDaoImpl.java:189 of 4.18.2.5); 4.20 does not.
        cores = CORES * (CPU_FACTOR if release == "4.18" else 1)
        return [
            {
                "id": one,
                "name": name,
                "type": "Routing",
                "state": self.states.get(one, "Up"),
                "resourcestate": "Enabled",
                "hypervisor": "KVM",
                "arch": "x86_64",
                "zoneid": ZONE,
                "podid": POD,
                "clusterid": CLUSTER,
                "ipaddress": self._address(one),
                "cpusockets": 2,
                "cpunumber": int(cores),
                "cpuspeed": MHZ,
                # HostJoinDaoImpl.java:194: the over-commit of the cluster is in both.
                "memorytotal": int(MEMORY_BYTES * MEMORY_FACTOR),
                "memorywithoverprovisioning": str(int(MEMORY_BYTES * MEMORY_FACTOR)),
                "cpuwithoverprovisioning": str(CPU_FACTOR * CORES * MHZ),
            }
            for one, name in self.hosts.items()
        ]

    def _address(self, host_id: str) -> str:
        return f"192.0.2.{list(self.hosts).index(host_id) + 1}"

    def _listClusters(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        return [
            {
                "id": CLUSTER,
                "name": "cluster-1",
                "zoneid": ZONE,
                "podid": POD,
                "hypervisortype": "KVM",
                "clustertype": "CloudManaged",
                "allocationstate": "Enabled",
                "managedstate": "Managed",
                "cpuovercommitratio": str(CPU_FACTOR),
                "memoryovercommitratio": str(MEMORY_FACTOR),
            }
        ]

    def _listZones(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        return [
            {
                "id": ZONE,
                "name": "berlin",
                "networktype": "Advanced",
                "dns1": "192.0.2.53",
                "internaldns1": "192.0.2.53",
                "guestcidraddress": "10.1.1.0/24",
                "localstorageenabled": True,
                "allocationstate": "Enabled",
                "securitygroupsenabled": False,
                "type": "Core",
            }
        ]

    def _listPods(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        return [
            {
                "id": POD,
                "name": "pod-1",
                "zoneid": ZONE,
                "gateway": "192.0.2.254",
                "netmask": "255.255.255.0",
                "allocationstate": "Enabled",
                "ipranges": [{"startip": "192.0.2.100", "endip": "192.0.2.120", "forsystemvms": "0"}],
            }
        ]

    def _listPhysicalNetworks(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        return [
            {"id": id_of("physical-1"), "name": "physical-1", "zoneid": ZONE, "vlan": "100-299", "state": "Enabled"}
        ]

    def _listDomains(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        root = {"id": ROOT_DOMAIN, "name": "ROOT", "path": "ROOT", "level": 0, **NO_LIMITS}
        customers = {"id": CUSTOMERS, "name": "customers", "path": "ROOT/customers", "level": 1, **NO_LIMITS}
        return [root, {**customers, "parentdomainid": ROOT_DOMAIN, "cpulimit": "400"}]

    def _listRoles(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        types = {
            "Root Admin": "Admin",
            "Resource Admin": "ResourceAdmin",
            "Domain Admin": "DomainAdmin",
            "User": "User",
        }
        return [
            {"id": id_of(name), "name": name, "type": kind, "isdefault": True, "state": "enabled"}
            for name, kind in types.items()
        ]

    def _listAccounts(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        admin = {
            "id": id_of("account admin"),
            "name": "admin",
            "accounttype": 1,
            "roleid": id_of("Root Admin"),
            "domainid": ROOT_DOMAIN,
            "isdefault": True,
            "state": "enabled",
            **NO_LIMITS,
        }
        acme = {
            **admin,
            "id": id_of("account acme"),
            "name": "acme",
            "accounttype": 0,
            "roleid": id_of("User"),
            "domainid": CUSTOMERS,
            "isdefault": False,
            "vmlimit": "200",
        }
        return [admin, acme]

    def _listUsers(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        return [
            {
                "id": id_of(f"user {row['name']}"),
                "username": row["name"],
                "account": row["name"],
                "accountid": row["id"],
                "accounttype": row["accounttype"],
                "domainid": row["domainid"],
                "firstname": row["name"],
                "lastname": "of CloudStack",
                "email": f"{row['name']}@example.org",
                "state": "enabled",
                "isdefault": row["isdefault"],
            }
            for row in self._listAccounts()
        ]

    def _listServiceOfferings(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        small = {
            "id": SMALL,
            "name": "small",
            "displaytext": "1 core, 512 MiB",
            "state": "Active",
            "cpunumber": 1,
            "cpuspeed": 500,
            "memory": 512,
            "storagetype": "shared",
            "offerha": False,
            "limitcpuuse": False,
            "issystem": False,
            "iscustomized": False,
            "rootdisksize": 0,
            "dynamicscalingenabled": True,
        }
        custom = {**small, "id": CUSTOM, "name": "custom", "displaytext": "Any size", "iscustomized": True}
        for name in ("cpunumber", "cpuspeed", "memory"):
            del custom[name]
        return [small, custom]

    def _listDiskOfferings(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        fixed = {
            "id": DATA_20,
            "name": "data-20",
            "displaytext": "20 GiB",
            "state": "Active",
            "disksize": 20,
            "iscustomized": False,
            "provisioningtype": "thin",
            "storagetype": "shared",
            "displayoffering": True,
        }
        custom = {**fixed, "id": DATA_CUSTOM, "name": "data-custom", "displaytext": "Any size", "disksize": 0}
        return [fixed, {**custom, "iscustomized": True}]

    def _listNetworkOfferings(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        shared = {
            "id": id_of("offering shared"),
            "name": "DefaultSharedNetworkOffering",
            "displaytext": "Offering for shared networks",
            "traffictype": "Guest",
            "guestiptype": "Shared",
            "specifyvlan": True,
            "specifyipranges": True,
            "conservemode": True,
            "forvpc": False,
            "state": "Enabled",
            "service": [{"name": "Dhcp"}, {"name": "Dns"}, {"name": "UserData"}],
        }
        isolated = {
            **shared,
            "id": id_of("offering isolated"),
            "name": "DefaultIsolatedNetworkOffering",
            "displaytext": "Offering for isolated networks",
            "guestiptype": "Isolated",
            "specifyvlan": False,
            "specifyipranges": False,
            "service": [*({"name": one} for one in ("Dhcp", "Dns", "SourceNat", "Firewall", "UserData"))],
        }
        return [shared, isolated]

    def _listTemplates(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        return [
            {
                "id": TEMPLATE,
                "name": "debian-12",
                "displaytext": "Debian 12",
                "zoneid": ZONE,
                "account": "admin",
                "domainid": ROOT_DOMAIN,
                "ispublic": True,
                "isfeatured": True,
                "isextractable": False,
                "isready": True,
                "bootable": True,
                "passwordenabled": False,
                "isdynamicallyscalable": True,
                "requireshvm": True,
                "format": "QCOW2",
                "hypervisor": "KVM",
                "templatetype": "USER",
                "size": 1 * GIB,
                "physicalsize": GIB // 2,
            }
        ]

    def _listNetworks(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        shared = {
            "id": SHARED,
            "name": "shared-net",
            "displaytext": "shared-net",
            "zoneid": ZONE,
            "networkofferingid": id_of("offering shared"),
            "physicalnetworkid": id_of("physical-1"),
            "traffictype": "Guest",
            "type": "Shared",
            "acltype": "Domain",
            "domainid": ROOT_DOMAIN,
            "subdomainaccess": True,
            "gateway": "10.0.0.1",
            "netmask": "255.255.0.0",
            "cidr": "10.0.0.0/16",
            "vlan": "100",
            "broadcasturi": "vlan://100",
            "state": "Setup",
        }
        isolated = {
            **shared,
            "id": ISOLATED,
            "name": "acme-net",
            "displaytext": "acme-net",
            "networkofferingid": id_of("offering isolated"),
            "type": "Isolated",
            "acltype": "Account",
            "account": "acme",
            "domainid": CUSTOMERS,
            "gateway": "10.1.1.1",
            "netmask": "255.255.255.0",
            "cidr": "10.1.1.0/24",
            "vlan": "101",
            "broadcasturi": "vlan://101",
            "state": "Implemented",
        }
        del isolated["subdomainaccess"]
        return [shared, isolated]

    def _listVlanIpRanges(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        return [
            {
                "id": id_of("range shared"),
                "zoneid": ZONE,
                "networkid": SHARED,
                "forvirtualnetwork": False,
                "vlan": "vlan://100",
                "startip": "10.0.0.10",
                "endip": "10.0.15.250",
                "gateway": "10.0.0.1",
                "netmask": "255.255.0.0",
            }
        ]

    def _listStoragePools(self) -> list[Row]:  # noqa: N802 - CloudStack's name
        shared = {
            "id": POOL,
            "name": "nfs-1",
            "zoneid": ZONE,
            "podid": POD,
            "clusterid": CLUSTER,
            "scope": "CLUSTER",
            "state": "Up",
            "type": "NetworkFilesystem",
            "ipaddress": "192.0.2.200",
            "path": "/export/primary",
            "disksizetotal": 64 * 1024 * GIB,
            "overprovisionfactor": "2.0",
        }
        # A local pool names its host by address only: StoragePoolJoinDaoImpl.newStoragePoolResponse has no host.
        return [
            shared,
            *(
                {
                    **shared,
                    "id": id_of(f"local {one}"),
                    "name": f"{name}-local",
                    "scope": "HOST",
                    "type": "Filesystem",
                    "ipaddress": self._address(one),
                    "path": "/var/lib/libvirt/images",
                    "disksizetotal": 900 * GIB,
                }
                for one, name in self.hosts.items()
            ),
        ]


def _is_older(release: str, since: str) -> bool:
    return tuple(map(int, release.split("."))) < tuple(map(int, since.split(".")))
