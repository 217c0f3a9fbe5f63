"""The list query of service offerings, and their rows."""

from typing import Any

from sqlalchemy import BigInteger, Connection, Select, and_, cast, func, or_, select

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.units import GIB
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.store.catalog.disk_settings import disk_fields, encrypted, show_disk_settings
from bulkdeploy.store.catalog.offering_places import Wanted, in_state, offered_to, place_columns
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filter,
    Filters,
    by_id,
    filtered,
    keyword,
    ref_in_array,
    same_text,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.tables.offerings import service_offerings
from bulkdeploy.store.tables.topology import hosts
from bulkdeploy.store.tables.virtual_machines import virtual_machines

ACTIVE = "Active"

BOUNDS = {
    "mincpunumber": "min_cpu_number",
    "maxcpunumber": "max_cpu_number",
    "minmemory": "min_memory_mib",
    "maxmemory": "max_memory_mib",
}
"""Keys of ``serviceofferingdetails`` that say what a custom offering allows."""

TAGS = {"tags": "storage_tags", "storagetags": "storage_tags", "hosttags": "host_tags"}
"""Parameters with tags in one text, and the columns that hold them one by one."""

ENCRYPT_ROOT = "encryptroot"

FIELDS: Fields = {
    "name": service_offerings.c.name,
    "displaytext": service_offerings.c.display_text,
    "cpunumber": service_offerings.c.cpu_number,
    "cpuspeed": service_offerings.c.cpu_mhz,
    "memory": service_offerings.c.memory_mib,
    **{name: service_offerings.c[column] for name, column in BOUNDS.items()},
    "rootdisksize": service_offerings.c.root_disk_gib,
    "storagetype": service_offerings.c.storage_type,
    "tags": func.array_to_string(service_offerings.c.storage_tags, ","),
    "hosttags": func.array_to_string(service_offerings.c.host_tags, ","),
    "deploymentplanner": service_offerings.c.deployment_planner,
    "offerha": service_offerings.c.offer_ha,
    "limitcpuuse": service_offerings.c.limit_cpu_use,
    "dynamicscalingenabled": service_offerings.c.dynamic_scaling,
    "isvolatile": service_offerings.c.is_volatile,
    "networkrate": service_offerings.c.network_rate,
    "domainid": service_offerings.c.domain_ids,
    "zoneid": service_offerings.c.zone_ids,
    "serviceofferingdetails": service_offerings.c.details,
    "provisioningtype": service_offerings.c.provisioning_type,
    "systemvmtype": service_offerings.c.system_vm_type,
    "leaseduration": service_offerings.c.lease_days,
    "leaseexpiryaction": service_offerings.c.lease_action,
    **disk_fields(service_offerings, ENCRYPT_ROOT),
    "state": service_offerings.c.state,
    "sortkey": service_offerings.c.sort_key,
}


def list_service_offerings(
    connection: Connection, caller: Caller, arguments: Arguments, wanted: Wanted, paging: Paging
) -> Page:
    """Return one page of offerings that the caller may use, ordered by sort key and id.

    Only active offerings are listed unless ``state`` or ``wanted`` requests others.
    """
    offered = offered_to(service_offerings, caller, from_below=wanted.from_below)
    seen = _query().where(offered, *wanted.conditions(service_offerings))
    query = filtered(seen, _filters(), arguments)
    if wanted.template_bytes is not None:
        query = query.where(_has_capacity(wanted.template_bytes))
    if not wanted.hidden:
        for_systems = service_offerings.c.system_vm_type.is_not(None)
        query = query.where(for_systems if arguments.get("issystem") else ~for_systems)
    if "state" not in arguments and not wanted.hidden:
        query = query.where(service_offerings.c.state == ACTIVE)
    rows, count = fetch_rows(connection, query, paging)
    for row in rows:
        _finish(row)
    return Page(rows, count)


def _query() -> Select[Any]:
    offering = service_offerings.c
    return (
        select(
            offering.uuid.label("id"),
            offering.name,
            offering.display_text.label("displaytext"),
            offering.cpu_number.label("cpunumber"),
            offering.cpu_mhz.label("cpuspeed"),
            offering.memory_mib.label("memory"),
            *(offering[column].label(name) for name, column in BOUNDS.items()),
            offering.root_disk_gib.label("rootdisksize"),
            offering.storage_type.label("storagetype"),
            offering.storage_tags.label("storagetags"),
            offering.host_tags.label("hosttags"),
            offering.deployment_planner.label("deploymentplanner"),
            offering.offer_ha.label("offerha"),
            offering.limit_cpu_use.label("limitcpuuse"),
            offering.dynamic_scaling.label("dynamicscalingenabled"),
            offering.is_volatile.label("isvolatile"),
            offering.network_rate.label("networkrate"),
            offering.details.label("serviceofferingdetails"),
            offering.provisioning_type.label("provisioningtype"),
            offering.disk_parameters,
            offering.system_vm_type.label("systemvmtype"),
            offering.lease_days.label("leaseduration"),
            offering.lease_action.label("leaseexpiryaction"),
            offering.state,
            offering.created,
            *place_columns(service_offerings),
            *annotation_columns(Entity.SERVICE_OFFERING),
        )
        .where(offering.removed.is_(None))
        .order_by(offering.sort_key, offering.id)
    )


def _filters() -> Filters:
    offering = service_offerings.c
    return {
        "id": by_id(offering.id),
        "name": same_text(offering.name),
        "keyword": keyword(offering.name, offering.display_text),
        "state": in_state(offering.state),
        "storagetype": same_text(offering.storage_type),
        "zoneid": ref_in_array(offering.zone_ids),
        "cpunumber": _allows("cpu_number", "max_cpu_number"),
        "cpuspeed": _speed,
        "memory": _allows("memory_mib", "max_memory_mib"),
        "systemvmtype": same_text(offering.system_vm_type),
        "encryptroot": encrypted(service_offerings),
        "virtualmachineid": _suits_vm,
    }


def _allows(fixed: str, high: str) -> Filter:
    """Return the filter for offerings with at least the requested amount of a resource.

    ``fixed`` is the column with the fixed amount. If it is NULL, callers choose the amount up to the column
    ``high``.
    """
    offering = service_offerings.c

    def condition(amount: int) -> Condition:
        chosen = and_(offering[fixed].is_(None), or_(offering[high].is_(None), offering[high] >= amount))
        return or_(offering[fixed] >= amount, chosen)

    return condition


def _speed(mhz: int) -> Condition:
    column = service_offerings.c.cpu_mhz
    return or_(column >= mhz, column.is_(None))


def _has_capacity(template_bytes: int) -> Condition:
    """Return the condition for offerings whose root disk is at least as large as a template.

    Offerings without a root disk size use the size of the template.
    """
    gib = service_offerings.c.root_disk_gib
    return or_(gib.is_(None), cast(gib, BigInteger) * GIB >= template_bytes)


def _suits_vm(vm: EntityRef) -> Condition:
    """Return the condition for offerings to which this VM can change.

    For a running VM, these are larger offerings whose host tags its host has.
    """
    offering, one, present = service_offerings.c, virtual_machines.c, service_offerings.alias("present")
    sizes = ((offering.cpu_number, one.cpu_number), (offering.cpu_mhz, one.cpu_mhz))
    grows = [or_(new.is_(None), new >= old) for new, old in (*sizes, (offering.memory_mib, one.memory_mib))]
    scales = and_(*grows, or_(hosts.c.id.is_(None), offering.host_tags.op("<@")(hosts.c.tags)))
    query = (
        select(1)
        .select_from(virtual_machines)
        .join(present, present.c.id == one.service_offering_id)
        .outerjoin(hosts, hosts.c.id == one.host_id)
        .where(
            one.id == vm.id,
            offering.id != present.c.id,
            offering.storage_type == present.c.storage_type,
            or_(one.state == VmState.STOPPED, scales),
        )
    )
    return query.correlate(service_offerings).exists()


def _finish(row: dict[str, Any]) -> None:
    """Complete a row of a list with the fields that are calculated from other columns.

    A size that callers choose is shown as its minimum, or 0, because Libcloud requires the field.
    """
    least = {"cpunumber": row["mincpunumber"], "cpuspeed": None, "memory": row["minmemory"]}
    bounds = {name: str(value) for name in BOUNDS if (value := row.pop(name)) is not None}
    row["serviceofferingdetails"] = {**row["serviceofferingdetails"], **bounds} or None
    row["iscustomized"] = None in (row["cpunumber"], row["cpuspeed"], row["memory"])
    row.update({name: value or 0 for name, value in least.items() if row[name] is None})
    row["hosttags"] = ",".join(row["hosttags"]) or None
    row["storagetags"] = ",".join(row["storagetags"]) or None
    row.update(issystem=row["systemvmtype"] is not None, defaultuse=False, iscustomizediops=False)
    show_disk_settings(row, ENCRYPT_ROOT)
