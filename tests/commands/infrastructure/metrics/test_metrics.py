"""Lists with metrics: the plain lists, with what is promised of each thing in CloudStack's words."""

import pytest

from tests.lists.test_shapes import COMMANDS, everything
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, USER, World

METRICS = sorted(name for name in COMMANDS if name.endswith("Metrics"))
GHZ_OF_HOST, GB_OF_HOST = 32, 64


@pytest.mark.parametrize("name", METRICS)
def test_they_list_what_the_plain_lists_do(world: World, name: str) -> None:
    """Row for row the same, with more fields; nothing of what is in both differs."""
    plain = name.removesuffix("Metrics")
    parameters = everything(COMMANDS[plain])
    rows, more = world.rows(plain, **parameters), world.rows(name, **parameters)
    assert [{field: row[field] for field in each} for row, each in zip(more, rows, strict=True)] == rows


@pytest.mark.parametrize("by", [ADMIN, DOMAIN_ADMIN, USER, NEIGHBOUR])
@pytest.mark.parametrize("name", ["listVirtualMachinesMetrics", "listVolumesMetrics"])
def test_callers_see_the_metrics_of_what_they_own(world: World, name: str, by: str) -> None:
    """Whose things are listed is as in the plain list."""
    plain = world.rows(name.removesuffix("Metrics"), by, listall="true")
    assert [row["id"] for row in world.rows(name, by, listall="true")] == [row["id"] for row in plain]


def test_virtual_machines_and_volumes(world: World) -> None:
    """Sizes in words, where sizes are asked for: Cluster API's provider waits for nothing more."""
    (vm,) = world.rows("listVirtualMachinesMetrics", USER, name="acme-1")
    assert (vm["cputotal"], vm["memorytotal"]) == ("0.5 Ghz", "0.50 GB")
    assert vm["nic"][0]["ipaddress"] == vm["ipaddress"]
    (least,) = world.rows("listVirtualMachinesMetrics", USER, name="acme-1", details="min")
    assert "cputotal" not in least
    (disk,) = world.rows("listVolumesMetrics", USER, virtualmachineid=vm["id"])
    assert disk["sizegb"] == f"{disk['size'] / 1024**3:.2f} GB"


def test_hosts(world: World) -> None:
    """What a host has, how many times of it may be promised, what is promised, and how many VMs are on it."""
    rows = {row["name"]: row for row in world.rows("listHostsMetrics", details="all")}
    host = rows["a-1-1"]
    assert host["cputotalghz"] == f"{GHZ_OF_HOST:.2f} Ghz (x 1.0)"
    assert host["memorytotalgb"] == f"{GB_OF_HOST:.2f} GB (x 1.0)"
    assert host["cpuallocatedghz"] == f"{int(host['cpuallocatedvalue']) / 1000:.2f} Ghz"
    on_it = world.scalar(
        "SELECT count(*) FROM host_claims c JOIN hosts h ON h.id = c.host_id WHERE h.name = 'a-1-1'"
    )
    assert (host["instances"], host["systeminstances"]) == (str(on_it), "0")
    assert (host["cpuallocateddisablethreshold"], host["memoryallocateddisablethreshold"]) == (False, False)
    least = world.rows("listHostsMetrics", name="a-1-1", details="min")[0]
    assert (least["cputotalghz"], "cpuallocatedghz" in least) == (f"{GHZ_OF_HOST:.2f} Ghz", False)


def test_clusters_and_zones(world: World) -> None:
    """Their CPU and memory, in percent what is promised of it, and how much of what is in them is of use."""
    (cluster,) = world.rows("listClustersMetrics", name="a-1")
    hosts = world.rows("listHosts", clusterid=cluster["id"])
    assert (cluster["state"], cluster["hosts"]) == ("Enabled", f"{len(hosts)} / {len(hosts)}")
    assert cluster["cputotal"] == f"{GHZ_OF_HOST * len(hosts):.2f} Ghz"
    assert cluster["memorytotal"] == f"{GB_OF_HOST * len(hosts):.2f} GB"
    assert cluster["cpuallocated"].endswith("%")
    assert "capacity" not in cluster
    (far,) = world.rows("listClustersMetrics", name="far-1")
    assert (far["state"], far["hosts"]) == ("Unmanaged", "0 / 2")
    (zone,) = world.rows("listZonesMetrics", name="small", showcapacities="true")
    assert (zone["state"], zone["clusters"]) == ("Enabled", "3 / 4")
    assert zone["capacity"]


def test_thresholds_are_the_settings(fresh_world: World) -> None:
    """A cluster above its own threshold says so, and so do its hosts; a pool above its own, too."""
    world, cluster = fresh_world, fresh_world.id_of("clusters", "a-1")
    world.change(
        "UPDATE host_capacity SET cpu_mhz_used = cpu_mhz_limit / 2, memory_mib_used = memory_mib_limit / 2"
    )
    pool = world.id_of("storage_pools", "a-1-primary")
    world.change("UPDATE storage_pools SET allocated_bytes = capacity_bytes WHERE name = 'a-1-primary'")
    for name, place in (
        ("cluster.cpu.allocated.capacity.disablethreshold", {"clusterid": cluster}),
        ("cluster.memory.allocated.capacity.notificationthreshold", {"clusterid": cluster}),
        ("pool.storage.allocated.capacity.disablethreshold", {"storageid": pool}),
    ):
        world.client().call("updateConfiguration", name=name, value="0.4", **place)
    for command, filters in (
        ("listClustersMetrics", {"id": cluster}),
        ("listHostsMetrics", {"clusterid": cluster}),
    ):
        rows = world.rows(command, **filters)
        assert {row["cpuallocateddisablethreshold"] for row in rows} == {True}
        assert {row["memoryallocateddisablethreshold"] for row in rows} == {False}
        assert {(row["cpuallocatedthreshold"], row["memoryallocatedthreshold"]) for row in rows} == {(False, True)}
    pools = {row["id"]: row["storageallocateddisablethreshold"] for row in world.rows("listStoragePoolsMetrics")}
    assert [name for name, above in pools.items() if above] == [pool]


def test_use_is_held_against_the_same_thresholds(fresh_world: World) -> None:
    """Lists show measured values of hosts and pools in words, and leave out values that were not measured."""
    world = fresh_world
    assert "cputhreshold" not in world.rows("listHostsMetrics", name="a-1-1")[0]
    world.change(
        "INSERT INTO host_usage (host_id, busy_ns, total_ns, memory_used_kib, cpu_share, received_kib, sent_kib)"
        " SELECT id, 0, 0, CAST(memory_mib AS bigint) * 1024 / 2, 8000, 1048576, 0 FROM hosts WHERE name = 'a-1-1'"
    )
    world.change(
        "INSERT INTO pool_usage (pool_id, used_bytes)"
        " SELECT id, capacity_bytes / 10 * 9 FROM storage_pools WHERE name = 'a-1-primary'"
    )
    (host,) = world.rows("listHostsMetrics", name="a-1-1")
    assert (host["cputhreshold"], host["cpudisablethreshold"]) == (True, False)
    assert (host["memorythreshold"], host["memorydisablethreshold"]) == (False, False)
    assert (host["cpuusedghz"], host["networkread"]) == (f"{GHZ_OF_HOST * 0.8:.2f} Ghz", "1.00 GB")
    (pool,) = world.rows("listStoragePoolsMetrics", name="a-1-primary")
    assert (pool["storageusagethreshold"], pool["storageusagedisablethreshold"]) == (True, True)


def test_storage_pools(world: World) -> None:
    """Size, how many times of it may be promised, what is, and what is left."""
    (pool,) = world.rows("listStoragePoolsMetrics", name="a-1-primary")
    size, factor = pool["disksizetotal"] / 1024**3, float(pool["overprovisionfactor"])
    used = pool["disksizeallocated"] / 1024**3
    assert pool["disksizetotalgb"] == f"{size:.2f} GB (x {factor:.1f})"
    assert pool["disksizeallocatedgb"] == f"{used:.2f} GB"
    assert pool["disksizeunallocatedgb"] == f"{size * factor - used:.2f} GB"


def test_infrastructure_is_counted(world: World) -> None:
    """As many as the lists have; what there is none of is 0 and not left out."""
    counts = world.client().call("listInfrastructure")["infrastructure"]
    for name, command in (
        ("zones", "listZones"),
        ("pods", "listPods"),
        ("clusters", "listClusters"),
        ("hosts", "listHosts"),
        ("storagepools", "listStoragePools"),
        ("imagestores", "listImageStores"),
    ):
        assert counts[name] == len(world.rows(command))
    assert counts["cpusockets"] == sum(row["cpusockets"] for row in world.rows("listHosts"))
    assert {counts[name] for name in ("systemvms", "routers", "ilbvms", "alerts", "objectstores")} == {0}
    assert counts["managementservers"] == 1
