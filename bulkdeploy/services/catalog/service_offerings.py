"""Operations on service offerings."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.noun import Change
from bulkdeploy.declare.parameters import details_of
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines.leases import LEASES_ENABLED, NO_LEASE, check_lease
from bulkdeploy.services.catalog import offerings
from bulkdeploy.services.catalog.offerings import OfferingKind, tags_of
from bulkdeploy.store.catalog.disk_settings import disk_parameters_of
from bulkdeploy.store.catalog.service_offerings import ENCRYPT_ROOT, FIELDS, TAGS
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import columns_of


def create_service_offerings(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create service offerings and return them. Leases are ignored while ``instance.lease.enabled`` is false.

    Raises:
        InvalidParameter, InvalidCombination: sizes are neither fixed nor custom, or a lease has no action; or under
        the same conditions as ``create_offerings``.
        PermissionDenied: under the same conditions as ``create_offerings``.
    """
    for given in batch:
        _check_sizes(given)
        if (days := given.get("leaseduration")) is not None:
            check_lease(days, given.get("leaseexpiryaction"))
    if any("leaseduration" in given for given in batch):
        enabled = read_configuration(connection).flag(LEASES_ENABLED)
        batch = [
            given if enabled and given.get("leaseduration") != NO_LEASE else _unleased(given) for given in batch
        ]
    return offerings.create_offerings(connection, caller, SERVICE_OFFERING, batch)


def _unleased(given: Arguments) -> Arguments:
    return {name: value for name, value in given.items() if not name.startswith("lease")}


def update_service_offerings(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change service offerings. Existing VMs of these offerings are not changed.

    Raises:
        InvalidParameter, PermissionDenied: under the same conditions as ``update_offerings``.
    """
    offerings.update_offerings(connection, caller, SERVICE_OFFERING, changes)


def _columns(given: Arguments) -> dict[str, Any]:
    values = {**columns_of(FIELDS, given), **tags_of(given, TAGS)}
    if settings := disk_parameters_of(given, ENCRYPT_ROOT):
        values["disk_parameters"] = settings
    if "serviceofferingdetails" in given:
        values["details"] = details_of(given["serviceofferingdetails"])
    return values


def _check_sizes(given: Arguments) -> None:
    """Check that the sizes of a service offering are either fixed or custom.

    Fixed sizes consist of cores, speed and memory. Custom sizes have neither cores nor memory, and bounds for both
    or for none of them.
    """
    missing = [parameter for parameter in ("cpunumber", "memory") if parameter not in given]
    is_custom = given.get("customized", bool(missing))
    if is_custom and len(missing) < 2:
        raise InvalidCombination(
            ("customized", "cpunumber", "memory"),
            "give both cpunumber and memory for a fixed size, or neither of them for a custom size",
        )
    if not is_custom and (missing or "cpuspeed" not in given):
        raise InvalidCombination(
            ("cpunumber", "cpuspeed", "memory"), "a fixed size needs cpunumber, cpuspeed and memory"
        )
    for low, high in (("mincpunumber", "maxcpunumber"), ("minmemory", "maxmemory")):
        if not is_custom and (low in given or high in given):
            raise InvalidCombination((low, high), f"{low} and {high} can be given only for custom sizes")
        if (low in given) is not (high in given):
            raise InvalidCombination((low, high), f"{low} and {high} must be given together")
        if low in given and given[low] > given[high]:
            raise InvalidParameter(high, given[high], f"it must not be below {low} {given[low]}")


SERVICE_OFFERING = OfferingKind(
    Entity.SERVICE_OFFERING,
    "ServiceOffering",
    EventType.SERVICE_OFFERING_CREATE,
    EventType.SERVICE_OFFERING_EDIT,
    EventType.SERVICE_OFFERING_DELETE,
    "serviceofferingdetails",
    _columns,
)
