"""Service offerings: their columns, and what makes one (reference section 8.5)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.parameters import details_of
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.scheduling.catalog import planners
from bulkdeploy.services.catalog import offerings
from bulkdeploy.services.catalog.offerings import OfferingKind
from bulkdeploy.services.inventory.inventory_values import name
from bulkdeploy.services.wire_values import checked, checked_tags
from bulkdeploy.store.catalog import service_offerings
from bulkdeploy.store.filters import Arguments

FIXED = {"cpunumber": "cpu_number", "cpuspeed": "cpu_mhz", "memory": "memory_mib"}
BOUNDS = {
    "mincpunumber": "min_cpu_number",
    "maxcpunumber": "max_cpu_number",
    "minmemory": "min_memory_mib",
    "maxmemory": "max_memory_mib",
}
PLAIN = {
    "displaytext": "display_text",
    "rootdisksize": "root_disk_gib",
    "storagetype": "storage_type",
    "deploymentplanner": "deployment_planner",
    "offerha": "offer_ha",
    "limitcpuuse": "limit_cpu_use",
    "dynamicscalingenabled": "dynamic_scaling",
    "networkrate": "network_rate",
    "sortkey": "sort_key",
    "state": "state",
}
TAGS = {"tags": "storage_tags", "storagetags": "storage_tags", "hosttags": "host_tags"}


def create_offering(connection: Connection, caller: Caller, given: Arguments) -> Mapping[str, Any]:
    """Make a service offering.

    Raises:
        InvalidParameter, InvalidCombination: sizes neither fixed nor chosen, or a value that breaks its rule.
        PermissionDenied: as ``offering_places.places``.
    """
    _check_sizes(given)
    values = {column: given.get(parameter) for parameter, column in (FIXED | BOUNDS).items()}
    values["details"] = details_of(given.get("serviceofferingdetails", ()))
    return offerings.create_offering(connection, caller, SERVICE_OFFERING, given, values)


def _columns(given: Arguments) -> dict[str, Any]:
    values = {column: given[parameter] for parameter, column in PLAIN.items() if parameter in given}
    if "name" in given:
        values["name"] = checked("name", given["name"], name())
    for parameter, column in TAGS.items():
        if parameter in given:
            values[column] = checked_tags(parameter, given[parameter].split(","))
    planner = given.get("deploymentplanner")
    if planner is not None and planner not in planners():
        raise InvalidParameter("deploymentplanner", planner, f"it must be one of: {', '.join(planners())}")
    return values


def _check_sizes(given: Arguments) -> None:
    """Fixed: cores, speed and memory. Custom: neither cores nor memory, and bounds for both or for none."""
    missing = [parameter for parameter in ("cpunumber", "memory") if parameter not in given]
    is_custom = given.get("customized", bool(missing))
    if is_custom and len(missing) < 2:
        raise InvalidCombination(
            ("customized", "cpunumber", "memory"),
            "cpunumber and memory are given both, for a fixed size, or not at all, for one that is chosen",
        )
    if not is_custom and (missing or "cpuspeed" not in given):
        raise InvalidCombination(tuple(FIXED), "a fixed size needs cpunumber, cpuspeed and memory")
    for low, high in (("mincpunumber", "maxcpunumber"), ("minmemory", "maxmemory")):
        if not is_custom and (low in given or high in given):
            raise InvalidCombination((low, high), f"{low} and {high} are for sizes that are chosen")
        if (low in given) is not (high in given):
            raise InvalidCombination((low, high), f"{low} and {high} should be given together")
        if low in given and given[low] > given[high]:
            raise InvalidParameter(high, given[high], f"it must not be below {low} {given[low]}")


SERVICE_OFFERING = OfferingKind(
    Entity.SERVICE_OFFERING,
    "ServiceOffering",
    EventType.SERVICE_OFFERING_CREATE,
    EventType.SERVICE_OFFERING_EDIT,
    EventType.SERVICE_OFFERING_DELETE,
    _columns,
    service_offerings.list_service_offerings,
)
