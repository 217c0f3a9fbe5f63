"""The domains and zones to which an offering is restricted.

Root admins may set any domains, and domain admins their own domain and its subdomains.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.fields import UUID_SHAPE
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.services.live_entities import lock_entities
from bulkdeploy.services.ownership import require_domains
from bulkdeploy.store.catalog.offering_places import domain_lineages
from bulkdeploy.store.rows.entities import resolve
from bulkdeploy.store.rows.filters import Arguments

PUBLIC, EVERY_ZONE = "public", "all"


def require_places(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> None:
    """Check that the caller may create offerings for these domains and zones, and lock the domains and zones.

    The parameters are ``domainid`` and ``zoneid``. An offering without them is available in all domains and zones;
    only root admins may create an offering for all domains.

    Raises:
        InvalidParameter: a domain or zone was deleted.
        PermissionDenied: the caller may not access a domain, or no domain is given and the caller is not a root
            admin.
    """
    domains = _each_once(batch, "domainid")
    require_domains(connection, caller, domains)
    lock_entities(connection, domains, "domainid", shared=True)
    if not caller.is_root_admin and any(given.get("domainid") == () for given in batch):
        raise PermissionDenied(
            "Only root admins may create offerings for all domains; name your domains in domainid"
        )
    lock_entities(connection, _each_once(batch, "zoneid"), "zoneid", shared=True)


def without_subdomains(connection: Connection, batch: Sequence[Arguments]) -> list[Arguments]:
    """Return the arguments without domains that are below another domain of the same offering.

    An offering of a domain is also available in all domains below it, so these domains are redundant.
    """
    found = domain_lineages(connection, [ref.id for ref in _each_once(batch, "domainid")])
    return [
        {
            **given,
            "domainid": tuple(ref for ref in given["domainid"] if not _is_below(ref, given["domainid"], found)),
        }
        if given.get("domainid")
        else given
        for given in batch
    ]


def _is_below(domain: EntityRef, others: Iterable[EntityRef], lineages_by_id: Mapping[int, str]) -> bool:
    mine = lineages_by_id[domain.id]
    return any(mine != (above := lineages_by_id[other.id]) and mine.startswith(above) for other in others)


def named_places(connection: Connection, caller: Caller, given: Arguments) -> dict[str, tuple[EntityRef, ...]]:
    """Return the domains and zones that the parameters ``domainid`` and ``zoneid`` of an update name.

    The values are ids, or ``public`` for all domains and ``all`` for all zones, which give an empty tuple.

    Raises:
        InvalidParameter: there is no domain or zone with an id.
    """
    return {
        parameter: _named(connection, caller, given[parameter], entity, parameter, everywhere)
        for parameter, entity, everywhere in (
            ("domainid", Entity.DOMAIN, PUBLIC),
            ("zoneid", Entity.ZONE, EVERY_ZONE),
        )
        if parameter in given
    }


def require_own(connection: Connection, caller: Caller, offering: EntityRef, row: Mapping[str, Any]) -> None:
    """Raise PermissionDenied if the caller may not change an offering.

    Root admins may change every offering. Other callers may only change offerings that are restricted to the
    caller's domain and its subdomains.

    Raises:
        PermissionDenied: the offering is public, or is available in a domain outside of the caller's.
    """
    if caller.is_root_admin:
        return
    found = domain_lineages(connection, row["domain_ids"])
    if not found or not all(lineage.startswith(caller.owner.lineage) for lineage in found.values()):
        raise PermissionDenied(
            f"{caller.username} does not have permission to operate with offering {offering.uuid}"
        )


def _each_once(batch: Iterable[Arguments], parameter: str) -> list[EntityRef]:
    return list(dict.fromkeys(ref for given in batch for ref in given.get(parameter, ())))


def _named(
    connection: Connection, caller: Caller, written: str, entity: Entity, parameter: str, everywhere: str
) -> tuple[EntityRef, ...]:
    if written.lower() == everywhere:
        return ()
    texts = list(dict.fromkeys(part.strip() for part in written.split(",") if part.strip()))
    found = resolve(connection, caller, [entity], [text for text in texts if UUID_SHAPE.fullmatch(text)])
    for text in texts:
        if text not in found:
            raise InvalidParameter(parameter, text, f"it must be {everywhere}, or ids joined by commas")
    if not texts:
        raise InvalidParameter(parameter, written, f"it must be {everywhere}, or ids joined by commas")
    return tuple(dict.fromkeys(found.values()))
