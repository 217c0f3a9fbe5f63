"""Rows of existing VMs for calls that need no hypervisor. The callers have locked the rows."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Connection, Row, bindparam, column, delete, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import JSONB

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.topology import StorageType, TemplateKind
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.tables.groups import vm_affinity_groups, vm_security_groups
from bulkdeploy.store.tables.offerings import service_offerings, templates
from bulkdeploy.store.tables.virtual_machines import virtual_machines
from bulkdeploy.store.virtual_machines.virtual_machine_details import iso_in_drive, isos


def read_vm_row(connection: Connection, vm_id: int) -> Row[Any]:
    """Return a VM's row and whether it has an unfinished job, like ``guests.lock_vm`` but without a lock."""
    return connection.execute(
        text(
            "SELECT v.*, EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = v.id"
            "   AND j.instance_type = 'VirtualMachine' AND j.status = 0) AS has_job"
            " FROM virtual_machines v WHERE v.id = :vm"
        ),
        {"vm": vm_id},
    ).one()


def update_vm(connection: Connection, vm_id: int, values: Mapping[str, Any]) -> None:
    """Update columns of one VM. If its state is among them, the time of its last update is set as well."""
    if not values:
        return
    moment = {"updated": func.now()} if "state" in values else {}
    connection.execute(update(virtual_machines).where(virtual_machines.c.id == vm_id).values({**values, **moment}))


def update_vms(connection: Connection, values: Mapping[int, Mapping[str, Any]]) -> None:
    """Update the same columns of several VMs. If states change, the time of their last update is set, too.

    ``values`` has the new values by VM id.
    """
    names = sorted({name for columns in values.values() for name in columns})
    if not names:
        return
    types = {name: virtual_machines.c[name].type for name in names}
    rows = (
        func.jsonb_to_recordset(bindparam("rows", type_=JSONB))
        .table_valued(column("vm_id", BigInteger), *(column(name, kind) for name, kind in types.items()))
        .render_derived(name="new", with_types=True)
    )
    moment = {"updated": func.now()} if "state" in names else {}
    changed = update(virtual_machines).where(virtual_machines.c.id == rows.c.vm_id)
    given = [{"vm_id": vm_id, **columns} for vm_id, columns in values.items()]
    connection.execute(changed.values({**{name: rows.c[name] for name in names}, **moment}), {"rows": given})


def replace_affinity_groups(connection: Connection, vm_id: int, group_ids: Sequence[int]) -> None:
    """Replace the VM's affinity groups by these groups."""
    connection.execute(delete(vm_affinity_groups).where(vm_affinity_groups.c.vm_id == vm_id))
    if group_ids:
        rows = [{"vm_id": vm_id, "affinity_group_id": group_id} for group_id in group_ids]
        connection.execute(insert(vm_affinity_groups), rows)


def replace_security_groups(connection: Connection, vm_id: int, group_ids: Sequence[int]) -> None:
    """Replace the VM's security groups by these groups."""
    connection.execute(delete(vm_security_groups).where(vm_security_groups.c.vm_id == vm_id))
    if group_ids:
        rows = [{"vm_id": vm_id, "security_group_id": group_id} for group_id in group_ids]
        connection.execute(insert(vm_security_groups), rows)


def network_ids_of(connection: Connection, vm_id: int) -> list[int]:
    """Return the ids of the networks in which the VM has live NICs, the network of the default NIC first."""
    return list(
        connection.execute(
            text("SELECT network_id FROM nics WHERE vm_id = :vm AND removed IS NULL ORDER BY device_id"),
            {"vm": vm_id},
        ).scalars()
    )


def user_data_of(connection: Connection, vm_id: int) -> str | None:
    """Return the user data of the VM, or else of its deployment, in base64, or None if neither has any."""
    found: str | None = connection.execute(
        text(
            "SELECT coalesce(v.user_data, d.config ->> 'user_data') FROM virtual_machines v"
            " JOIN deployments d ON d.id = v.deployment_id WHERE v.id = :vm"
        ),
        {"vm": vm_id},
    ).scalar_one()
    return found


def root_is_local(connection: Connection, offering_id: int) -> bool:
    """Return whether the service offering puts root disks on local disks of hosts."""
    storage_type = connection.execute(
        text("SELECT storage_type FROM service_offerings WHERE id = :id"), {"id": offering_id}
    ).scalar_one()
    return bool(storage_type == StorageType.LOCAL)


def is_volatile(connection: Connection, vm_id: int) -> bool:
    """Return whether a reboot replaces the VM's root disk, according to the VM's service offering."""
    query = (
        select(service_offerings.c.is_volatile)
        .join(virtual_machines, virtual_machines.c.service_offering_id == service_offerings.c.id)
        .where(virtual_machines.c.id == vm_id)
    )
    return bool(connection.execute(query).scalar_one())


def volume_amounts(connection: Connection, vm_id: int) -> ResourceAmounts:
    """Return the number and total size of the VM's live volumes, as amounts that count against limits."""
    row = connection.execute(
        text(
            "SELECT count(*) AS volumes, coalesce(sum(size_bytes), 0) AS size FROM volumes"
            " WHERE vm_id = :vm AND removed IS NULL"
        ),
        {"vm": vm_id},
    ).one()
    return ResourceAmounts(volume=row.volumes, primary_storage_bytes=int(row.size))


def give_to_account(connection: Connection, vm_id: int, account_id: int) -> None:
    """Change the owner of the VM, its volumes and their tags.

    References that only VMs of the old owner may have are removed: the group, the key pairs and the ISO.
    """
    both = {"vm": vm_id, "account": account_id}
    connection.execute(
        text(
            "UPDATE virtual_machines SET account_id = :account, group_id = NULL, key_pairs = '{}',"
            " iso_id = CASE WHEN iso_id IS NOT NULL THEN 0 END WHERE id = :vm"
        ),
        both,
    )
    connection.execute(text("UPDATE volumes SET account_id = :account WHERE vm_id = :vm AND removed IS NULL"), both)
    connection.execute(
        text(
            "UPDATE snapshot_policies p SET account_id = :account FROM volumes v"
            " WHERE v.id = p.volume_id AND v.vm_id = :vm AND v.removed IS NULL AND p.removed IS NULL"
        ),
        both,
    )
    connection.execute(
        text("UPDATE vm_schedules SET account_id = :account WHERE vm_id = :vm AND removed IS NULL"), both
    )
    connection.execute(
        text(
            "UPDATE resource_tags SET account_id = :account WHERE (resource_type = 'UserVm' AND resource_id = :vm)"
            " OR (resource_type = 'Volume' AND resource_id IN (SELECT id FROM volumes WHERE vm_id = :vm))"
        ),
        both,
    )
    connection.execute(
        text(
            "UPDATE resource_details SET account_id = :account"
            " WHERE resource_type = 'Volume' AND resource_id IN (SELECT id FROM volumes WHERE vm_id = :vm)"
        ),
        both,
    )


def root_volume_of(connection: Connection, vm_id: int) -> UUID | None:
    """Return the uuid of the VM's root volume, or None if the volume is in no storage pool yet."""
    return connection.execute(
        text(
            "SELECT uuid FROM volumes WHERE vm_id = :vm AND volume_type = 'ROOT' AND removed IS NULL"
            " AND pool_id IS NOT NULL"
        ),
        {"vm": vm_id},
    ).scalar()


def root_disks_of(connection: Connection, vm_ids: Collection[int]) -> dict[int, Row[Any]]:
    """Return the id and the size in bytes of each VM's root volume, by VM id.

    VMs without a root volume are omitted.
    """
    rows = connection.execute(
        text(
            "SELECT vm_id, id, size_bytes, account_id, service_offering_id, disk_offering_id"
            " FROM volumes WHERE vm_id = ANY(CAST(:vms AS bigint[]))"
            " AND volume_type = 'ROOT' AND removed IS NULL"
        ),
        {"vms": int_array(vm_ids)},
    )
    return {row.vm_id: row for row in rows}


def root_template_bytes(connection: Connection, vm_id: int) -> int:
    """Return the size in bytes of the template of a VM's root volume, or 0 if there is none."""
    query = text(
        "SELECT t.size_bytes FROM volumes v JOIN templates t ON t.id = v.template_id"
        " WHERE v.vm_id = :vm AND v.volume_type = 'ROOT' AND v.removed IS NULL"
    )
    return connection.execute(query, {"vm": vm_id}).scalar() or 0


def template_kinds(connection: Connection, template_ids: Collection[int]) -> dict[int, TemplateKind]:
    """Return for each of these ids whether it is a template or an ISO."""
    rows = connection.execute(
        text("SELECT id, kind FROM templates WHERE id = ANY(CAST(:ids AS bigint[]))"),
        {"ids": int_array(template_ids)},
    )
    return {row.id: TemplateKind(row.kind) for row in rows}


def drive_of(connection: Connection, vm_id: int) -> int | None:
    """Return the id of the ISO in the VM's drive.

    Returns 0 if the drive is empty, and None if it still contains the ISO from which the VM was created.
    """
    query = text("SELECT iso_id FROM virtual_machines WHERE id = :vm")
    drive: int | None = connection.execute(query, {"vm": vm_id}).scalar_one()
    return drive


def iso_of(connection: Connection, vm_id: int) -> EntityRef | None:
    """Return the ISO in the VM's drive, or None if the drive is empty."""
    query = (
        select(isos.c.id, isos.c.uuid, isos.c.name)
        .select_from(virtual_machines.join(templates, templates.c.id == virtual_machines.c.template_id))
        .join(isos, isos.c.id == iso_in_drive(templates))
        .where(virtual_machines.c.id == vm_id)
    )
    row = connection.execute(query).first()
    return None if row is None else EntityRef(Entity.ISO, row.id, row.uuid, row.name)


def takes_passwords(connection: Connection, template_id: int) -> bool:
    """Return whether guests of this template receive a password from their hypervisor at their start."""
    query = select(templates.c.password_enabled).where(templates.c.id == template_id)
    return bool(connection.execute(query).scalar_one())
