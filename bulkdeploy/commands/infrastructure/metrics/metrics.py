"""List commands with metrics: the plain lists with capacity and usage, in CloudStack's format.

Allocated amounts are the claims in the ledger. Fields of usage are omitted if nothing was measured.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.metrics.metric_fields import (
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
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE, INFRASTRUCTURE_ADMINS, ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.infrastructure.capacity import CapacityType, percentage
from bulkdeploy.domain.units import GIB
from bulkdeploy.store.configuration.configurations import Configuration, read_configuration
from bulkdeploy.store.hypervisors.usage import FULL_SHARE
from bulkdeploy.store.infrastructure.metrics import metrics
from bulkdeploy.store.infrastructure.metrics.metrics import PlaceFigures
from bulkdeploy.store.rows.listing import Page, complete_lazily

Row = Mapping[str, Any]
Extend = Callable[[Call, Sequence[Row]], Sequence[Row]]

CPU_THRESHOLD = "cluster.cpu.allocated.capacity.disablethreshold"
MEMORY_THRESHOLD = "cluster.memory.allocated.capacity.disablethreshold"
POOL_THRESHOLD = "pool.storage.allocated.capacity.disablethreshold"
CPU_NOTIFICATION = "cluster.cpu.allocated.capacity.notificationthreshold"
MEMORY_NOTIFICATION = "cluster.memory.allocated.capacity.notificationthreshold"
POOL_NOTIFICATION = "cluster.storage.allocated.capacity.notificationthreshold"


def ghz(mhz: float) -> str:
    """Return a number of MHz as text in GHz, in CloudStack's format."""
    return f"{mhz / 1000:.2f} Ghz"


def gigabytes(size_bytes: float) -> str:
    """Return bytes as text in GiB, in CloudStack's format, which writes GB."""
    return f"{size_bytes / GIB:.2f} GB"


def _times(amount: str, raw: float, promised: float) -> str:
    """Return an amount with its over-commit factor as text, such as ``2.00 Ghz (x 4.0)``."""
    return f"{amount} (x {promised / raw if raw else 1:.1f})"


def _is_above(configuration: Configuration, setting: str, scope: Scope, place_id: int, share: float) -> bool:
    return share > configuration.decimal(setting, scope, place_id)


def _of_vms(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    del call
    return [{**row, **_of_vm(row), **_use_of_vm(row)} for row in rows]


def _use_of_vm(row: Row) -> dict[str, Any]:
    """Return the usage of a VM in CloudStack's format. Figures that were not measured or requested are omitted."""
    amounts = {
        name: row.get(plain)
        for name, plain in (
            ("networkread", "networkkbsread"),
            ("networkwrite", "networkkbswrite"),
            ("diskread", "diskkbsread"),
            ("diskwrite", "diskkbswrite"),
        )
    }
    found: dict[str, Any] = {name: f"{kib / 1024:.2f} MB" for name, kib in amounts.items() if kib is not None}
    requests = (row.get("diskioread"), row.get("diskiowrite"))
    if None not in requests:
        found["diskiopstotal"] = sum(requests)
    return found


def _of_vm(row: Row) -> dict[str, str]:
    """Return the sizes of a VM in CloudStack's format. The result is empty if the call did not request them."""
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
        shown = {**_of_host(row, is_above), **_use_of_host(row, is_above)}
        found.append({**row, "instances": of_host.vms, "systeminstances": 0, **shown})
    return found


def _use_of_host(row: Row, is_above: Callable[..., bool]) -> dict[str, Any]:
    """Return the usage of a host and the exceeded thresholds. Figures that were not measured are omitted."""
    found: dict[str, Any] = {}
    if row.get("cpuused") is not None:
        share = float(row["cpuused"].rstrip("%")) / 100
        found["cpuusedghz"] = ghz(share * row["cpunumber"] * row["cpuspeed"])
        found |= _thresholds("cpu", CPU_NOTIFICATION, CPU_THRESHOLD, share, is_above)
    if row.get("memoryused") is not None:
        share = _share(row["memoryused"], row["memorytotal"])
        found["memoryusedgb"] = gigabytes(row["memoryused"])
        found |= _thresholds("memory", MEMORY_NOTIFICATION, MEMORY_THRESHOLD, share, is_above)
    for name, plain in (("networkread", "networkkbsread"), ("networkwrite", "networkkbswrite")):
        if row.get(plain) is not None:
            found[name] = f"{row[plain] / 1024**2:.2f} GB"
    return found


def _thresholds(
    name: str, notification: str, disable: str, share: float, is_above: Callable[..., bool]
) -> dict[str, bool]:
    """Return whether a share is above the notification threshold and above the disable threshold."""
    return {
        f"{name}threshold": is_above(notification, share=share),
        f"{name}disablethreshold": is_above(disable, share=share),
    }


def _of_host(row: Row, is_above: Callable[..., bool]) -> dict[str, Any]:
    mhz, memory = row["cpunumber"] * row["cpuspeed"], row["memorytotal"]
    if "cpuallocatedvalue" not in row:
        return {"cputotalghz": ghz(mhz), "memorytotalgb": gigabytes(memory)}
    mhz_promised, memory_promised = int(row["cpuwithoverprovisioning"]), int(row["memorywithoverprovisioning"])
    mhz_used, memory_used = row["cpuallocatedvalue"], row["memoryallocated"]
    cpu_share, memory_share = _share(mhz_used, mhz_promised), _share(memory_used, memory_promised)
    return {
        "cputotalghz": _times(ghz(mhz), mhz, mhz_promised),
        "cpuallocatedghz": ghz(mhz_used),
        **_thresholds("cpuallocated", CPU_NOTIFICATION, CPU_THRESHOLD, cpu_share, is_above),
        "memorytotalgb": _times(gigabytes(memory), memory, memory_promised),
        "memoryallocatedgb": gigabytes(memory_used),
        **_thresholds("memoryallocated", MEMORY_NOTIFICATION, MEMORY_THRESHOLD, memory_share, is_above),
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
    """Return the rows of zones with their metrics. Zones are compared with the global thresholds."""
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
    """Return the CPU and memory metrics of a place from its capacity rows. Empty for a place without hosts."""
    by_type = {row["type"]: row for row in capacity}
    found: dict[str, Any] = {}
    for kind, name, shown, notification, disable in (
        (CapacityType.CPU, "cpu", ghz, CPU_NOTIFICATION, CPU_THRESHOLD),
        (CapacityType.MEMORY, "memory", gigabytes, MEMORY_NOTIFICATION, MEMORY_THRESHOLD),
    ):
        if (row := by_type.get(kind.value)) is not None:
            total, used = row["capacitytotal"], row["capacityallocated"]
            found[f"{name}total"] = shown(total)
            found[f"{name}allocated"] = f"{percentage(used, total)}%"
            found |= _thresholds(f"{name}allocated", notification, disable, _share(used, total), is_above)
    return found


def _of_pools(call: Call, rows: Sequence[Row]) -> Sequence[Row]:
    ids = metrics.pool_ids(call.connection, [row["id"] for row in rows])
    configuration = read_configuration(call.connection)
    found = []
    for row in rows:
        total, used = row["capacitybytes"], row["disksizeallocated"]
        promised = total * float(row["overprovisionfactor"])
        pool_id, cluster_id = ids[row["id"]]
        disable = configuration.decimal(POOL_THRESHOLD, Scope.STORAGE_POOL, pool_id)
        notify = configuration.decimal(POOL_NOTIFICATION, Scope.CLUSTER, cluster_id or 0)
        figures: dict[str, Any] = {
            "disksizetotalgb": _times(gigabytes(total), total, promised),
            "disksizeallocatedgb": gigabytes(used),
            "disksizeunallocatedgb": gigabytes(promised - used),
            "storageallocateddisablethreshold": _share(used, promised) > disable,
            "storageallocatedthreshold": _share(used, promised) > notify,
        }
        if row.get("disksizeused") is not None:
            share = _share(row["disksizeused"], row["disksizetotal"])
            full = configuration.decimal(FULL_SHARE, Scope.STORAGE_POOL, pool_id)
            figures["disksizeusedgb"] = gigabytes(row["disksizeused"])
            figures |= {"storageusagethreshold": share > notify, "storageusagedisablethreshold": share > full}
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
    """Return the row of a place without its capacity, unless the call requests capacities."""
    if call.flag("showcapacities"):
        return row
    return {name: value for name, value in row.items() if name != "capacity"}


def _listing(base: Command, extend: Extend, extra_arguments: Mapping[str, Any]) -> Callable[[Call], Page]:
    def list_with_metrics(call: Call) -> Page:
        page: Page = base.handler(replace(call, arguments={**call.arguments, **extra_arguments}))
        return Page(complete_lazily(page.rows, partial(extend, call)), page.count)

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
    """Return a command that adds metrics to the list of command ``plain``, called with ``extra_arguments``."""

    def make(base: Command) -> Command:
        if base.response is None:
            raise TypeError(f"{plain} has no response with fields")
        return replace(
            base,
            name=f"{plain}Metrics",
            description=f"Lists {noun} like {plain}, with their allocated and used resources",
            handler=_listing(base, extend, extra_arguments or {}),
            response=replace(base.response, fields=(*base.response.fields, *fields)),
            roles=base.roles if roles is None else roles,
            authorized=authorized,
            parameters=(*base.parameters, *parameters),
        )

    return Derived(plain, make)


CAPACITY = {"showcapacities": True}
OF_ZONES = (*ZONE, *PLACE)
NO_MACHINES = boolean("system", "accepted but ignored: the machines of the service are not measured")

DERIVED = (
    _with_metrics("listVirtualMachines", "virtual machines", VIRTUAL_MACHINE, _of_vms, authorized=EVERY_ROLE),
    _with_metrics("listVolumes", "volumes", VOLUME, _of_volumes, authorized=EVERY_ROLE),
    _with_metrics("listHosts", "hosts", HOST, _of_hosts),
    _with_metrics("listClusters", "clusters", (*CLUSTER, *PLACE), _of_clusters, extra_arguments=CAPACITY),
    _with_metrics("listZones", "zones", OF_ZONES, _of_zones, extra_arguments=CAPACITY, roles=INFRASTRUCTURE_ADMINS),
    _with_metrics("listStoragePools", "storage pools", POOL, _of_pools),
    _with_metrics("listManagementServers", "management servers", (), _as_are, parameters=(NO_MACHINES,)),
)
