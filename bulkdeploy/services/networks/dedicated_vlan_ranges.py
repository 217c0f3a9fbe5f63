"""The dedication of VLANs of a physical network to an account, and their release."""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.networks.guest_networks import vlan_ranges
from bulkdeploy.services.jobs.done_jobs import done_with_success
from bulkdeploy.services.live_entities import lock_entity
from bulkdeploy.services.ownership import NamedOwner, lock_owner
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.networks import dedicated_vlan_ranges as store
from bulkdeploy.store.networks.network_changes import vlan_owners

WRITTEN = re.compile(r"([0-9]{1,8})-([0-9]{1,8})", re.ASCII)
KIND = "GuestVlanRange"
RELEASE_COMMAND = "org.apache.cloudstack.api.command.admin.network.ReleaseDedicatedGuestVlanRangeCmd"


def dedicate_range(
    connection: Connection, caller: Caller, physical_network: EntityRef, written: str, named: NamedOwner
) -> EntityRef:
    """Dedicate VLANs, such as 100-199, to an account or a project, and return the dedicated range.

    A range that continues another range of the same owner extends the other range.

    Raises:
        InvalidCombination: neither an account with its domain nor a project is named.
        InvalidParameter: the physical network was deleted, the range is malformed or not within one range of the
            physical network, a VLAN of the range is dedicated already, or a network of another account has a VLAN
            of the range.
        PermissionDenied: the account is disabled or was deleted.
    """
    if named.account is None and named.project_id is None:
        raise InvalidCombination(
            ("account", "domainid", "projectid"), "name an account and its domain, or a project"
        )
    owner = lock_owner(connection, caller, named)
    row = lock_entity(connection, physical_network, "physicalnetworkid")
    first, last = _limits(written, row)
    present = store.ranges_of(connection, [physical_network.id], lock=True)
    if any(one.first_vlan <= last and first <= one.last_vlan for one in present):
        raise InvalidParameter("vlanrange", written, "VLANs of the range are dedicated already")
    for vlan, account_id in vlan_owners(connection, physical_network.id):
        if first <= vlan <= last and account_id != owner.account_id:
            raise InvalidParameter("vlanrange", written, f"a network of another account has VLAN {vlan}")
    joined = [
        one
        for one in present
        if one.account_id == owner.account_id and (one.last_vlan + 1 == first or last + 1 == one.first_vlan)
    ]
    first, last = min([first, *(one.first_vlan for one in joined)]), max([last, *(one.last_vlan for one in joined)])
    if joined:
        store.delete_ranges(connection, [one.id for one in joined[1:]])
        ref = store.extend_range(connection, joined[0], first, last)
    else:
        ref = store.insert_range(connection, physical_network.id, owner.account_id, first, last)
    text = f"dedicated VLANs {written} of physical network {physical_network.name} to {owner.account_name}"
    record_event(
        connection, caller, EventType.GUEST_VLAN_RANGE_DEDICATE, text, Instance(KIND, ref.id, ref.uuid), owner
    )
    return ref


def release_range(connection: Connection, caller: Caller, ref: EntityRef) -> JobTicket:
    """Release dedicated VLANs, so that networks of all accounts can get them. Existing networks keep their VLANs.

    Raises:
        InvalidParameter: the range was released already.
    """
    if not store.delete_ranges(connection, [ref.id]):
        raise InvalidParameter("id", str(ref.uuid), "the range was released already")
    instance = Instance(KIND, ref.id, ref.uuid)
    text = f"released dedicated VLAN range {ref.uuid}"
    record_event(connection, caller, EventType.GUEST_VLAN_RANGE_RELEASE, text, instance)
    return done_with_success(connection, caller, RELEASE_COMMAND, instance)


def _limits(written: str, physical_network: Mapping[str, Any]) -> tuple[int, int]:
    match = WRITTEN.fullmatch(written)
    if match is None or int(match[1]) > int(match[2]):
        raise InvalidParameter("vlanrange", written, "it must be a first and a last VLAN, such as 100-199")
    first, last = int(match[1]), int(match[2])
    ranges = vlan_ranges(physical_network["vlan_range"] or "")
    if not any(low <= first and last <= high for low, high in ranges):
        shown = physical_network["vlan_range"] or "no VLANs"
        rule = f"it must be within one range of the physical network, which has {shown}"
        raise InvalidParameter("vlanrange", written, rule)
    return first, last
