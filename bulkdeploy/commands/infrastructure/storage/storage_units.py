"""listStorageUnits: the storage of hosts as hypervisors report it (docs/how-to/storage-units.md)."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import ExactlyOne, boolean, string, uuid
from bulkdeploy.declare.response_fields import flag, large_number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.drivers.abilities.storage_units import StorageUnits
from bulkdeploy.services.abilities import require_ability
from bulkdeploy.services.infrastructure.storage.storage_units import SeenUnit, storage_units_of
from bulkdeploy.store.infrastructure.storage import storage_units as store
from bulkdeploy.store.rows.listing import Page

STORAGE_UNIT = Response(
    "storageunit",
    (
        text("hostid", "the host"),
        text("hostname", "the host's name"),
        text("clusterid", "the host's cluster"),
        text("clustername", "the cluster's name"),
        text("type", "the type of the unit: dir, nfs, lvm-vg, lvm-pv, or another type that the hypervisor reports"),
        text("name", "the name of the unit on the host, such as a path"),
        large_number("size", "the size of the unit, in bytes"),
        large_number("used", "the used size, in bytes"),
        large_number("free", "the free size, in bytes"),
        flag("allocatable", "whether new data is written to the unit"),
        flag("healthy", "whether the unit can be used; false if the host does not answer"),
        text("storageid", "the primary storage pool that uses the unit"),
        text("storagename", "the pool's name"),
        text("problem", "why the host reported no units"),
    ),
)


def list_storage_units(call: Call) -> Page:
    """Return the storage units of a host, or of the hosts of a cluster.

    Raises:
        InvalidParameter: the host's driver cannot list storage units.
    """
    host = call.ref("hostid")
    hosts = store.hosts(
        call.connection, host_ids=None if host is None else [host.id], cluster_id=call.ref_id("clusterid")
    )
    if host is not None and hosts:
        require_ability(call.system.drivers, hosts[0].hypervisor, StorageUnits, "hostid", str(host.uuid))
    page = paging(call)
    seen = storage_units_of(
        call.give_back_connection(), call.system.drivers, hosts, timeout_s=call.system.driver_timeout_s
    )
    rows = [row for row in map(as_row, seen) if _matches(call, row)]
    end = None if page.limit is None else page.offset + page.limit
    return Page(rows[page.offset : end], len(rows))


def _matches(call: Call, row: Mapping[str, Any]) -> bool:
    wanted = {name: call.arguments[name] for name in ("type", "name", "healthy") if name in call.arguments}
    keyword = (call.text("keyword") or "").lower()
    return all(row.get(name) == value for name, value in wanted.items()) and keyword in row.get("name", "").lower()


def as_row(seen: SeenUnit) -> dict[str, Any]:
    """Return the API row of a storage unit, or of a host that could not be queried."""
    host, unit, pool = seen.host, seen.unit, seen.pool
    row: dict[str, Any] = {
        "hostid": str(host.uuid),
        "hostname": host.name,
        "clusterid": str(host.cluster_uuid),
        "clustername": host.cluster_name,
        "healthy": seen.is_healthy,
    }
    if unit is None:
        return {**row, "problem": seen.problem}
    row |= {
        "type": unit.unit_type,
        "name": unit.name,
        "size": unit.size_bytes,
        "used": unit.used_bytes,
        "free": unit.free_bytes,
        "allocatable": seen.is_allocatable,
    }
    return row if pool is None else {**row, "storageid": str(pool.uuid), "storagename": pool.name}


COMMANDS = (
    Command(
        name="listStorageUnits",
        description="Lists the storage of hosts with size and health, as reported by their hypervisors",
        handler=list_storage_units,
        shape=Shape.LIST,
        response=STORAGE_UNIT,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("hostid", Entity.HOST, "only units of this host"),
            uuid("clusterid", Entity.CLUSTER, "only units of hosts of this cluster"),
            string("type", "only units of this type, such as lvm-vg"),
            string("name", "only units of this name"),
            boolean("healthy", "true: only healthy units; false: only units that are not healthy"),
            *PAGING,
        ),
        rules=(ExactlyOne(("hostid", "clusterid")),),
    ),
)
