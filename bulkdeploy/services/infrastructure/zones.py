"""Operations on zones: create, update and delete."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import AllocationState, NetworkType
from bulkdeploy.services.infrastructure.places import delete_places
from bulkdeploy.services.live_entities import changed_events, given_refs, lock_entities, subject, unique_name
from bulkdeploy.services.ownership import require_domains
from bulkdeploy.store.infrastructure import zones
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.ledger.zone_locks import change_zone_rules
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, insert_rows

KIND = "Zone"
GUEST_CIDR = "10.1.1.0/24"
"""What the guests of an Advanced zone have where the call says nothing, as in CloudStack."""


def create_zones(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create zones and return them. VMs can be placed in a zone after it is enabled.

    Raises:
        InvalidParameter, InvalidCombination: parameters contradict each other, or a name is already used.
        PermissionDenied: the caller may not access a domain.
    """
    domains = given_refs(batch, "domainid")
    require_domains(connection, caller, domains)
    lock_entities(connection, domains, "domainid", shared=True)
    rows = [_new_zone(given) for given in batch]
    with unique_name("name", batch[0]["name"], "another zone"):
        made = insert_rows(connection, Entity.ZONE, rows)
    happened = (Happened(EventType.ZONE_CREATE, f"created zone {zone.name}", subject(KIND, zone)) for zone in made)
    record_events(connection, caller, happened)
    return made


def _new_zone(given: Arguments) -> dict[str, Any]:
    is_basic = given["networktype"] == NetworkType.BASIC
    if is_basic and "guestcidraddress" in given:
        raise InvalidCombination(
            ("guestcidraddress", "networktype"), "guestcidraddress is for zones of networktype Advanced"
        )
    return {
        "allocation_state": AllocationState.DISABLED.value,
        "guest_cidr": None if is_basic else GUEST_CIDR,
        **columns_of(zones.FIELDS, given),
        "security_groups_enabled": is_basic or bool(given.get("securitygroupenabled")),
    }


def update_zones(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change zones. Later placements respect whether the zones are enabled.

    Raises:
        InvalidParameter, InvalidCombination: under the same conditions as ``create_zones``.
    """
    change_zone_rules(connection, [zone.id for zone, given in changes if "allocationstate" in given])
    rows = lock_entities(connection, [zone for zone, _ in changes])
    written = [(zone, _changed_columns(rows[zone.id], given)) for zone, given in changes]
    with unique_name("name", changes[0][1].get("name"), "another zone"):
        change_rows(connection, written)
    record_events(connection, caller, changed_events(EventType.ZONE_EDIT, KIND, written))


def _changed_columns(row: Mapping[str, Any], given: Arguments) -> dict[str, Any]:
    if "guestcidraddress" in given and row["network_type"] == NetworkType.BASIC:
        raise InvalidCombination(
            ("guestcidraddress", "id"), "guestcidraddress is for zones of networktype Advanced"
        )
    values = columns_of(zones.FIELDS, given)
    if given.get("ispublic"):
        values["domain_id"] = None
    elif given.get("ispublic") is False and row["domain_id"] is None:
        raise InvalidParameter("ispublic", "false", "the zone is public; dedicate it to a domain with dedicateZone")
    return values


def delete_zones(connection: Connection, caller: Caller, places: Sequence[EntityRef]) -> None:
    """Delete empty zones.

    Raises:
        InvalidParameter: one of the zones is not empty.
    """
    delete_places(connection, caller, places, zones.CONTENTS, EventType.ZONE_DELETE, KIND)
