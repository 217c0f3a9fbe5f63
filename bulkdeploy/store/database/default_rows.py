"""The rows of every new installation: roles and their rules, guest OS types, network offerings.

Names, ids and rules follow CloudStack's defaults (cloudstack-protocol.md 2.3), which clients and
scripts look up by name.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bulkdeploy.domain.accounts.accounts import RoleType

ROOT_DOMAIN_ID = 1
SYSTEM_ACCOUNT_ID = 1
ADMIN_ACCOUNT_ID = 2
SYSTEM_USER_ID = 1
ADMIN_USER_ID = 2
ROOT_ADMIN_ROLE_ID = 1
ADMIN_USERNAME = "admin"

ALLOW, DENY = "allow", "deny"
READING = tuple((rule, ALLOW) for rule in ("list*", "get*", "query*", "find*", "login", "logout"))
USER_READS = (
    *("getApiLimit", "getUserKeys", "getVirtualMachineUserData"),
    *("listAccounts", "listAffinityGroupTypes", "listAffinityGroups", "listApis"),
    *(
        "listAsyncJobs",
        "listBulkOperations",
        "listCapabilities",
        "listDiskOfferings",
        "listEventTypes",
        "listEvents",
    ),
    *("listHypervisors", "listInstanceGroups", "listIpForwardingRules", "listIsos"),
    *("listNetworkOfferings", "listNetworks", "listNics", "listOsCategories", "listOsTypes"),
    *(
        "listPortForwardingRules",
        "listProjectAccounts",
        "listProjects",
        "listPublicIpAddresses",
        "listResourceLimits",
    ),
    *("listRegions", "listSSHKeyPairs", "listSecurityGroups", "listServiceOfferings", "listSnapshots", "listTags"),
    *("listTemplates", "listUserData", "listUsers", "listVMSnapshot", "listVPCs", "listVirtualMachines"),
    *("listVolumes", "listZones", "queryAsyncJobResult"),
    *(
        "listAnnotations",
        "listAutoScaleVmGroups",
        "listCustomActions",
        "listDetailOptions",
        "listEgressFirewallRules",
        "listFirewallRules",
    ),
    *(
        "listIdps",
        "listIsoPermissions",
        "listKubernetesClusters",
        "listLdapConfigurations",
        "listLoadBalancerRules",
    ),
    *("listOauthProvider", "listResourceIcon", "listSnapshotPolicies", "listTemplatePermissions"),
    *("listGpuDevices", "listGuiThemes", "listProjectInvitations", "listSslCerts"),
    *("listProjectRolePermissions", "listProjectRoles", "listResourceDetails"),
    *("listNetworkPermissions", "listResourceSchedule", "listVMSchedule"),
    *("getVirtualMachineUsageHistory", "listVirtualMachinesMetrics"),
    *("listVirtualMachinesUsageHistory", "listVolumesMetrics"),
)
"""What users may read. Named one by one: a pattern such as list* would open what is for admins."""
USER_READING = tuple((name, ALLOW) for name in (*USER_READS, "login", "logout"))
OPERATING = tuple((rule, ALLOW) for rule in ("startVirtualMachine", "stopVirtualMachine", "rebootVirtualMachine"))
NOTHING_ELSE = (("*", DENY),)


@dataclass(frozen=True, slots=True)
class DefaultRole:
    """A role that can be neither changed nor deleted.

    ``rules`` are pairs of API pattern and permission, and the first match decides. A role without ``rules`` gets
    one rule for each API that is declared for its type (``Command.roles``).
    """

    id: int
    name: str
    role_type: RoleType
    description: str
    rules: tuple[tuple[str, str], ...] = ()


ROLES = (
    DefaultRole(1, "Root Admin", RoleType.ADMIN, "Default root admin role", (("*", ALLOW),)),
    DefaultRole(2, "Resource Admin", RoleType.RESOURCE_ADMIN, "Default resource admin role"),
    DefaultRole(3, "Domain Admin", RoleType.DOMAIN_ADMIN, "Default domain admin role"),
    DefaultRole(4, "User", RoleType.USER, "Default user role"),
    DefaultRole(
        5, "Read-Only Admin - Default", RoleType.ADMIN, "Sees everything, changes nothing", READING + NOTHING_ELSE
    ),
    DefaultRole(
        6,
        "Read-Only User - Default",
        RoleType.USER,
        "Sees the account's own, changes nothing",
        USER_READING + NOTHING_ELSE,
    ),
    DefaultRole(
        7,
        "Support Admin - Default",
        RoleType.ADMIN,
        "Sees everything, starts and stops VMs",
        READING + OPERATING + NOTHING_ELSE,
    ),
    DefaultRole(
        8,
        "Support User - Default",
        RoleType.USER,
        "Sees the account's own, starts and stops VMs",
        USER_READING + OPERATING + NOTHING_ELSE,
    ),
)

DEFAULT_ROLE_IDS = {role.role_type: role.id for role in ROLES[:4]}
"""The role of an account for which only a type was asked for."""

GUEST_OS_TYPES_FILE = Path(__file__).with_name("guest_os_types.csv")


@cache
def os_types_by_category() -> Mapping[str, Sequence[str]]:
    """Return the names of guest OS types by the name of their category, in the order of their file."""
    found: dict[str, list[str]] = {}
    with GUEST_OS_TYPES_FILE.open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["category"], []).append(row["name"])
    return found


BASIC_SERVICES = ("Dhcp", "Dns", "UserData")
ROUTER_SERVICES = (
    *BASIC_SERVICES,
    "Firewall",
    "Lb",
    "PortForwarding",
    "SourceNat",
    "StaticNat",
    "Vpn",
)


@dataclass(frozen=True, slots=True)
class DefaultNetworkOffering:
    """A network offering that CloudStack installs by default."""

    name: str
    display_text: str
    guest_type: str
    services: tuple[str, ...]
    specify_vlan: bool
    availability: str = "Optional"


NETWORK_OFFERINGS = (
    DefaultNetworkOffering(
        "DefaultSharedNetworkOfferingWithSGService",
        "Offering for Shared Security group enabled networks",
        "Shared",
        (*BASIC_SERVICES, "SecurityGroup"),
        specify_vlan=True,
    ),
    DefaultNetworkOffering(
        "DefaultSharedNetworkOffering",
        "Offering for Shared networks",
        "Shared",
        BASIC_SERVICES,
        specify_vlan=True,
    ),
    DefaultNetworkOffering(
        "DefaultIsolatedNetworkOfferingWithSourceNatService",
        "Offering for Isolated networks with Source Nat service enabled",
        "Isolated",
        ROUTER_SERVICES,
        specify_vlan=False,
        availability="Required",
    ),
    DefaultNetworkOffering(
        "DefaultIsolatedNetworkOffering",
        "Offering for Isolated networks with no Source Nat service",
        "Isolated",
        BASIC_SERVICES,
        specify_vlan=True,
    ),
    DefaultNetworkOffering(
        "DefaultL2NetworkOffering",
        "Offering for L2 networks",
        "L2",
        (),
        specify_vlan=False,
    ),
)
