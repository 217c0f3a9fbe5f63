"""Root volumes whose instances do not exist, such as after an instance was lost from Incus's database.

Incus's API removes the root volume of an instance with the instance alone, and creates no instance on a member
that has a root volume of that name. So such volumes are listed, for people to remove: docs/how-to/incus.md.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.incus.instance import CONTAINER, VIRTUAL_MACHINE, guest_of, read_location

KINDS = (CONTAINER, VIRTUAL_MACHINE)


def read_orphans(
    volumes: Collection[Mapping[str, Any]], instances: Collection[Mapping[str, Any]]
) -> Iterator[tuple[UUID, str | None]]:
    """Yield root volumes of guests of this service whose instances do not exist, with the members that have them.

    Args:
        volumes: volumes of instances as the API lists them, read before ``instances``.
        instances: all instances as the API lists them.
    """
    there = {(row["name"], read_location(row)) for row in instances}
    for row in volumes:
        guest_uuid, member = guest_of(row["name"]), read_location(row)
        known = (row["name"], member) in there or (member is None and row["name"] in {name for name, _ in there})
        if guest_uuid is not None and not known:
            yield guest_uuid, member
