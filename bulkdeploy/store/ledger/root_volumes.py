"""The replacement of a VM's root volume by a new one: its row, its claim and the owner's counts."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.accounts.resource_counts import add_amounts, subtract_amounts
from bulkdeploy.store.ledger.ledger import release_pools_of


@dataclass(frozen=True, slots=True)
class NewRootDisk:
    """The differences between a VM's new root volume and the old one. None means no difference.

    Attributes:
        template_id: the template of the new volume.
        size_bytes: the size of the new volume.
        disk_offering_id: the disk offering of the new volume.
        is_placed_anew: whether placement must choose the host and the pool. Otherwise the VM keeps its host, and
            the new root volume takes over the storage claim of the old one.
    """

    template_id: int | None
    size_bytes: int | None
    disk_offering_id: int | None
    is_placed_anew: bool


def read_new_root_disk(
    connection: Connection,
    vm_id: int,
    *,
    template_id: int | None = None,
    size_bytes: int | None = None,
    disk_offering_id: int | None = None,
) -> NewRootDisk:
    """Return the differences of a VM's new root disk, including whether the disk must be placed again.

    A disk with another size or disk offering is placed again. A disk with another template is placed again only if
    the template requires a host tag that the present template does not require, because placement has no other
    requirement for a template of the same hypervisor.
    """
    is_placed_anew = (size_bytes, disk_offering_id) != (None, None)
    if template_id is not None and not is_placed_anew:
        wanted = {"vm": vm_id, "template": template_id}
        is_placed_anew = connection.execute(_WANTS_ANOTHER_TAG, wanted).scalar_one()
    return NewRootDisk(template_id, size_bytes, disk_offering_id, is_placed_anew)


_WANTS_ANOTHER_TAG = text(
    "SELECT new.template_tag IS NOT NULL AND new.template_tag IS DISTINCT FROM present.template_tag"
    " FROM virtual_machines v JOIN templates present ON present.id = v.template_id, templates new"
    " WHERE v.id = :vm AND new.id = :template"
)
_OLD = text(
    "SELECT id, uuid, account_id, size_bytes FROM volumes"
    " WHERE vm_id = :vm AND volume_type = 'ROOT' AND removed IS NULL"
)
_TAKE_OVER = text("UPDATE storage_claims SET consumer = :new WHERE consumer = :old")
_EXPUNGE = text("UPDATE volumes SET state = 'Expunged', removed = now() WHERE id = :old")
_INSERT = text(
    "INSERT INTO volumes (uuid, name, account_id, zone_id, vm_id, pool_id, volume_type, device_id, size_bytes,"
    "   template_id, disk_offering_id, service_offering_id, state, standalone, delete_protection)"
    " SELECT CAST(:new AS uuid), name, account_id, zone_id, vm_id, CASE WHEN :keeps THEN pool_id END, volume_type,"
    "   device_id, coalesce(CAST(:size AS bigint), size_bytes), coalesce(CAST(:template AS bigint), template_id),"
    "   coalesce(CAST(:offering AS bigint), disk_offering_id), service_offering_id, 'Allocated', standalone,"
    "   delete_protection FROM volumes WHERE id = :old"
)
_SET_TEMPLATE = text("UPDATE virtual_machines SET template_id = :template, os_type_id = NULL WHERE id = :vm")


def replace_root_volume(connection: Connection, vm_id: int, new_uuid: UUID, new: NewRootDisk) -> list[UUID]:
    """Replace the row of the old root volume, which no hypervisor stores any more, by a new row with this uuid.

    The disk of the new volume is created at the VM's next start. Limits are not checked, because the call that
    requested the volume has checked them.

    Returns:
        The uuid of the old volume if its claim was released, otherwise an empty list.
    """
    old = connection.execute(_OLD, {"vm": vm_id}).one()
    given_back = [old.uuid] if new.is_placed_anew else []
    if given_back:
        release_pools_of(connection, given_back)
    else:
        connection.execute(_TAKE_OVER, {"new": new_uuid, "old": old.uuid})
    more = (new.size_bytes or old.size_bytes) - old.size_bytes
    if more > 0:
        owner = owners_by_id(connection, [old.account_id])[old.account_id]
        add_amounts(connection, owner, ResourceAmounts(primary_storage_bytes=more), enforce_limits=False)
    elif more < 0:
        subtract_amounts(connection, {old.account_id: ResourceAmounts(primary_storage_bytes=-more)})
    connection.execute(_EXPUNGE, {"old": old.id})
    values = {"size": new.size_bytes, "template": new.template_id, "offering": new.disk_offering_id}
    connection.execute(_INSERT, {"new": new_uuid, "old": old.id, "keeps": not given_back, **values})
    if new.template_id is not None:
        connection.execute(_SET_TEMPLATE, {"template": new.template_id, "vm": vm_id})
    return given_back
