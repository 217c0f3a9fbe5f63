"""Giving zones, pods, clusters and hosts to one domain or account alone, and taking them back."""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import ONE, hold, noun, only_row, subject, unique_name
from bulkdeploy.services.ownership import named_account, require_domain
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure import dedications
from bulkdeploy.store.infrastructure.dedications import Dedicated
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.ledger.zone_locks import change_zone_rules
from bulkdeploy.store.live_rows import insert_row

CLASSES = "org.apache.cloudstack.api.commands."


def dedicate_all(
    kind: Entity, connection: Connection, caller: Caller, batch: Sequence[Arguments]
) -> list[EntityRef]:
    """Give places of one kind to domains or accounts; see ``dedicate``."""
    for given in batch:
        place = given[f"{kind.name.lower()}id"]
        dedicate(connection, caller, place, given["domainid"], given.get("account"))
    return []


def dedicate(
    connection: Connection, caller: Caller, place: EntityRef, domain: EntityRef, account: str | None
) -> None:
    """Give a place to a domain, or to one account of it; the next plan honours it.

    Raises:
        InvalidParameter: the place, the domain or the account is not there, the place has a holder, or what it lies
            in, or what lies in it, has another one.
        ResourceInUse: VMs of others are on its hosts.
    """
    parameter = f"{place.entity.name.lower()}id"
    zone = dedications.zone_of(connection, place)
    change_zone_rules(connection, [zone.id])  # alone: what others are about to run here is there to be counted
    hold(connection, zone, parameter)
    if place.entity is not Entity.ZONE:
        hold(connection, place, parameter)
    hold(connection, domain, "domainid")  # alone: a holder gets one group
    lineage = require_domain(connection, caller, domain)
    holder = None if account is None else named_account(connection, caller, account, domain)
    for other in dedications.around_and_inside(connection, place):
        _check_other(parameter, place, other, lineage, holder)
    account_id = None if holder is None else holder.account_id
    if vms := dedications.count_foreign_vms(connection, place, lineage, account_id):
        raise ResourceInUse(f"{_shown(place)} can not be dedicated: {vms} VM(s) of others are on its hosts")
    group = _group(connection, domain, holder)
    dedications.write_dedication(connection, place, domain.id, account_id, group.id)
    text = f"dedicated {_shown(place)} to {domain.name if holder is None else holder.account_name}"
    record_event(connection, caller, EventType.DEDICATE_RESOURCE, text, subject(_kind(place), place))


def release(connection: Connection, caller: Caller, place: EntityRef) -> JobTicket:
    """Release the dedication of a place.

    Raises:
        InvalidParameter: nobody has it alone.
    """
    parameter = f"{place.entity.name.lower()}id"
    change_zone_rules(connection, [dedications.zone_of(connection, place).id])
    hold(connection, place, parameter)
    if not dedications.release_place(connection, place):
        raise InvalidParameter(parameter, str(place.uuid), f"{_shown(place)} is not dedicated")
    about = subject(_kind(place), place)
    record_event(connection, caller, EventType.DEDICATE_RESOURCE_RELEASE, f"released {_shown(place)}", about)
    return done_with_success(connection, caller, f"{CLASSES}ReleaseDedicated{_kind(place)}Cmd", about)


def _check_other(parameter: str, place: EntityRef, other: Dedicated, lineage: str, holder: Owner | None) -> None:
    """Of two dedicated places, one in the other, the inner one's holder must be part of the outer one's."""
    if (other.entity, other.name) == (place.entity, place.name):
        raise InvalidParameter(parameter, str(place.uuid), f"{_shown(place)} is dedicated already")
    mine = (lineage, None if holder is None else holder.account_id)
    theirs = (other.lineage, other.account_id)
    order = (Entity.ZONE, Entity.POD, Entity.CLUSTER, Entity.HOST)
    inner, outer = (mine, theirs) if order.index(other.entity) < order.index(place.entity) else (theirs, mine)
    if not inner[0].startswith(outer[0]) or outer[1] not in (None, inner[1]):
        rule = f"{noun(other.entity)} {other.name} is dedicated to others"
        raise InvalidParameter(parameter, str(place.uuid), rule)


def _group(connection: Connection, domain: EntityRef, holder: Owner | None) -> EntityRef:
    """The holder's group of type ExplicitDedication, named as CloudStack names it."""
    account_id = None if holder is None else holder.account_id
    found = dedications.dedication_group(connection, domain.id, account_id)
    if found is not None:
        return found
    values = {
        "account_id": account_id,
        "domain_id": domain.id,
        "name": f"DedicatedGrp-{domain.name if holder is None else holder.account_name}",
        "affinity_type": AffinityType.EXPLICIT_DEDICATION.value,
        "description": "dedicated resources group",
    }
    with unique_name("account", values["name"], "another affinity group of the account"):
        return insert_row(connection, Entity.AFFINITY_GROUP, values)


def done(connection: Connection, caller: Caller, place: EntityRef) -> JobTicket:
    """The job that dedicated a place; its result is the dedication."""
    word = place.entity.name.lower()
    row = only_row(dedications.list_dedications(connection, place.entity, {f"{word}id": place}, ONE))
    cmd = f"{CLASSES}Dedicate{_kind(place)}Cmd"
    return done_with_object(connection, caller, cmd, f"dedicated{word}", row, subject(_kind(place), place))


def _kind(place: EntityRef) -> str:
    return place.entity.name.capitalize()


def _shown(place: EntityRef) -> str:
    return f"{noun(place.entity)} {place.name}"
