"""Entries of zone files for templates and ISOs. Operators have copied the images to the zones by other means."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.services.catalog.templates import Kind, register_templates, update_templates
from bulkdeploy.store.accounts.owner_keys import owner_key
from bulkdeploy.store.catalog import template_changes as store
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import UUID_OF_ITS_OWN

READY, NOT_READY = "Download Complete", "Not downloaded"


def set_templates(
    connection: Connection, caller: Caller, batch: Sequence[Arguments], *, kind: Kind
) -> list[EntityRef]:
    """Create or update templates or ISOs so that they match the entries of a zone file, and return them.

    Each entry describes a template in one zone, ``zoneid``. A template that its owner does not have yet is
    registered. ``isready`` and ``status`` describe the copy in the zone; ``size`` and ``physicalsize`` are in
    bytes; ``accountids`` lists all accounts with which the template is shared.

    Raises:
        InvalidParameter: no zone is named; or under the same conditions as ``register_templates`` and
            ``update_templates``.
        PermissionDenied, ResourceLimitExceeded: under the same conditions as these.
    """
    for given in batch:
        if "zoneid" not in given or "zoneids" in given:
            raise InvalidParameter(
                "zoneid", None, f"must be given: each entry describes the {kind.noun} in one zone"
            )
        if "projectid" in given:
            raise InvalidParameter(
                "projectid", None, f"must not be given: zone files do not describe the {kind.noun}s of projects"
            )
    said = [_without_stray_domain(given) for given in batch]
    known: dict[Hashable, EntityRef] = {}
    for row in reversed(store.read_templates(connection, kind.entity)):
        known[_called(row)] = known[(row["_uuid"],)] = EntityRef(kind.entity, row["_id"], row["_uuid"], row["name"])
    fresh: dict[Hashable, Arguments] = {}
    for given in said:
        if _called(given) not in known:
            fresh.setdefault(_called(given), given)
    known |= zip(fresh, register_templates(connection, caller, list(fresh.values()), kind=kind), strict=True)
    refs = [known[_called(given)] for given in said]
    there = [(ref, given) for ref, given in zip(refs, said, strict=True) if fresh.get(_called(given)) is not given]
    update_templates(connection, caller, there, kind=kind)
    store.put_in_zones(connection, [_in_zone(ref, given) for ref, given in zip(refs, said, strict=True)])
    shared = ((ref, given["accountids"]) for ref, given in zip(refs, said, strict=True) if "accountids" in given)
    store.share_with_only(connection, {ref.id: {account.id for account in named} for ref, named in shared})
    return refs


def _without_stray_domain(given: Arguments) -> Arguments:
    """Remove the domain from an entry without an account. It is the domain of the entry's zone, and no owner."""
    return given if "account" in given else {name: value for name, value in given.items() if name != "domainid"}


def _called(values: Mapping[str, Any]) -> Hashable:
    if UUID_OF_ITS_OWN in values:
        return (values[UUID_OF_ITS_OWN],)
    ids = {name: value.id if isinstance(value, EntityRef) else value for name, value in values.items()}
    return owner_key(ids), str(ids["name"]).lower()


def _in_zone(ref: EntityRef, given: Arguments) -> dict[str, Any]:
    row: dict[str, Any] = {"template_id": ref.id, "zone_id": given["zoneid"].id}
    if "isready" in given:
        row |= {"ready": given["isready"], "status": READY if given["isready"] else NOT_READY}
    return {**row, "status": given["status"]} if "status" in given else row
