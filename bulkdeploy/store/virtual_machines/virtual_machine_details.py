"""The parts of a virtual machine's row, and the one query that reads all parts without lists.

``virtual_machines`` runs it and adds the lists of ``virtual_machine_lists``. Field names and
groups: cloudstack-protocol.md 5.8.
"""

from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Text,
    case,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.infrastructure.topology import HostResourceState, HostState, TemplateKind, VolumeType
from bulkdeploy.domain.virtual_machines.firmware import UEFI, BootMode
from bulkdeploy.store.database.arrays import any_of
from bulkdeploy.store.database.percentages import percent
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.visibility import owner_columns, with_owner
from bulkdeploy.store.tables.accounts import users
from bulkdeploy.store.tables.groups import instance_groups
from bulkdeploy.store.tables.offerings import disk_offerings, os_types, service_offerings, templates
from bulkdeploy.store.tables.topology import hosts, storage_pools, zones
from bulkdeploy.store.tables.usage import guest_usage
from bulkdeploy.store.tables.virtual_machines import deployments, virtual_machines, volumes
from bulkdeploy.store.virtual_machines.dynamic_scaling import dynamic_scaling_column

VM_IDS = "vm_ids"

isos = templates.alias("isos")


class Detail(StrEnum):
    """The values of the parameter ``details``: parts of a VM's response in addition to the minimum."""

    ALL = "all"
    GROUP = "group"
    NICS = "nics"
    STATS = "stats"
    SECURITY_GROUPS = "secgrp"
    TEMPLATE = "tmpl"
    SERVICE_OFFERING = "servoff"
    DISK_OFFERING = "diskoff"
    BACKUP_OFFERING = "backoff"
    ISO = "iso"
    VOLUME = "volume"
    MINIMUM = "min"
    AFFINITY_GROUPS = "affgrp"


EVERYTHING = frozenset(Detail)

Columns = tuple[ColumnElement[Any], ...]


@lru_cache(64)
def details_query(details: frozenset[Detail]) -> Select[Any]:
    """Return a query for the requested fields of the VMs in ``vm_ids`` (an ``int_array``), with the key ``vm_id``.

    The query is cached per set of parts, because building it costs more than running it for one VM.
    """
    columns = _minimum()
    for detail, part in _PARTS.items():
        if detail in details:
            columns += part()
    return select(*columns).select_from(_tables()).where(virtual_machines.c.id == any_of(VM_IDS))


def _tables() -> FromClause:
    """Return the join of every table that a part may read. PostgreSQL removes the joins that no part uses."""
    vm = virtual_machines.c
    return (
        with_owner(virtual_machines, vm.account_id)
        .join(zones, zones.c.id == vm.zone_id)
        .join(service_offerings, service_offerings.c.id == vm.service_offering_id)
        .join(templates, templates.c.id == vm.template_id)
        .join(deployments, deployments.c.id == vm.deployment_id)
        .outerjoin(isos, isos.c.id == iso_in_drive(templates))
        .outerjoin(users, users.c.id == vm.user_id)
        .outerjoin(hosts, hosts.c.id == vm.host_id)
        .outerjoin(os_types, os_types.c.id == func.coalesce(vm.os_type_id, templates.c.os_type_id))
        .outerjoin(disk_offerings, disk_offerings.c.id == vm.disk_offering_id)
        .outerjoin(instance_groups, instance_groups.c.id == vm.group_id)
        .outerjoin(guest_usage, guest_usage.c.vm_id == vm.id)
    )


def _minimum() -> Columns:
    vm = virtual_machines.c
    return (
        vm.id.label("vm_id"),
        vm.uuid.label("id"),
        vm.name,
        vm.display_name.label("displayname"),
        vm.instance_name.label("instancename"),
        *owner_columns(),
        users.c.uuid.label("userid"),
        users.c.username,
        vm.created,
        vm.updated.label("lastupdated"),
        vm.state,
        literal_column("'User'", Text).label("vmtype"),
        zones.c.uuid.label("zoneid"),
        zones.c.name.label("zonename"),
        hosts.c.uuid.label("hostid"),
        hosts.c.name.label("hostname"),
        _control_state().label("hostcontrolstate"),
        vm.hypervisor,
        vm.display_vm.label("displayvm"),
        vm.delete_protection.label("deleteprotection"),
        _lease_days().label("leaseduration"),
        vm.lease_expires.label("leaseexpirydate"),
        vm.lease_action.label("leaseexpiryaction"),
        dynamic_scaling_column().label("isdynamicallyscalable"),
        func.coalesce(vm.ha_enabled, service_offerings.c.offer_ha).label("haenable"),
        _key_pair_names().label("keypairs"),
        vm.details,
        *annotation_columns(Entity.VIRTUAL_MACHINE),
        *_boot_columns(),
    )


def _lease_days() -> ColumnElement[int]:
    """Return the days of the lease, counted from the creation of the VM as CloudStack does."""
    expires, created = (
        f"(virtual_machines.{column} AT TIME ZONE 'UTC')::date" for column in ("lease_expires", "created")
    )
    return literal_column(f"{expires} - {created}", Integer)


def _boot_columns() -> Columns:
    """Return the columns ``boottype`` and ``bootmode`` with CloudStack's values, according to the detail UEFI."""
    mode = virtual_machines.c.details.op("->>", return_type=Text())(literal_column(f"'{UEFI}'", Text))
    is_uefi = or_(*(mode == literal_column(f"'{known.value}'", Text) for known in BootMode))
    uefi, bios, legacy = (literal_column(f"'{word}'", Text) for word in ("Uefi", "Bios", "legacy"))
    return (
        case((is_uefi, uefi), else_=bios).label("boottype"),
        case((is_uefi, func.lower(mode)), else_=legacy).label("bootmode"),
    )


def _control_state() -> ColumnElement[str]:
    """Return the column ``hostcontrolstate``, calculated as CloudStack does. It is NULL if the VM is on no host."""
    state, resource_state = hosts.c.state, hosts.c.resource_state
    return case(
        (hosts.c.id.is_(None), None),
        (state != HostState.UP, literal_column("'Offline'", Text)),
        (resource_state == HostResourceState.ENABLED, literal_column("'Enabled'", Text)),
        (resource_state == HostResourceState.DISABLED, literal_column("'Disabled'", Text)),
        else_=literal_column("'Maintenance'", Text),
    )


def key_pairs_column() -> ColumnElement[Any]:
    """Return the names of the VM's own key pairs, else of its deployment's, as a JSON array."""
    return func.coalesce(func.to_jsonb(virtual_machines.c.key_pairs), _shared_key_pairs(), type_=JSONB())


def _key_pair_names() -> ColumnElement[str]:
    """Return the names of the VM's own key pairs, else of its deployment's, separated by commas, or NULL."""
    own, shared = virtual_machines.c.key_pairs, _shared_key_pairs()
    names = func.jsonb_array_elements_text(shared).column_valued()
    joined = select(func.string_agg(names, literal_column("','"))).scalar_subquery()
    return case(
        (own.is_not(None), func.nullif(func.array_to_string(own, literal_column("','")), literal_column("''"))),
        (func.jsonb_typeof(shared) == literal_column("'array'"), joined),
    ).cast(Text)


def _shared_key_pairs() -> ColumnElement[Any]:
    return deployments.c.config.op("->", return_type=JSONB())("keypairs")


def user_data_column() -> ColumnElement[Any]:
    """Return the column ``userdata``: the user data of the VM, or else of its deployment, in base64."""
    shared = deployments.c.config.op("->>", return_type=Text())("user_data")
    own = virtual_machines.c.user_data
    return case((own.is_(None), shared), else_=own).label("userdata")


def user_data_details_column() -> ColumnElement[Any]:
    """Return the column ``userdatadetails``: the values of variables in the deployment's user data, as JSON.

    It is NULL for a VM with its own user data.
    """
    shared = deployments.c.config.op("->>", return_type=Text())("user_data_details")
    return case((virtual_machines.c.user_data.is_(None), shared)).label("userdatadetails")


def iso_in_drive(source: FromClause) -> ColumnElement[int]:
    """Return the id of the ISO in the VM's drive, or 0 if the drive is empty.

    ``source`` is the table of the template or ISO from which the VM was created.
    """
    made_from = case((source.c.kind == TemplateKind.ISO, virtual_machines.c.template_id))
    return func.coalesce(virtual_machines.c.iso_id, made_from)


def _group() -> Columns:
    return instance_groups.c.uuid.label("groupid"), instance_groups.c.name.label("group")


def _service_offering() -> Columns:
    vm = virtual_machines.c
    return (
        service_offerings.c.uuid.label("serviceofferingid"),
        service_offerings.c.name.label("serviceofferingname"),
        vm.cpu_number.label("cpunumber"),
        vm.cpu_mhz.label("cpuspeed"),
        vm.memory_mib.label("memory"),
    )


def _disk_offering() -> Columns:
    return disk_offerings.c.uuid.label("diskofferingid"), disk_offerings.c.name.label("diskofferingname")


def _template() -> Columns:
    return (
        templates.c.uuid.label("templateid"),
        templates.c.name.label("templatename"),
        templates.c.display_text.label("templatedisplaytext"),
        templates.c.template_type.label("templatetype"),
        templates.c.format.label("templateformat"),
        templates.c.password_enabled.label("passwordenabled"),
        templates.c.arch,
        os_types.c.uuid.label("ostypeid"),
        os_types.c.uuid.label("guestosid"),
        os_types.c.name.label("osdisplayname"),
    )


def _iso() -> Columns:
    return (
        isos.c.uuid.label("isoid"),
        isos.c.name.label("isoname"),
        isos.c.display_text.label("isodisplaytext"),
    )


def _volume() -> Columns:
    pool_type = (
        select(storage_pools.c.pool_type)
        .join(volumes, volumes.c.pool_id == storage_pools.c.id)
        .where(
            volumes.c.vm_id == virtual_machines.c.id,
            volumes.c.volume_type == VolumeType.ROOT,
            volumes.c.removed.is_(None),
        )
        .limit(1)
        .scalar_subquery()
    )
    device, kind = literal_column("0", Integer), literal_column("'ROOT'", Text)
    return device.label("rootdeviceid"), kind.label("rootdevicetype"), pool_type.label("pooltype")


def _stats() -> Columns:
    """Return the columns of a VM's usage with CloudStack's field names, which are NULL if nothing was measured."""
    used = guest_usage.c
    return (
        percent(used.cpu_share).label("cpuused"),
        used.received_kib.label("networkkbsread"),
        used.sent_kib.label("networkkbswrite"),
        used.read_kib.label("diskkbsread"),
        used.written_kib.label("diskkbswrite"),
        used.read_requests.label("diskioread"),
        used.write_requests.label("diskiowrite"),
        used.memory_kib.label("memorykbs"),
        used.memory_kib.label("memorytargetkbs"),
        used.unused_kib.label("memoryintfreekbs"),
        used.received_bytes.label("receivedbytes"),
        used.sent_bytes.label("sentbytes"),
    )


_PARTS = {
    Detail.GROUP: _group,
    Detail.SERVICE_OFFERING: _service_offering,
    Detail.DISK_OFFERING: _disk_offering,
    Detail.TEMPLATE: _template,
    Detail.ISO: _iso,
    Detail.VOLUME: _volume,
    Detail.STATS: _stats,
}
