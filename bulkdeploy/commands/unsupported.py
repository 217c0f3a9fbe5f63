"""The reasons why this service rejects parameters of CloudStack, for several commands."""

NO_IPV6 = "networks have IPv4 addresses only"
NO_ACCESS_GROUPS = "hosts and pools are matched by tags, not by storage access groups"
NO_EXTENSIONS = "extensions are configured in the settings of the service"
NO_TAG_RULES = "tags are texts, not rules"
NO_CUSTOM_IDS = "the service generates the ids"
NO_DHCP_OPTIONS = "nics have no DHCP options"
NO_DIRECT_DOWNLOAD = "hosts do not download images directly"
ACCOUNTS_ONLY = "members of a project are accounts with all their users, not single users"
SNAPSHOTS_IN_VOLUMES = "snapshots are stored on the pool of the volume"
ONLY_ZONE_OF_VOLUME = "the zone of the volume, in which the snapshots are always made; other zones are rejected"
NO_ENCRYPTION = "volumes are not encrypted"
NO_GPU = "GPUs of hosts are not recorded"
NO_IMAGE_STORES = "templates, ISOs and settings do not belong to image stores"
NO_KEY_ACCESS = "access by API keys cannot be set separately; use disableUser to lock out a user"
NO_KUBERNETES = "there are no Kubernetes clusters"
NO_ROUTERS = "networks have no virtual routers"
NO_SETUP = "guests cannot boot into the firmware setup"
NOTHING_FROM_SNAPSHOTS = (
    "VMs and volumes cannot be created from a snapshot; use revertSnapshot to revert its volume"
)
NO_SYSTEM_VMS = "there are no system VMs"
NO_TAGGED_LIMITS = "there are no limits per host tag or storage tag"
NO_VNF = "there are no network appliances"
NO_VPCS = "there are no VPCs"
NO_QUALITY_OF_SERVICE = "volumes have no limits of bytes or operations per second"

QUALITY_OF_SERVICE = {
    f"{unit}{direction}rate{kind}": NO_QUALITY_OF_SERVICE
    for unit in ("bytes", "iops")
    for direction in ("read", "write")
    for kind in ("", "max", "maxlength")
}
OF_VOLUMES = {
    **QUALITY_OF_SERVICE,
    "cachemode": "volumes have no cache mode",
    "storagepolicy": "there are no storage policies",
}
OF_OFFERINGS = {
    "storagepolicy": "there are no storage policies",
    "customizediops": NO_QUALITY_OF_SERVICE,
    "miniops": NO_QUALITY_OF_SERVICE,
    "maxiops": NO_QUALITY_OF_SERVICE,
    "hypervisorsnapshotreserve": "the capacity of pools that snapshots take is not reserved",
}
"""Parameters of CloudStack's offerings that are rejected, with the reasons."""
