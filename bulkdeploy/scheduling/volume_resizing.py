"""Resizing volumes: rules, capacity and rows, for calls and for jobs.

A row's size is never below the size in the pool: if a volume grows, the capacity is claimed and counted first; if
it shrinks, the capacity is released last.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.errors import InvalidParameter, ResourceUnavailable
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.placement.rules import storage
from bulkdeploy.scheduling.reasons import why_not
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.accounts.resource_counts import add_amounts, check_limits, subtract_amounts
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.ledger.snapshot import read_snapshot
from bulkdeploy.store.volumes import volume_changes as store
from bulkdeploy.store.volumes.volume_resizing import resize_pool_claim

RESIZABLE = (store.READY, store.ALLOCATED)


@dataclass(frozen=True, slots=True)
class VolumeSize:
    """A volume size in bytes, and its disk offering, or None for a root disk of a service offering."""

    size_bytes: int
    disk_offering_id: int | None

    @classmethod
    def of(cls, volume: Row[Any]) -> "VolumeSize":
        """Create the size from a volume's row."""
        return cls(volume.size_bytes, volume.disk_offering_id)


def check_resizable(volume: Row[Any], new: VolumeSize, vm_state: VmState | None) -> None:
    """Check that a volume can be resized now.

    ``vm_state`` is the state of its VM, or None if the volume is not attached.

    Raises:
        InvalidParameter: the volume is being attached; or it would shrink, exists in a pool, and is not attached to
            a stopped VM.
    """
    if volume.state not in RESIZABLE:
        raise InvalidParameter(
            "id",
            str(volume.uuid),
            "Volume must be in ready or allocated state before attempting a resize. "
            f"Volume {volume.uuid} is in state {volume.state}.",
        )
    if new.size_bytes >= volume.size_bytes or volume.pool_id is None or vm_state is VmState.STOPPED:
        return
    rule = "a volume on a storage pool can be made smaller only while it is attached to a Stopped virtual machine; "
    state = (
        "it is not attached to a virtual machine"
        if vm_state is None
        else f"its virtual machine is {vm_state.value}"
    )
    raise InvalidParameter("id", str(volume.uuid), rule + state)


def is_for_hypervisor(volume: Row[Any], new: VolumeSize, vm_state: VmState | None) -> bool:
    """Return whether the hypervisor must resize the volume now. An unused volume grows when its VM starts."""
    if volume.pool_id is None or new.size_bytes == volume.size_bytes:
        return False
    return new.size_bytes < volume.size_bytes or vm_state is VmState.RUNNING


def resize(connection: Connection, volume: Row[Any], new: VolumeSize) -> None:
    """Claim, count and write a volume's new size. The caller has locked the volume (``take_volume``).

    Raises:
        ResourceLimitExceeded: the limit of primary storage of the account or of a domain above it would be
            exceeded.
        ResourceUnavailable: the volume's pool has too little free capacity.
        TransactionConflict: a concurrent transaction changed the volume; the whole transaction must be repeated.
    """
    more = new.size_bytes - volume.size_bytes
    if more > 0:
        _grow(connection, volume, new.size_bytes, ResourceAmounts(primary_storage_bytes=more))
    elif more < 0:
        if volume.pool_id is not None and not resize_pool_claim(connection, volume.uuid, new.size_bytes, limit=0):
            raise TransactionConflict
        subtract_amounts(connection, {volume.account_id: ResourceAmounts(primary_storage_bytes=-more)})
    values = {"size_bytes": new.size_bytes, "disk_offering_id": new.disk_offering_id}
    if not store.change_volume(connection, volume, values, vm_id=volume.vm_id):
        raise TransactionConflict


def _grow(connection: Connection, volume: Row[Any], size_bytes: int, more: ResourceAmounts) -> None:
    owner = owners_by_id(connection, [volume.account_id])[volume.account_id]
    check_limits(connection, owner, more)
    if volume.pool_id is not None:
        configuration = read_configuration(connection)
        pools = read_snapshot(
            connection,
            volume.zone_id,
            owner,
            configuration,
            with_tags=False,
            with_local_storage=True,
            with_owner_hosts=False,
        ).pools
        here = pools.up & (pools.id == volume.pool_id)
        limit = int(pools.limit[here].sum())
        if int(pools.allocated[here].sum()) + more.primary_storage_bytes > limit:
            why = why_not(storage.RULE.reason)
            raise ResourceUnavailable(f"The storage pool of volume {volume.uuid} has no room for it: {why}")
        if not resize_pool_claim(connection, volume.uuid, size_bytes, limit=limit):
            raise TransactionConflict
    add_amounts(connection, owner, more)
