"""The nouns: types of objects with a list page, a page per object, and forms (one file: a declaration each)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

ALL_PROJECTS: Mapping[str, object] = MappingProxyType({"listall": True, "projectid": -1})
"""Parameters of lists of things that projects may own: everything that the caller may see."""


TAGS = ("createTags", "deleteTags")
"""Commands about the tags of a thing; which kind of thing it is follows from the noun."""


@dataclass(frozen=True, slots=True)
class Noun:
    """A type of object that has its own pages in the console.

    Attributes:
        page: the address of the list page.
        one: the address of the page of an object, or empty if there are no such pages.
        group: the menu group that contains the list page, by its name in the texts.
        lists: the command that lists the objects.
        shown: the columns of the list. ``a.b`` is a field of a nested object. The first column links to the object.
        filters: the parameters of the list command that the filter form offers. Others can be used in the URL.
        name_parameter: the parameter that takes the name of an object in commands that take no id, or empty.
        words: the usual values of filters that accept any text, by filter; the form offers these values.
        creates: the commands that create such an object.
        actions: the commands that work on one such object.
        related: pages that list the objects belonging to one, with the parameter that takes its id.
        given: values of list parameters that apply unless the URL contains others.
        key: the field that identifies an object.
        by: the parameter of the list command that takes the key.
        named_by: the list command that listApis relates to parameters with ids of such objects. If empty,
            ``lists``.
    """

    page: str
    one: str
    group: str
    lists: str
    shown: tuple[str, ...]
    filters: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    related: tuple[tuple[str, str], ...] = ()
    given: Mapping[str, object] = field(default_factory=dict, hash=False)
    key: str = "id"
    by: str = "id"
    named_by: str = ""
    name_parameter: str = ""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def ids_from(self) -> str:
        """The command that listApis names as ``related`` for parameters that take the id of such an object."""
        return self.named_by or self.lists


VMS = Noun(
    "virtual-machines",
    "virtual-machine",
    "compute",
    "listVirtualMachines",
    ("name",),
    actions=(
        *("updateVirtualMachine", "migrateVirtualMachine", "scaleVirtualMachine", "createVMSnapshot"),
        *("attachVolume", "attachIso", "detachIso", "updateVMAffinityGroup"),
        *("addNicToVirtualMachine", "updateDefaultNicForVirtualMachine", "removeNicFromVirtualMachine"),
        *("resetPasswordForVirtualMachine", "resetSSHKeyForVirtualMachine", "resetUserDataForVirtualMachine"),
        *("assignVirtualMachine", "restoreVirtualMachine", *TAGS),
    ),
    given=ALL_PROJECTS,
)
"""VMs; their list and their page are written by hand, the forms about one VM are not."""
DEPLOYMENTS = Noun(
    "deployments",
    "deployment",
    "compute",
    "listBulkDeployments",
    (
        "id",
        "state",
        "count",
        "succeeded",
        "failed",
        "desiredcount",
        "actualcount",
        "account",
        "zonename",
        "created",
    ),
    ("zoneid",),
    actions=("updateBulkDeployment", "replaceBulkDeployment"),
    given=ALL_PROJECTS,
)
"""Deployments; their list and their page are written by hand, too."""
NOUNS: tuple[Noun, ...] = (
    VMS,
    DEPLOYMENTS,
    Noun(
        "schedules",
        "schedule",
        "compute",
        "listVMSchedule",
        ("description", "action", "schedule", "timezone", "enabled", "nextrun", "account"),
        ("action", "enabled"),
        creates=("createVMSchedule",),
        actions=("updateVMSchedule", "deleteVMSchedule"),
        given=ALL_PROJECTS,
    ),
    Noun(
        "bulk-operations",
        "bulk-operation",
        "compute",
        "listBulkOperations",
        ("id", "operation", "state", "count", "succeeded", "failed", "queued", "account", "created"),
        ("operation",),
        actions=("cancelBulkOperation",),
        given=ALL_PROJECTS,
    ),
    Noun(
        "instance-groups",
        "instance-group",
        "compute",
        "listInstanceGroups",
        ("name", "account", "project", "domain", "created"),
        creates=("createInstanceGroup",),
        actions=("updateInstanceGroup", "deleteInstanceGroup"),
        related=(("virtual-machines", "groupid"),),
        given=ALL_PROJECTS,
    ),
    Noun(
        "affinity-groups",
        "affinity-group",
        "compute",
        "listAffinityGroups",
        ("name", "type", "description", "account", "project", "domain"),
        ("type",),
        creates=("createAffinityGroup",),
        actions=("deleteAffinityGroup",),
        related=(("virtual-machines", "affinitygroupid"),),
        given=ALL_PROJECTS,
        words={
            "type": (
                *(
                    "host anti-affinity",
                    "host affinity",
                    "non-strict host anti-affinity",
                    "non-strict host affinity",
                ),
                "ExplicitDedication",
            )
        },
    ),
    Noun(
        "key-pairs",
        "key-pair",
        "compute",
        "listSSHKeyPairs",
        ("name", "fingerprint", "account", "project", "domain"),
        creates=("registerSSHKeyPair", "createSSHKeyPair"),
        actions=("deleteSSHKeyPair",),
        given=ALL_PROJECTS,
    ),
    Noun(
        "user-data",
        "user-data-item",
        "compute",
        "listUserData",
        ("name", "params", "account", "project", "domain"),
        creates=("registerUserData",),
        actions=("deleteUserData",),
        given=ALL_PROJECTS,
    ),
    Noun(
        "vm-snapshots",
        "vm-snapshot",
        "compute",
        "listVMSnapshot",
        ("displayname", "state", "type", "virtualmachinename", "current", "account", "created"),
        creates=("createVMSnapshot",),
        actions=("revertToVMSnapshot", "deleteVMSnapshot", *TAGS),
        given=ALL_PROJECTS,
        by="vmsnapshotid",
    ),
    Noun(
        "volumes",
        "volume",
        "storage",
        "listVolumes",
        (
            "name",
            "state",
            "type",
            "size",
            "vmname",
            "storage",
            "diskofferingname",
            "account",
            "zonename",
            "created",
        ),
        ("type", "state", "zoneid"),
        creates=("createVolume",),
        actions=(
            *("attachVolume", "detachVolume", "resizeVolume", "createSnapshot", "createSnapshotPolicy"),
            *("createTemplate", "updateVolume", "deleteVolume"),
            *TAGS,
        ),
        related=(("snapshots", "volumeid"), ("snapshot-policies", "volumeid")),
        given=ALL_PROJECTS,
        words={"state": ("Allocated", "Ready", "Destroy", "Expunged")},
    ),
    Noun(
        "snapshots",
        "snapshot",
        "storage",
        "listSnapshots",
        ("name", "state", "snapshottype", "volumename", "account", "zonename", "created"),
        ("zoneid",),
        creates=("createSnapshot",),
        actions=("revertSnapshot", "deleteSnapshot", *TAGS),
        given=ALL_PROJECTS,
    ),
    Noun(
        "snapshot-policies",
        "snapshot-policy",
        "storage",
        "listSnapshotPolicies",
        ("id", "volumename", "schedule", "timezone", "maxsnaps"),
        creates=("createSnapshotPolicy",),
        actions=("updateSnapshotPolicy", "deleteSnapshotPolicies", *TAGS),
        given=ALL_PROJECTS,
    ),
    Noun(
        "storage-pools",
        "storage-pool",
        "storage",
        "listStoragePools",
        ("name", "state", "type", "scope", "disksizetotal", "disksizeallocated", "clustername", "zonename", "tags"),
        ("scope", "zoneid", "clusterid"),
        creates=("createStoragePool",),
        actions=(
            "updateStoragePool",
            "enableStorageMaintenance",
            "cancelStorageMaintenance",
            "deleteStoragePool",
        ),
        related=(("volumes", "storageid"),),
    ),
    Noun(
        "image-stores",
        "image-store",
        "storage",
        "listImageStores",
        ("name", "url", "protocol", "providername", "zonename", "readonly"),
        ("zoneid",),
        creates=("addImageStore",),
        actions=("updateImageStore", "deleteImageStore"),
    ),
    Noun(
        "templates",
        "template",
        "images",
        "listTemplates",
        ("name", "status", "size", "hypervisor", "ostypename", "ispublic", "isfeatured", "account", "zonename"),
        ("templatefilter", "zoneid"),
        creates=("registerTemplate", "createTemplate"),
        actions=("updateTemplate", "updateTemplatePermissions", "deleteTemplate", *TAGS),
        related=(("virtual-machines", "templateid"),),
        given={"templatefilter": "executable", **ALL_PROJECTS},
    ),
    Noun(
        "isos",
        "iso",
        "images",
        "listIsos",
        ("name", "status", "size", "bootable", "ostypename", "ispublic", "account", "zonename"),
        ("isofilter", "zoneid"),
        creates=("registerIso",),
        actions=("updateIso", "updateIsoPermissions", "deleteIso", *TAGS),
        given={"isofilter": "executable", **ALL_PROJECTS},
    ),
    Noun(
        "networks",
        "network",
        "network",
        "listNetworks",
        ("name", "state", "type", "cidr", "vlan", "networkofferingname", "account", "project", "zonename"),
        ("type", "zoneid"),
        creates=("createNetwork",),
        actions=("updateNetwork", "restartNetwork", "deleteNetwork", *TAGS),
        related=(("virtual-machines", "networkid"), ("address-ranges", "networkid")),
        given=ALL_PROJECTS,
    ),
    Noun(
        "address-ranges",
        "address-range",
        "network",
        "listVlanIpRanges",
        ("startip", "endip", "gateway", "netmask", "vlan", "podname"),
        creates=("createVlanIpRange",),
        actions=("deleteVlanIpRange",),
    ),
    Noun(
        "security-groups",
        "security-group",
        "network",
        "listSecurityGroups",
        ("name", "description", "virtualmachinecount", "account", "project", "domain"),
        creates=("createSecurityGroup",),
        actions=(
            *("authorizeSecurityGroupIngress", "authorizeSecurityGroupEgress"),
            *("updateSecurityGroup", "deleteSecurityGroup"),
            *TAGS,
        ),
        related=(("virtual-machines", "securitygroupid"),),
        given=ALL_PROJECTS,
    ),
    Noun(
        "service-offerings",
        "service-offering",
        "offerings",
        "listServiceOfferings",
        ("name", "state", "cpunumber", "cpuspeed", "memory", "iscustomized", "offerha", "hosttags", "storagetags"),
        ("state",),
        creates=("createServiceOffering",),
        actions=("updateServiceOffering", "deleteServiceOffering"),
        related=(("virtual-machines", "serviceofferingid"),),
        given={"state": "all"},
    ),
    Noun(
        "disk-offerings",
        "disk-offering",
        "offerings",
        "listDiskOfferings",
        ("name", "state", "disksize", "iscustomized", "storagetype", "tags", "created"),
        ("state", "storagetype"),
        creates=("createDiskOffering",),
        actions=("updateDiskOffering", "deleteDiskOffering"),
        related=(("volumes", "diskofferingid"),),
        given={"state": "all"},
    ),
    Noun(
        "network-offerings",
        "network-offering",
        "offerings",
        "listNetworkOfferings",
        ("name", "state", "guestiptype", "traffictype", "isdefault", "created"),
        ("guestiptype", "state"),
        creates=("createNetworkOffering",),
        actions=("updateNetworkOffering", "deleteNetworkOffering"),
        related=(("networks", "networkofferingid"),),
    ),
    Noun(
        "accounts",
        "account",
        "people",
        "listAccounts",
        ("name", "state", "domain", "rolename", "vmtotal", "vmlimit", "cputotal", "memorytotal", "created"),
        ("state",),
        creates=("createAccount",),
        actions=("updateAccount", "updateResourceLimit", "disableAccount", "enableAccount", "deleteAccount"),
        given={"listall": True},
        name_parameter="account",
    ),
    Noun(
        "users",
        "user",
        "people",
        "listUsers",
        ("username", "state", "firstname", "lastname", "email", "account", "domain", "rolename"),
        ("state", "account"),
        creates=("createUser",),
        actions=("updateUser", "registerUserKeys", "disableUser", "enableUser", "deleteUser"),
        given={"listall": True},
    ),
    Noun(
        "domains",
        "domain",
        "people",
        "listDomains",
        ("name", "path", "state", "vmtotal", "vmlimit", "cputotal", "memorytotal", "created"),
        creates=("createDomain",),
        actions=("updateDomain", "updateResourceLimit", "deleteDomain"),
        related=(("accounts", "domainid"), ("users", "domainid")),
        given={"listall": True},
    ),
    Noun(
        "projects",
        "project",
        "people",
        "listProjects",
        ("name", "displaytext", "state", "domain", "vmtotal", "vmlimit", "created"),
        ("state",),
        creates=("createProject",),
        actions=(
            *("addAccountToProject", "updateProject", "updateResourceLimit", "suspendProject"),
            *("activateProject", "deleteProject"),
        ),
        related=(("virtual-machines", "projectid"), ("volumes", "projectid"), ("networks", "projectid")),
        given={"listall": True},
        words={"state": ("Active", "Suspended")},
    ),
    Noun(
        "roles",
        "role",
        "people",
        "listRoles",
        ("name", "type", "state", "description", "isdefault", "ispublic"),
        ("type", "state"),
        creates=("createRole",),
        actions=("updateRole", "deleteRole"),
    ),
    Noun(
        "limits",
        "",
        "people",
        "listResourceLimits",
        ("resourcetypename", "max", "account", "project", "domain"),
        ("resourcetypename", "account"),
        creates=("updateResourceLimit",),
    ),
    Noun(
        "hosts",
        "host",
        "infrastructure",
        "listHostsMetrics",
        (
            *("name", "state", "resourcestate", "clustername", "podname", "instances", "cpuallocated", "cpuused"),
            *("memoryallocatedpercentage", "memoryused", "outofbandmanagement.powerstate", "hostha.hastate"),
            "hosttags",
        ),
        ("state", "resourcestate", "zoneid", "clusterid"),
        creates=("addHost",),
        actions=(
            *("updateHost", "reconnectHost", "evacuateHost", "configureOutOfBandManagement"),
            *("enableOutOfBandManagementForHost", "disableOutOfBandManagementForHost"),
            *("issueOutOfBandManagementPowerAction", "configureHAForHost", "enableHAForHost", "disableHAForHost"),
            "deleteHost",
        ),
        given={"type": "Routing"},
        named_by="listHosts",
        words={
            "state": ("Up", "Down", "Disconnected", "Alert", "Connecting"),
            "resourcestate": (
                *("Enabled", "Disabled", "PrepareForMaintenance", "Maintenance", "ErrorInMaintenance"),
                "ErrorInPrepareForMaintenance",
            ),
        },
    ),
    Noun(
        "zones",
        "zone",
        "infrastructure",
        "listZones",
        ("name", "allocationstate", "networktype", "securitygroupsenabled", "localstorageenabled", "dns1"),
        ("networktype",),
        creates=("createZone",),
        actions=("updateZone", "deleteZone", *TAGS),
        related=(("hosts", "zoneid"), ("pods", "zoneid"), ("clusters", "zoneid"), ("networks", "zoneid")),
    ),
    Noun(
        "pods",
        "pod",
        "infrastructure",
        "listPods",
        ("name", "allocationstate", "zonename", "gateway", "netmask", "allocpolicy"),
        ("zoneid", "allocationstate"),
        creates=("createPod",),
        actions=("updatePod", "deletePod"),
        related=(("clusters", "podid"), ("hosts", "podid"), ("virtual-machines", "podid")),
    ),
    Noun(
        "clusters",
        "cluster",
        "infrastructure",
        "listClusters",
        ("name", "allocationstate", "hypervisortype", "podname", "zonename", "allocpolicy"),
        ("zoneid", "podid", "allocationstate"),
        creates=("addCluster",),
        actions=("updateCluster", "deleteCluster"),
        related=(("hosts", "clusterid"), ("virtual-machines", "clusterid")),
    ),
    Noun(
        "physical-networks",
        "physical-network",
        "infrastructure",
        "listPhysicalNetworks",
        ("name", "state", "vlan", "isolationmethods", "zonename", "tags"),
        ("zoneid",),
        creates=("createPhysicalNetwork",),
        actions=("updatePhysicalNetwork", "deletePhysicalNetwork"),
        related=(("networks", "physicalnetworkid"),),
    ),
    Noun(
        "alerts",
        "alert",
        "infrastructure",
        "listAlerts",
        ("description", "name", "type", "sent"),
        ("type",),
    ),
    Noun(
        "settings",
        "setting",
        "infrastructure",
        "listConfigurations",
        ("name", "value", "defaultvalue", "category", "scope", "description"),
        ("category",),
        actions=("updateConfiguration", "resetConfiguration"),
        key="name",
        by="name",
    ),
)
GROUPS = tuple(dict.fromkeys(noun.group for noun in NOUNS))
BY_PAGE: Mapping[str, Noun] = MappingProxyType({noun.page: noun for noun in NOUNS})
BY_LIST: Mapping[str, Noun] = MappingProxyType({noun.ids_from: noun for noun in NOUNS})
PAGE_OF_ID: Mapping[str, str] = MappingProxyType(
    {"storageid": "storage-pool"} | {f"{noun.one.replace('-', '')}id": noun.one for noun in NOUNS if noun.one}
)
"""Pages of single things by the fields that hold their ids."""
