"""The kinds of entities to which ids in calls refer, and a resolved reference to an entity."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class Entity(StrEnum):
    """A kind of entity; the value is the suffix of its list command: ``list<value>``."""

    ZONE = "Zones"
    POD = "Pods"
    CLUSTER = "Clusters"
    HOST = "Hosts"
    STORAGE_POOL = "StoragePools"
    IMAGE_STORE = "ImageStores"
    DOMAIN = "Domains"
    ACCOUNT = "Accounts"
    USER = "Users"
    ROLE = "Roles"
    ROLE_PERMISSION = "RolePermissions"
    PROJECT = "Projects"
    PROJECT_INVITATION = "ProjectInvitations"
    PROJECT_ROLE = "ProjectRole"
    PROJECT_ROLE_PERMISSION = "ProjectRolePermission"
    SERVICE_OFFERING = "ServiceOfferings"
    DISK_OFFERING = "DiskOfferings"
    TEMPLATE = "Templates"
    ISO = "Isos"
    OS_TYPE = "OsTypes"
    OS_CATEGORY = "OsCategories"
    NETWORK = "Networks"
    NETWORK_OFFERING = "NetworkOfferings"
    PHYSICAL_NETWORK = "PhysicalNetworks"
    TRAFFIC_TYPE = "TrafficTypes"
    NETWORK_SERVICE_PROVIDER = "NetworkServiceProviders"
    VLAN_IP_RANGE = "VlanIpRanges"
    DEDICATED_VLAN_RANGE = "DedicatedGuestVlanRanges"
    SECURITY_GROUP = "SecurityGroups"
    SECURITY_GROUP_RULE = "SecurityGroupRules"
    AFFINITY_GROUP = "AffinityGroups"
    SSH_KEY_PAIR = "SSHKeyPairs"
    USER_DATA = "UserData"
    INSTANCE_GROUP = "InstanceGroups"
    VIRTUAL_MACHINE = "VirtualMachines"
    VM_SNAPSHOT = "VMSnapshot"
    VOLUME = "Volumes"
    SNAPSHOT = "Snapshots"
    SNAPSHOT_POLICY = "SnapshotPolicies"
    VM_SCHEDULE = "VMSchedule"
    NIC = "Nics"
    SECONDARY_IP = "NicSecondaryIps"
    JOB = "AsyncJobs"
    DEPLOYMENT = "BulkDeployments"
    BULK_OPERATION = "BulkOperations"
    CUSTOM_ACTION = "CustomActions"
    ANNOTATION = "Annotations"
    EVENT = "Events"
    ALERT = "Alerts"


EVERY_ID = -1
"""The one id that names nothing and yet is accepted, where a parameter says so: all that there are."""


@dataclass(frozen=True, slots=True)
class EntityRef:
    """The internal id and the uuid of an entity.

    Removed entities can be found, too, as in CloudStack. Handlers return an empty result for them or reject the
    call.
    """

    entity: Entity
    id: int
    uuid: UUID
    name: str
    removed: bool = False
