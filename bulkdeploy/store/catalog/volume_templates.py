"""Templates that jobs create from volumes: their state during the job and afterwards."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from bulkdeploy.store.database.arrays import int_array

CREATING = "Creating"

_IS_MADE = text("SELECT EXISTS (SELECT FROM templates WHERE source_vm_id = :vm AND removed IS NULL)")
_READY = text(
    "WITH made AS (UPDATE templates SET source_vm_id = NULL WHERE source_vm_id = ANY(CAST(:vms AS bigint[]))"
    "   RETURNING id)"
    " UPDATE template_zones z SET ready = true, status = 'Download Complete' FROM made"
    " WHERE z.template_id = made.id"
)
_FAILED = text(
    "UPDATE templates SET source_vm_id = NULL, removed = coalesce(removed, now())"
    " WHERE source_vm_id = ANY(CAST(:vms AS bigint[]))"
)


_KIND = text("SELECT format, arch FROM templates WHERE id = :template")


def read_image_kind(connection: Connection, template_id: int | None) -> tuple[str, str]:
    """Return the image format and the architecture of the template from which a volume was created.

    A volume without a template, or from an ISO, has the format ``QCOW2`` and the architecture ``x86_64``.
    """
    row = connection.execute(_KIND, {"template": template_id}).first()
    return ("QCOW2", "x86_64") if row is None or row.format == "ISO" else (row.format, row.arch)


def is_template_being_made(connection: Connection, vm_id: int) -> bool:
    """Return whether an unfinished job is creating a template from a volume of this VM."""
    return bool(connection.execute(_IS_MADE, {"vm": vm_id}).scalar_one())


def end_creation(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Mark the templates that jobs of these VMs have created as ready."""
    connection.execute(_READY, {"vms": int_array(vm_ids)})


def fail_creation(connection: Connection, vm_ids: Sequence[int]) -> None:
    """Remove the unfinished templates that jobs of these VMs should have created from volumes."""
    connection.execute(_FAILED, {"vms": int_array(vm_ids)})
