"""The reasons why parameters of CloudStack are rejected by this service, shared by several commands."""

NO_IPV6 = "networks have IPv4 addresses only"
NO_ACCESS_GROUPS = "hosts and pools are matched by tags, not by storage access groups"
NO_EXTENSIONS = "the settings name the extension that runs the VMs of a hypervisor"
NO_TAG_RULES = "tags are texts, not rules"
NO_CUSTOM_IDS = "ids are made here"
NO_DHCP_OPTIONS = "nics have no DHCP options"
NO_DIRECT_DOWNLOAD = "nothing is downloaded, by the service or by hosts"
ACCOUNTS_ONLY = "accounts belong to projects, with all their users"
SNAPSHOTS_IN_VOLUMES = "a snapshot lies where its volume does"
NO_ENCRYPTION = "volumes are not encrypted"
NO_GPU = "hosts are not known by their GPUs"
NO_IMAGE_STORES = "templates, ISOs and settings are not of image stores"
NO_KEY_ACCESS = "whether API keys may be used is not said for an account or a user; disableUser keeps a user out"
NO_KUBERNETES = "there are no Kubernetes clusters"
NO_ROUTERS = "networks are served by no routers"
NO_SETUP = "guests have no firmware setup to boot into"
NOTHING_FROM_SNAPSHOTS = (
    "a snapshot lies in its volume: revertSnapshot brings that back, and nothing else is made from it"
)
NO_SYSTEM_VMS = "there are no system VMs"
NO_TAGGED_LIMITS = "limits and counts by host or storage tag are not kept"
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
"""Parameters that offerings have in CloudStack for volumes, and why they are refused."""
