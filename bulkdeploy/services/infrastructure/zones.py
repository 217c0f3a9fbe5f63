"""Making, changing and deleting zones (reference section 8.1)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.topology import AllocationState, NetworkType
from bulkdeploy.services.infrastructure.places import delete_place
from bulkdeploy.services.inventory.inventory_values import cidr, ip_address, name
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject, unique_name
from bulkdeploy.services.ownership import require_domain
from bulkdeploy.services.wire_values import checked
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure import zones
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.ledger.zone_locks import change_zone_rules
from bulkdeploy.store.live_rows import change_row, insert_row

KIND = "Zone"
GUEST_CIDR = "10.1.1.0/24"
"""What the guests of an Advanced zone have where the call says nothing, as in CloudStack."""

ADDRESSES = {"dns1": "dns1", "dns2": "dns2", "internaldns1": "internal_dns1", "internaldns2": "internal_dns2"}
PLAIN = {
    "localstorageenabled": "local_storage_enabled",
    "allocationstate": "allocation_state",
    "sortkey": "sort_key",
}


def create_zone(connection: Connection, caller: Caller, given: Arguments) -> Mapping[str, Any]:
    """Make a zone; it takes VMs once it is enabled.

    Raises:
        InvalidParameter, InvalidCombination: a value that breaks its rule, or a name that is taken.
        PermissionDenied: the domain is outside the caller's reach.
    """
    is_basic = given["networktype"] == NetworkType.BASIC
    if is_basic and "guestcidraddress" in given:
        raise InvalidCombination(
            ("guestcidraddress", "networktype"), "guestcidraddress is for zones of networktype Advanced"
        )
    values: dict[str, Any] = {
        "network_type": given["networktype"],
        "security_groups_enabled": is_basic or bool(given.get("securitygroupenabled")),
        "allocation_state": AllocationState.DISABLED.value,
        "guest_cidr": None if is_basic else GUEST_CIDR,
        **_columns(given),
    }
    if (domain := given.get("domainid")) is not None:
        require_domain(connection, caller, domain)
        values["domain_id"] = hold(connection, domain, "domainid", shared=True)["id"]
    with unique_name("name", values["name"], "another zone"):
        zone = insert_row(connection, Entity.ZONE, values)
    return _told(connection, caller, EventType.ZONE_CREATE, zone, f"created zone {zone.name}")


def update_zone(connection: Connection, caller: Caller, zone: EntityRef, given: Arguments) -> Mapping[str, Any]:
    """Change a zone; the next plan sees whether it is enabled.

    Raises:
        InvalidParameter, InvalidCombination: as ``create_zone``.
    """
    values = _columns(given)
    if "allocation_state" in values:
        change_zone_rules(connection, zone.id)
    row = hold(connection, zone)
    if "guest_cidr" in values and row["network_type"] == NetworkType.BASIC:
        raise InvalidCombination(
            ("guestcidraddress", "id"), "guestcidraddress is for zones of networktype Advanced"
        )
    if given.get("ispublic"):
        values["domain_id"] = None
    elif given.get("ispublic") is False and row["domain_id"] is None:
        raise InvalidParameter("ispublic", "false", "the zone is public; dedicateZone gives it to one domain")
    with unique_name("name", values.get("name"), "another zone"):
        change_row(connection, zone, values)
    return _told(connection, caller, EventType.ZONE_EDIT, zone, f"changed zone {zone.name}{changed(values)}")


def delete_zone(connection: Connection, caller: Caller, zone: EntityRef) -> None:
    """Delete a zone that is empty.

    Raises:
        InvalidParameter: something is still in it.
    """
    delete_place(connection, caller, zone, zones.CONTENTS, EventType.ZONE_DELETE, KIND)


def _columns(given: Arguments) -> dict[str, Any]:
    """The columns that a call sets, checked; an empty second address takes it away."""
    values = {column: given[parameter] for parameter, column in PLAIN.items() if parameter in given}
    if "name" in given:
        values["name"] = checked("name", given["name"], name())
    for parameter, column in ADDRESSES.items():
        written = given.get(parameter)
        if written is not None:
            is_cleared = written == "" and parameter.endswith("2")
            values[column] = None if is_cleared else checked(parameter, written, ip_address())
    if "guestcidraddress" in given:
        values["guest_cidr"] = checked("guestcidraddress", given["guestcidraddress"], cidr())
    if "domain" in given:
        values["network_domain"] = checked("domain", given["domain"], name()) if given["domain"] else None
    return values


def _told(
    connection: Connection, caller: Caller, event: EventType, zone: EntityRef, text: str
) -> Mapping[str, Any]:
    record_event(connection, caller, event, text, subject(KIND, zone))
    return only_row(zones.list_zones(connection, caller, {"id": zone}, ONE))
