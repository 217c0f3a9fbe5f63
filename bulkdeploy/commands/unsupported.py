"""Why parameters that CloudStack has are refused here; several commands share these."""

NO_IPV6 = "networks have IPv4 addresses only"
NO_ACCESS_GROUPS = "hosts and pools are matched by tags, not by storage access groups"
NO_EXTENSIONS = "there are no extensions; hypervisors are reached by drivers"
NO_TAG_RULES = "tags are texts, not rules"
NO_QUALITY_OF_SERVICE = "volumes have no limits of bytes or operations per second"
