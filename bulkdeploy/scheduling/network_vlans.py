"""The choice of physical network and VLAN for new networks."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.errors import InsufficientVlans, InvalidCombination, InvalidParameter
from bulkdeploy.domain.networks.guest_networks import UNTAGGED, free_vlan, vlan_of, vlan_ranges
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.networks import network_changes as store
from bulkdeploy.store.networks.dedicated_vlan_ranges import ranges_of
from bulkdeploy.store.networks.network_changes import OfferingFacts
from bulkdeploy.store.rows.filters import Arguments

SHARE = "use.system.guest.vlans"
"""The setting that decides whether an account with dedicated VLANs gets other VLANs when its own are used up."""


@dataclass(frozen=True, slots=True)
class _Vlans:
    """The VLANs of a physical network from the point of view of an account.

    Attributes:
        used: the names of networks by the VLANs that they use.
        mine: the ranges that are dedicated to the account.
        others: the ranges that are dedicated to other accounts.
        every: the ranges of the physical network.
    """

    used: Mapping[str, str]
    mine: Sequence[tuple[int, int]]
    others: Sequence[tuple[int, int]]
    every: Sequence[tuple[int, int]]

    def is_used(self, vlan: int) -> bool:
        return str(vlan) in self.used

    def is_used_or_dedicated(self, vlan: int) -> bool:
        return self.is_used(vlan) or _contains(self.mine, vlan) or _contains(self.others, vlan)


def choose_vlans(
    connection: Connection,
    batch: Sequence[Arguments],
    offerings: Mapping[int, OfferingFacts],
    account_ids: Sequence[int],
) -> list[tuple[str | None, int | None]]:
    """Return the VLAN and the physical network (internal id) of each new network. No VLAN is used twice.

    The VLAN is the requested one. If the offering does not require a VLAN in the request, the lowest free VLAN of
    the ranges that are dedicated to the owner is used, or else of the physical network's ranges. The VLAN is None
    if the physical network has no range. ``account_ids`` are the owners of the networks.

    Raises:
        InvalidParameter, InvalidCombination: a requested VLAN is missing, malformed, in use or dedicated to another
        account, or the physical network is not in the zone.
        InsufficientVlans: all VLANs that the owner may get are in use.
    """
    wanted = {given["physicalnetworkid"].id for given in batch if "physicalnetworkid" in given}
    zone_ids = {given["zoneid"].id for given in batch}
    physical = store.lock_physical_networks(connection, zone_ids, wanted)
    used = store.vlans_in_use(connection, zone_ids)
    dedicated = ranges_of(connection, [row.id for row in physical]) if physical else []
    found = []
    for given, account_id in zip(batch, account_ids, strict=True):
        on = _physical_network(given, physical, offerings[given["networkofferingid"].id])
        place = (given["zoneid"].id, None if on is None else on.id)
        mine = used.setdefault(place, {})
        here = [row for row in dedicated if row.physical_network_id == place[1]]
        vlans = _Vlans(
            ChainMap(mine, used.get((place[0], None), {})),
            [(row.first_vlan, row.last_vlan) for row in here if row.account_id == account_id],
            [(row.first_vlan, row.last_vlan) for row in here if row.account_id != account_id],
            [] if on is None else vlan_ranges(on.vlan_range or ""),
        )
        if "vlan" in given:
            vlan: str | None = _requested_vlan(given, vlans)
        else:
            vlan = _free_vlan(connection, given, on, vlans, offerings, account_id)
        if vlan is not None:
            mine[vlan] = given["name"]
        found.append((vlan, place[1]))
    return found


def _physical_network(given: Arguments, physical: Sequence[Row[Any]], offering: OfferingFacts) -> Row[Any] | None:
    """Return the requested physical network, or the zone's first enabled one that has the offering's tag.

    In a zone with one physical network the tag is ignored, as in CloudStack.
    """
    zone, wanted = given["zoneid"], given.get("physicalnetworkid")
    of_zone = [row for row in physical if row.zone_id == zone.id]
    if wanted is None:
        enabled = [row for row in of_zone if row.state == "Enabled"]
        if len(enabled) < 2 or offering.tags is None:
            return enabled[0] if enabled else None
        tagged = next((row for row in enabled if offering.tags in row.tags), None)
        if tagged is None:
            rule = f"no enabled physical network of zone {zone.name} has its tag {offering.tags}"
            raise InvalidParameter("networkofferingid", offering.name, rule)
        return tagged
    for row in of_zone:
        if row.id == wanted.id:
            return row
    raise InvalidParameter("physicalnetworkid", str(wanted.uuid), f"zone {zone.name} has no such physical network")


def _requested_vlan(given: Arguments, vlans: _Vlans) -> str:
    """Return the VLAN that the request names.

    As in CloudStack, an owner with free dedicated VLANs cannot use another VLAN of the physical network's ranges.
    """
    vlan = vlan_of(given["vlan"])
    if vlan == UNTAGGED:
        return vlan
    if vlan in vlans.used and not given.get("bypassvlanoverlapcheck"):
        rule = f"network {vlans.used[vlan]} has it; bypassvlanoverlapcheck=true takes it all the same"
        raise InvalidParameter("vlan", given["vlan"], rule)
    if _contains(vlans.others, int(vlan)):
        raise InvalidParameter("vlan", given["vlan"], "it is dedicated to another account")
    is_shared = _contains(vlans.every, int(vlan)) and not _contains(vlans.mine, int(vlan))
    if vlans.mine and is_shared and free_vlan(vlans.mine, vlans.is_used) is not None:
        raise InvalidParameter("vlan", given["vlan"], "it is not one of the VLANs that are dedicated to the owner")
    return vlan


def _free_vlan(
    connection: Connection,
    given: Arguments,
    physical: Row[Any] | None,
    vlans: _Vlans,
    offerings: Mapping[int, OfferingFacts],
    account_id: int,
) -> str | None:
    offering = offerings[given["networkofferingid"].id]
    if offering.specify_vlan:
        raise InvalidCombination(
            ("vlan", "networkofferingid"), f"offering {offering.name} requires the parameter vlan"
        )
    if physical is None or not physical.vlan_range:
        return None
    found = free_vlan(vlans.mine, vlans.is_used)
    if found is None and (not vlans.mine or read_configuration(connection).flag(SHARE, Scope.ACCOUNT, account_id)):
        found = free_vlan(vlans.every, vlans.is_used_or_dedicated)
    if found is None:
        raise InsufficientVlans(physical.name, physical.vlan_range)
    return found


def _contains(ranges: Sequence[tuple[int, int]], vlan: int) -> bool:
    return any(first <= vlan <= last for first, last in ranges)
