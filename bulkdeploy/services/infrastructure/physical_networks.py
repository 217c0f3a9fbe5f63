"""Physical networks: made, changed and deleted. CloudStack does so by jobs; here they are done at once."""

import re
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.topology import NetworkType
from bulkdeploy.services.inventory.inventory_values import name
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.live_entities import ONE, changed, hold, only_row, subject
from bulkdeploy.services.wire_values import checked, checked_tags
from bulkdeploy.store.filters import Arguments
from bulkdeploy.store.infrastructure import physical_networks
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.live_rows import change_row, has_live, insert_row, remove_row, what_hangs_on

KIND = "PhysicalNetwork"
COMMANDS = "org.apache.cloudstack.api.command.admin.network."
ISOLATION_METHODS = ("VLAN", "VXLAN", "GRE", "STT", "L3")
VLAN_RANGE = re.compile(r"[0-9]{1,8}(-[0-9]{1,8})?", re.ASCII)
LARGEST_ID = {"VLAN": 4095}
LARGEST_VNI = 2**24 - 1


def create_network(connection: Connection, caller: Caller, given: Arguments) -> JobTicket:
    """Make a physical network, disabled, with the providers that each starts with.

    Raises:
        InvalidParameter: a value that breaks its rule, or a second one for a Basic zone.
    """
    zone: EntityRef = given["zoneid"]
    methods = _isolation_methods(given)
    values = {
        "zone_id": zone.id,
        "state": "Disabled",
        "isolation_methods": ",".join(methods),
        "name": checked("name", given["name"], name()),
        "broadcast_domain_range": given.get("broadcastdomainrange", "ZONE"),
        **_columns(given, methods[0]),
    }
    row = hold(connection, zone, "zoneid")  # alone: a Basic zone has one
    is_basic = row["network_type"] == NetworkType.BASIC
    if is_basic and has_live(connection, physical_networks.PHYSICAL_NETWORKS_OF_A_ZONE, zone.id):
        raise InvalidParameter("zoneid", str(zone.uuid), f"Basic zone {zone.name} has its one physical network")
    if is_basic and values.get("vlan_range") is not None:
        raise InvalidParameter("vlan", given["vlan"], f"Basic zone {zone.name} has no VLANs")
    network = insert_row(connection, Entity.PHYSICAL_NETWORK, values)
    with_groups = is_basic or row["security_groups_enabled"]
    physical_networks.add_default_providers(connection, network, with_security_groups=with_groups)
    text = f"created physical network {network.name} in zone {zone.name}"
    return _done(connection, caller, EventType.PHYSICAL_NETWORK_CREATE, network, text)


def update_network(connection: Connection, caller: Caller, network: EntityRef, given: Arguments) -> JobTicket:
    """Change a physical network.

    Raises:
        InvalidParameter: a value that breaks its rule.
    """
    row = hold(connection, network)
    values = _columns(given, row["isolation_methods"].partition(",")[0])
    change_row(connection, network, values)
    text = f"changed physical network {network.name}{changed(values)}"
    return _done(connection, caller, EventType.PHYSICAL_NETWORK_UPDATE, network, text)


def delete_network(connection: Connection, caller: Caller, network: EntityRef) -> JobTicket:
    """Delete a physical network, with its traffic types and providers.

    Raises:
        InvalidParameter: it was deleted.
        ResourceInUse: guest networks or public address ranges are on it.
    """
    hold(connection, network)
    if left := what_hangs_on(connection, physical_networks.CONTENTS, network.id):
        raise ResourceInUse(f"Physical network {network.name} still has {', '.join(left)}")
    physical_networks.remove_contents(connection, network)
    remove_row(connection, network)
    about = subject(KIND, network)
    text = f"deleted physical network {network.name}"
    record_event(connection, caller, EventType.PHYSICAL_NETWORK_DELETE, text, about)
    return done_with_success(connection, caller, f"{COMMANDS}DeletePhysicalNetworkCmd", about)


def _isolation_methods(given: Arguments) -> tuple[str, ...]:
    methods = tuple(method.upper() for method in given.get("isolationmethods") or ("VLAN",))
    for method in methods:
        if method not in ISOLATION_METHODS:
            raise InvalidParameter(
                "isolationmethods", method, f"it should be one of {', '.join(ISOLATION_METHODS)}"
            )
    return methods


def _columns(given: Arguments, method: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if "state" in given:
        values["state"] = given["state"]
    if "networkspeed" in given:
        values["network_speed"] = given["networkspeed"] or None
    if "tags" in given:
        values["tags"] = checked_tags("tags", given["tags"])
    if "vlan" in given:
        values["vlan_range"] = _vlan_ranges(given["vlan"], LARGEST_ID.get(method, LARGEST_VNI))
    return values


def _vlan_ranges(written: str, largest: int) -> str | None:
    """Ranges of VLANs as CloudStack takes them: ``100-199`` or ``100-199,300-399``."""
    parts = [part.strip() for part in written.split(",") if part.strip()]
    for part in parts:
        low, _, high = part.partition("-")
        if not VLAN_RANGE.fullmatch(part) or not int(low) <= int(high or low) <= largest:
            raise InvalidParameter(
                "vlan", written, f"it should be ranges such as 100-199 of ids from 0 to {largest}"
            )
    return ",".join(parts) or None


def _done(connection: Connection, caller: Caller, event: EventType, network: EntityRef, text: str) -> JobTicket:
    about = subject(KIND, network)
    record_event(connection, caller, event, text, about)
    row = only_row(physical_networks.list_physical_networks(connection, {"id": network}, ONE))
    made = event is EventType.PHYSICAL_NETWORK_CREATE
    cmd = f"{COMMANDS}{'Create' if made else 'Update'}PhysicalNetworkCmd"
    return done_with_object(connection, caller, cmd, "physicalnetwork", row, about, created=made)
