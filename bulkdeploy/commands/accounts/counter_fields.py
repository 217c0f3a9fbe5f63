"""The limit, total and available fields of accounts, projects and domains (``resource_counters``)."""

from bulkdeploy.declare.response_fields import fraction, large_number, number, text
from bulkdeploy.declare.responses import Field

COUNTED = {
    "vm": "VMs",
    "volume": "volumes",
    "cpu": "CPU cores",
    "memory": "MiB of memory",
    "primarystorage": "GiB of primary storage",
    "secondarystorage": "GiB of secondary storage",
    "ip": "public addresses",
    "snapshot": "snapshots",
    "vpc": "VPCs",
}
ACCOUNT_NOUNS = {**COUNTED, "network": "networks", "template": "templates"}


def counter_fields(nouns: dict[str, str]) -> tuple[Field, ...]:
    """``<noun>limit``, ``<noun>total`` and ``<noun>available`` of each noun; limits are texts."""
    fields: list[Field] = []
    for noun, meaning in nouns.items():
        total = fraction if noun == "secondarystorage" else large_number
        fields += (
            text(f"{noun}limit", f"how many {meaning} it may have, or Unlimited"),
            total(f"{noun}total", f"how many {meaning} it has"),
            text(f"{noun}available", f"how many more {meaning} it may have, or Unlimited"),
        )
    return tuple(fields)


DOMAIN_COUNTERS = counter_fields(COUNTED)

ACCOUNT_COUNTERS = (
    *counter_fields(ACCOUNT_NOUNS),
    number("vmrunning", "how many of its VMs run"),
    number("vmstopped", "how many of its VMs do not run"),
)
