"""Root volumes whose instances do not exist, for example after Incus's database lost an instance.

Incus's API deletes a root volume only together with its instance, and cannot create an instance on a member that
has a root volume with the same name. Such volumes are therefore listed, so that operators can remove them:
docs/how-to/incus.md.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.incus.instance import CONTAINER, VIRTUAL_MACHINE, guest_of, read_location

KINDS = (CONTAINER, VIRTUAL_MACHINE)


def read_orphans(
    volumes: Collection[Mapping[str, Any]], instances: Collection[Mapping[str, Any]]
) -> Iterator[tuple[UUID, str | None]]:
    """Yield the guests whose root volumes exist without an instance, with the members that have the volumes.

    Args:
        volumes: the volumes of instances as the API lists them, read before ``instances``.
        instances: all instances as the API lists them.
    """
    there = {(row["name"], read_location(row)) for row in instances}
    for row in volumes:
        guest_uuid, member = guest_of(row["name"]), read_location(row)
        known = (row["name"], member) in there or (member is None and row["name"] in {name for name, _ in there})
        if guest_uuid is not None and not known:
            yield guest_uuid, member
