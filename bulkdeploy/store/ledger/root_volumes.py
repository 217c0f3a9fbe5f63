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

    A new root volume without differences takes over the storage claim of the old one. Otherwise placement chooses a
    pool.
    """

    template_id: int | None = None
    size_bytes: int | None = None
    disk_offering_id: int | None = None

    @property
    def is_placed_anew(self) -> bool:
        """Return whether anything differs, so that placement must choose a pool."""
        return (self.template_id, self.size_bytes, self.disk_offering_id) != (None, None, None)


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
    """Replace the row of the old root volume, which no hypervisor has any more, by a new one with this uuid.

    The disk of the new volume is created at the VM's next start. Limits are not checked, because the call that
    requested the volume has checked them.

    Returns:
        The uuid of the old volume, if its claim was given back.
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
