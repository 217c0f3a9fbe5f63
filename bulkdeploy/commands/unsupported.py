"""Why parameters that CloudStack has are refused here; several commands share these."""

NO_IPV6 = "networks have IPv4 addresses only"
NO_ACCESS_GROUPS = "hosts and pools are matched by tags, not by storage access groups"
NO_EXTENSIONS = "there are no extensions; hypervisors are reached by drivers"
NO_TAG_RULES = "tags are texts, not rules"
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
    **OF_VOLUMES,
    "customizediops": NO_QUALITY_OF_SERVICE,
    "miniops": NO_QUALITY_OF_SERVICE,
    "maxiops": NO_QUALITY_OF_SERVICE,
    "hypervisorsnapshotreserve": "there are no snapshots",
}
"""Parameters that offerings have in CloudStack for volumes, and why they are refused."""
