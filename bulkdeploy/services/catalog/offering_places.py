"""Where an offering is offered, and who may say so: root admins anywhere, domain admins in their domains."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.fields import UUID_SHAPE
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.services.live_entities import hold
from bulkdeploy.services.ownership import require_domain
from bulkdeploy.store.catalog.offering_places import lineages
from bulkdeploy.store.entities import resolve
from bulkdeploy.store.filters import Arguments

PUBLIC, EVERY_ZONE = "public", "all"


def places(connection: Connection, caller: Caller, given: Arguments) -> dict[str, list[int]]:
    """The places of a new offering, as columns.

    Raises:
        InvalidParameter: a domain or zone that was deleted.
        PermissionDenied: a domain outside the caller's reach; or none, by another than a root admin.
    """
    return {
        "domain_ids": _domains(connection, caller, given.get("domainid", ())),
        "zone_ids": _zones(connection, given.get("zoneid", ())),
    }


def changed_places(connection: Connection, caller: Caller, given: Arguments) -> dict[str, list[int]]:
    """The places that an update names, as columns: ids joined by commas, or ``public`` and ``all``.

    Raises:
        InvalidParameter, PermissionDenied: as ``places``; or an id of nothing.
    """
    columns: dict[str, list[int]] = {}
    if "domainid" in given:
        refs = _named(connection, caller, given["domainid"], Entity.DOMAIN, "domainid", PUBLIC)
        columns["domain_ids"] = _domains(connection, caller, refs)
    if "zoneid" in given:
        columns["zone_ids"] = _zones(
            connection, _named(connection, caller, given["zoneid"], Entity.ZONE, "zoneid", EVERY_ZONE)
        )
    return columns


def require_own(connection: Connection, caller: Caller, offering: EntityRef, row: Mapping[str, Any]) -> None:
    """Others than root admins touch only offerings that their domains, and those below, have to themselves.

    Raises:
        PermissionDenied: it is public, or another domain's too.
    """
    if caller.is_root_admin:
        return
    found = lineages(connection, row["domain_ids"])
    if not found or not all(lineage.startswith(caller.owner.lineage) for lineage in found):
        raise PermissionDenied(
            f"{caller.username} does not have permission to operate with offering {offering.uuid}"
        )


def _domains(connection: Connection, caller: Caller, refs: Iterable[EntityRef]) -> list[int]:
    ids = []
    for ref in refs:
        require_domain(connection, caller, ref)
        ids.append(hold(connection, ref, "domainid", shared=True)["id"])
    if not ids and not caller.is_root_admin:
        raise PermissionDenied("Only root admins make offerings for everybody; name domains of yours by domainid")
    return ids


def _zones(connection: Connection, refs: Iterable[EntityRef]) -> list[int]:
    return [hold(connection, ref, "zoneid", shared=True)["id"] for ref in refs]


def _named(
    connection: Connection, caller: Caller, written: str, entity: Entity, parameter: str, everywhere: str
) -> tuple[EntityRef, ...]:
    if written.lower() == everywhere:
        return ()
    texts = list(dict.fromkeys(part.strip() for part in written.split(",") if part.strip()))
    found = resolve(connection, caller, [entity], [text for text in texts if UUID_SHAPE.fullmatch(text)])
    for text in texts:
        if text not in found:
            raise InvalidParameter(parameter, text, f"it should be {everywhere}, or ids joined by commas")
    if not texts:
        raise InvalidParameter(parameter, written, f"it should be {everywhere}, or ids joined by commas")
    return tuple(dict.fromkeys(found.values()))
