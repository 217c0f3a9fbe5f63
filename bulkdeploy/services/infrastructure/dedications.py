"""Dedications of zones, pods, clusters and hosts to one domain or account."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import ONE, given_refs, lock_entities, noun, only_row, subject, unique_name
from bulkdeploy.services.ownership import named_accounts, require_domains
from bulkdeploy.store.infrastructure import dedications
from bulkdeploy.store.infrastructure.dedications import Dedicated, Path
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.ledger.zone_locks import change_zone_rules
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import insert_rows

CLASSES = "org.apache.cloudstack.api.commands."


def dedicate_places(
    kind: Entity, connection: Connection, caller: Caller, batch: Sequence[Arguments]
) -> list[EntityRef]:
    """Dedicate zones, pods, clusters or hosts to domains or accounts. All later placements respect the dedication.

    Raises:
        InvalidParameter: the object, the domain or the account does not exist, the object is dedicated already, or
            an object that contains it or that it contains is dedicated to another holder.
        ResourceInUse: VMs of other owners are on the object's hosts.
    """
    parameter = f"{kind.name.lower()}id"
    places = [given[parameter] for given in batch]
    rows = _lock_places(connection, places, parameter)
    domains = given_refs(batch, "domainid")
    lock_entities(connection, domains, "domainid")  # alone: a holder gets one group
    holders = _holders(connection, caller, batch, require_domains(connection, caller, domains))
    there = _Dedications(dedications.dedicated_in_zones(connection, {_zone_id(row) for row in rows.values()}))
    for place, holder in zip(places, holders, strict=True):
        there.add(parameter, place, dedications.path_of(kind.name, rows[place.id]), holder)
    owned = {place.id: (holder.lineage, holder.account_id) for place, holder in zip(places, holders, strict=True)}
    foreign = dedications.count_foreign_vms(connection, kind, owned)
    for place in places:
        if vms := foreign.get(place.id):
            raise ResourceInUse(f"{_shown(place)} cannot be dedicated: {vms} VM(s) of others are on its hosts")
    groups = _groups(connection, holders)
    written = [
        {
            "place_id": place.id,
            "domain_id": holder.domain.id,
            "account_id": holder.account_id,
            "affinity_group_id": groups[holder.domain.id, holder.account_id],
        }
        for place, holder in zip(places, holders, strict=True)
    ]
    dedications.write_dedications(connection, kind, written)
    happened = (
        Happened(
            EventType.DEDICATE_RESOURCE, f"dedicated {_shown(place)} to {holder.name}", _place_reference(place)
        )
        for place, holder in zip(places, holders, strict=True)
    )
    record_events(connection, caller, happened)
    return places


def release_places(connection: Connection, caller: Caller, places: Sequence[EntityRef]) -> None:
    """Remove the dedications of zones, pods, clusters or hosts. All ``places`` must have the same type.

    Raises:
        InvalidParameter: an object is not dedicated.
    """
    parameter = f"{places[0].entity.name.lower()}id"
    _lock_places(connection, places, parameter)
    released = dedications.release_places(connection, places)
    for place in places:
        if place.id not in released:
            raise InvalidParameter(parameter, str(place.uuid), f"{_shown(place)} is not dedicated")
    happened = (
        Happened(EventType.DEDICATE_RESOURCE_RELEASE, f"released {_shown(place)}", _place_reference(place))
        for place in places
    )
    record_events(connection, caller, happened)


def _lock_places(
    connection: Connection, places: Sequence[EntityRef], parameter: str
) -> dict[int, Mapping[str, Any]]:
    """Lock zones, pods, clusters or hosts, after their zones, and return their rows by internal id.

    No placement is planned in these zones until the transaction ends.
    """
    zones = dedications.zones_of(connection, places)
    change_zone_rules(connection, {zone.id for zone in zones.values()})
    rows = lock_entities(connection, list(zones.values()), parameter)
    return rows if places[0].entity is Entity.ZONE else lock_entities(connection, places, parameter)


def _zone_id(row: Mapping[str, Any]) -> int:
    return int(row.get("zone_id", row["id"]))


@dataclass(frozen=True, slots=True)
class _Holder:
    """The account or domain to which a zone, pod, cluster or host is dedicated.

    If ``account_id`` is None, it is dedicated to a domain and its subdomains.
    """

    domain: EntityRef
    lineage: str
    account_id: int | None
    name: str


def _holders(
    connection: Connection, caller: Caller, batch: Sequence[Arguments], lineages: Mapping[int, str]
) -> list[_Holder]:
    named = [(given["account"], given["domainid"]) for given in batch if "account" in given]
    accounts = dict(zip(named, named_accounts(connection, caller, named), strict=True)) if named else {}
    found = []
    for given in batch:
        domain, account = given["domainid"], given.get("account")
        owner = None if account is None else accounts[account, domain]
        holder = (None, domain.name) if owner is None else (owner.account_id, owner.account_name)
        found.append(_Holder(domain, lineages[domain.id], *holder))
    return found


class _Dedications:
    """The dedications in some zones, indexed by the dedicated object and by each object that contains it."""

    def __init__(self, there: Iterable[Dedicated]) -> None:
        self._at: dict[Path, Dedicated] = {}
        self._inside: dict[Path, list[Dedicated]] = {}
        for one in there:
            self._note(one)

    def _note(self, one: Dedicated) -> None:
        self._at[one.path] = one
        for level in range(1, len(one.path)):
            self._inside.setdefault(one.path[:level], []).append(one)

    def add(self, parameter: str, place: EntityRef, path: Path, holder: _Holder) -> None:
        """Add the dedication of one more zone, pod, cluster or host.

        Raises:
            InvalidParameter: the object is already dedicated, or of two objects, one of which contains the other,
                the inner object's holder would not be part of the outer object's holder.
        """
        if path in self._at:
            raise InvalidParameter(parameter, str(place.uuid), f"{_shown(place)} is dedicated already")
        mine = Dedicated(place.entity, place.name, holder.account_id, holder.lineage, path)
        around = [self._at[path[:level]] for level in range(1, len(path)) if path[:level] in self._at]
        pairs = [(other, mine, other) for other in around]
        pairs += [(mine, other, other) for other in self._inside.get(path, ())]
        for outer, inner, other in pairs:
            if not inner.lineage.startswith(outer.lineage) or outer.account_id not in (None, inner.account_id):
                rule = f"{noun(other.entity)} {other.name} is dedicated to others"
                raise InvalidParameter(parameter, str(place.uuid), rule)
        self._note(mine)


def _groups(connection: Connection, holders: Iterable[_Holder]) -> dict[tuple[int, int | None], int]:
    """Return the ids of the holders' groups of type ExplicitDedication, by domain and account.

    Missing groups are created with CloudStack's names.
    """
    wanted = {(holder.domain.id, holder.account_id): holder for holder in holders}
    found = dedications.dedication_groups(connection, {domain_id for domain_id, _ in wanted})
    missing = {key: holder for key, holder in wanted.items() if key not in found}
    rows = [
        {
            "account_id": holder.account_id,
            "domain_id": holder.domain.id,
            "name": f"DedicatedGrp-{holder.name}",
            "affinity_type": AffinityType.EXPLICIT_DEDICATION.value,
            "description": "dedicated resources group",
        }
        for holder in missing.values()
    ]
    if rows:
        with unique_name("account", rows[0]["name"], "another affinity group of the account"):
            made = insert_rows(connection, Entity.AFFINITY_GROUP, rows)
        found.update(zip(missing, (group.id for group in made), strict=True))
    return found


def dedicated(connection: Connection, caller: Caller, place: EntityRef) -> JobTicket:
    """Return the finished job of a call that dedicated an object. The job's result is the dedication."""
    word = place.entity.name.lower()
    row = only_row(dedications.list_dedications(connection, place.entity, {f"{word}id": place}, ONE))
    cmd = f"{CLASSES}Dedicate{_kind(place)}Cmd"
    return done_with_object(connection, caller, cmd, f"dedicated{word}", row, _place_reference(place))


def released(connection: Connection, caller: Caller, place: EntityRef) -> JobTicket:
    """Return the finished job of a call that removed a dedication."""
    return done_with_success(
        connection, caller, f"{CLASSES}ReleaseDedicated{_kind(place)}Cmd", _place_reference(place)
    )


def _place_reference(place: EntityRef) -> Instance:
    return subject(_kind(place), place)


def _kind(place: EntityRef) -> str:
    return place.entity.name.capitalize()


def _shown(place: EntityRef) -> str:
    return f"{noun(place.entity)} {place.name}"
