"""Lists with metrics: those of the plain commands, and what is promised of each thing, as CloudStack writes it.

There are no measurements here: what guests really use of their CPU, memory, disks and networks is the hypervisors'
to know, and fields about it are left out. What is allocated is what the ledger has promised.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.metric_fields import (
    CLUSTER,
    HOST,
    PLACE,
    POOL,
    VIRTUAL_MACHINE,
    VOLUME,
    ZONE,
)
from bulkdeploy.declare.command import Command, Derived
from bulkdeploy.declare.parameters import Parameter, boolean
from bulkdeploy.declare.responses import Field
from bulkdeploy.domain.accounts import EVERY_ROLE, INFRASTRUCTURE_ADMINS, ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.capacity import CapacityType, percentage
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.units import GIB
from bulkdeploy.store.configuration.configuration import Configuration, read_configuration
from bulkdeploy.store.infrastructure import metrics
from bulkdeploy.store.infrastructure.metrics import PlaceFigures
from bulkdeploy.store.listing import Page, extended

Row = Mapping[str, Any]
Extend = Callable[[Call, Sequence[Row]], Sequence[Row]]

CPU_THRESHOLD = "cluster.cpu.allocated.capacity.disablethreshold"
MEMORY_THRESHOLD = "cluster.memory.allocated.capacity.disablethreshold"
POOL_THRESHOLD = "pool.storage.allocated.capacity.disablethreshold"


def ghz(mhz: float) -> str:
    """MHz in CloudStack's words."""
    return f"{mhz / 1000:.2f} Ghz"


def gigabytes(size_bytes: float) -> str:
    """Bytes in CloudStack's words, which call GiB GB."""
    return f"{size_bytes / GIB:.2f} GB"


def _times(amount: str, raw: float, promised: float) -> str:
    """What there is, and how many times of it may be promised."""
    return f"{amount} (x {promised / raw if raw else 1:.1f})"


def _is_above(configuration: Configuration, setting: str, scope: Scope, place_id: int, share: float) -> bool:
    return share > configuration.decimal(setting, scope, place_id)


def _of_vms(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    del call
    return [{**row, **_of_vm(row)} for row in rows]


def _of_vm(row: Row) -> dict[str, str]:
    """Nothing where the call asked for no sizes."""
    if row.get("cpunumber") is None:
        return {}
    return {
        "cputotal": f"{row['cpunumber'] * row['cpuspeed'] / 1000:.1f} Ghz",
        "memorytotal": f"{row['memory'] / 1024:.2f} GB",
    }


def _of_volumes(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    del call
    return [{**row, "sizegb": gigabytes(row["size"])} for row in rows]


def _of_hosts(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    figures = metrics.host_figures(call.connection, [row["id"] for row in rows])
    configuration = read_configuration(call.connection)
    found = []
    for row in rows:
        of_host = figures[row["id"]]
        is_above = partial(_is_above, configuration, scope=Scope.CLUSTER, place_id=of_host.cluster_id)
        found.append({**row, "instances": of_host.vms, "systeminstances": 0, **_of_host(row, is_above)})
    return found


def _of_host(row: Row, is_above: Callable[..., bool]) -> dict[str, Any]:
    mhz, memory = row["cpunumber"] * row["cpuspeed"], row["memorytotal"]
    if "cpuallocatedvalue" not in row:
        return {"cputotalghz": ghz(mhz), "memorytotalgb": gigabytes(memory)}
    mhz_promised, memory_promised = int(row["cpuwithoverprovisioning"]), int(row["memorywithoverprovisioning"])
    mhz_used, memory_used = row["cpuallocatedvalue"], row["memoryallocated"]
    return {
        "cputotalghz": _times(ghz(mhz), mhz, mhz_promised),
        "cpuallocatedghz": ghz(mhz_used),
        "cpuallocateddisablethreshold": is_above(CPU_THRESHOLD, share=_share(mhz_used, mhz_promised)),
        "memorytotalgb": _times(gigabytes(memory), memory, memory_promised),
        "memoryallocatedgb": gigabytes(memory_used),
        "memoryallocateddisablethreshold": is_above(MEMORY_THRESHOLD, share=_share(memory_used, memory_promised)),
    }


def _of_clusters(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    figures = metrics.cluster_figures(call.connection, [row["id"] for row in rows])
    configuration = read_configuration(call.connection)
    found = []
    for row in rows:
        in_cluster = figures[row["id"]]
        is_above = partial(_is_above, configuration, scope=Scope.CLUSTER, place_id=in_cluster.id)
        state = row["allocationstate"] if row["managedstate"] == "Managed" else row["managedstate"]
        shown = {"state": state, "hosts": _of_use(in_cluster), **_of_place(row["capacity"], is_above)}
        found.append({**_as_requested(call, row), **shown})
    return found


def _of_zones(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    """Thresholds are set for clusters; a zone is held against those that hold for all."""
    figures = metrics.zone_figures(call.connection, [row["id"] for row in rows])
    is_above = partial(_is_above, read_configuration(call.connection), scope=Scope.GLOBAL, place_id=0)
    return [
        {
            **_as_requested(call, row),
            "state": row["allocationstate"],
            "clusters": _of_use(figures[row["id"]]),
            **_of_place(row["capacity"], is_above),
        }
        for row in rows
    ]


def _of_place(capacity: Sequence[Row], is_above: Callable[..., bool]) -> dict[str, Any]:
    """CPU and memory of a place from its capacity rows; nothing of a place without hosts."""
    by_type = {row["type"]: row for row in capacity}
    found: dict[str, Any] = {}
    for kind, name, shown, setting in (
        (CapacityType.CPU, "cpu", ghz, CPU_THRESHOLD),
        (CapacityType.MEMORY, "memory", gigabytes, MEMORY_THRESHOLD),
    ):
        if (row := by_type.get(kind.value)) is not None:
            total, used = row["capacitytotal"], row["capacityallocated"]
            found[f"{name}total"] = shown(total)
            found[f"{name}allocated"] = f"{percentage(used, total)}%"
            found[f"{name}allocateddisablethreshold"] = is_above(setting, share=_share(used, total))
    return found


def _of_pools(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    ids = metrics.pool_ids(call.connection, [row["id"] for row in rows])
    configuration = read_configuration(call.connection)
    found = []
    for row in rows:
        total, used = row["disksizetotal"], row["disksizeallocated"]
        promised = total * float(row["overprovisionfactor"])
        above = _is_above(configuration, POOL_THRESHOLD, Scope.STORAGE_POOL, ids[row["id"]], _share(used, promised))
        figures = {
            "disksizetotalgb": _times(gigabytes(total), total, promised),
            "disksizeallocatedgb": gigabytes(used),
            "disksizeunallocatedgb": gigabytes(promised - used),
            "storageallocateddisablethreshold": above,
        }
        found.append({**row, **figures})
    return found


def _as_are(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    del call
    return rows


def _share(used: float, total: float) -> float:
    return used / total if total else 0.0


def _of_use(figures: PlaceFigures) -> str:
    return f"{figures.of_use} / {figures.total}"


def _as_requested(call: Call, row: Row) -> Row:
    """The row with its capacity only where the call wants it."""
    if call.flag("showcapacities"):
        return row
    return {name: value for name, value in row.items() if name != "capacity"}


def _listing(base: Command, extend: Extend, extra_arguments: Mapping[str, Any]) -> Callable[[Call], Page]:
    def list_with_metrics(call: Call) -> Page:
        page: Page = base.handler(replace(call, arguments={**call.arguments, **extra_arguments}))
        return Page(extended(page.rows, partial(extend, call)), page.count)

    return list_with_metrics


def _with_metrics(
    plain: str,
    noun: str,
    fields: tuple[Field, ...],
    extend: Extend,
    *,
    extra_arguments: Mapping[str, Any] | None = None,
    roles: frozenset[RoleType] | None = None,
    authorized: frozenset[RoleType] = ROOT_ADMIN_ONLY,
    parameters: tuple[Parameter, ...] = (),
) -> Derived:
    """A plain list command with more fields; ``asks``: what it is asked for besides, for their sake."""

    def make(base: Command) -> Command:
        if base.response is None:
            raise TypeError(f"{plain} answers no objects")
        return replace(
            base,
            name=f"{plain}Metrics",
            description=f"Lists {noun} as {plain} does, with what is promised of each; nothing is measured",
            handler=_listing(base, extend, extra_arguments or {}),
            response=replace(base.response, fields=(*base.response.fields, *fields)),
            roles=base.roles if roles is None else roles,
            authorized=authorized,
            parameters=(*base.parameters, *parameters),
        )

    return Derived(plain, make)


CAPACITY = {"showcapacities": True}
OF_ZONES = (*ZONE, *PLACE)
NO_MACHINES = boolean("system", "accepted and without effect: machines are not measured")

DERIVED = (
    _with_metrics("listVirtualMachines", "virtual machines", VIRTUAL_MACHINE, _of_vms, authorized=EVERY_ROLE),
    _with_metrics("listVolumes", "volumes", VOLUME, _of_volumes, authorized=EVERY_ROLE),
    _with_metrics("listHosts", "hosts", HOST, _of_hosts),
    _with_metrics("listClusters", "clusters", (*CLUSTER, *PLACE), _of_clusters, extra_arguments=CAPACITY),
    _with_metrics("listZones", "zones", OF_ZONES, _of_zones, extra_arguments=CAPACITY, roles=INFRASTRUCTURE_ADMINS),
    _with_metrics("listStoragePools", "storage pools", POOL, _of_pools),
    _with_metrics("listManagementServers", "management servers", (), _as_are, parameters=(NO_MACHINES,)),
)
