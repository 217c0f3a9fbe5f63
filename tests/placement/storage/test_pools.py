"""Storage: which pools take the disks, and how far they bind a batch."""

from collections import Counter

import numpy as np
import pytest

from bulkdeploy.domain.infrastructure.topology import StorageType
from bulkdeploy.placement.model import Disk, Plan
from tests.placement.zone_builder import GIB, Pool, Zone, even_zone, per_cluster, per_host, plan, request

SSD = frozenset({"ssd"})


def shared(size: int, tags: frozenset[str] = frozenset()) -> Disk:
    """A disk on shared storage."""
    return Disk(size, StorageType.SHARED, tags)


def local(size: int, tags: frozenset[str] = frozenset()) -> Disk:
    """A disk on the host's own storage."""
    return Disk(size, StorageType.LOCAL, tags)


def zone_with(*pools: Pool, clusters: int = 2, hosts: int = 2, slots: int = 10) -> Zone:
    """An even zone with these pools."""
    zone = even_zone(clusters, hosts, slots=slots)
    zone.pools = list(pools)
    return zone


def disks_per_pool(made: Plan) -> dict[int, int]:
    """How many disks each pool got."""
    return dict(Counter(made.pool_ids.ravel().tolist()))


def test_a_batch_without_disks_needs_no_pools() -> None:
    """Nothing to store: no column of pools, and zones without storage do."""
    made = plan(zone_with().snapshot(), request(3))
    assert made.pool_ids.shape == (3, 0)


def test_a_cluster_takes_what_its_pools_take() -> None:
    """Room for three disks in one cluster sends the rest to the other."""
    zone = zone_with(Pool(1, limit=30, cluster_id=1), Pool(2, limit=1000, cluster_id=2))
    made = plan(zone.snapshot(), request(10, disks=(shared(10),)))
    assert per_cluster(made) == {1: 3, 2: 7}
    assert disks_per_pool(made) == {1: 3, 2: 7}


def test_what_is_allocated_is_gone() -> None:
    """A pool takes disks up to its limit, counting what it holds already."""
    zone = zone_with(Pool(1, limit=100, allocated=71, cluster_id=1))
    assert plan(zone.snapshot(), request(10, disks=(shared(10),))).placed == 2


@pytest.mark.parametrize(
    "pool",
    [
        Pool(1, limit=99, cluster_id=1, up=False),
        Pool(1, limit=99, cluster_id=1, tags=frozenset({"hdd"})),
        Pool(1, limit=99, host_id=11, tags=SSD),
        Pool(1, limit=99, hypervisor="VMware", tags=SSD),
        Pool(1, limit=9, cluster_id=1, tags=SSD),
    ],
    ids=["down", "other tags", "a host's own", "another hypervisor's", "too small"],
)
def test_a_pool_that_does_not_serve_is_no_room(pool: Pool) -> None:
    """A disk with tag ssd on shared storage finds no pool, and storage is the reason."""
    made = plan(zone_with(pool).snapshot(), request(1, disks=(shared(10, SSD),)))
    assert (made.placed, made.excluded) == (0, {"storage": 4})


def test_disks_are_shared_evenly_among_a_clusters_pools() -> None:
    """Two like pools take half each; a fuller one takes less."""
    zone = zone_with(
        Pool(1, limit=100 * GIB, cluster_id=1),
        Pool(2, limit=100 * GIB, cluster_id=1, allocated=20 * GIB),
        clusters=1,
    )
    made = plan(zone.snapshot(), request(10, disks=(shared(10 * GIB),)))
    assert disks_per_pool(made) == {1: 6, 2: 4}


def test_disks_of_a_vm_stay_together_while_pools_hold_them_whole() -> None:
    """Root and data disk of each VM lie in one pool, and the pools take turns."""
    zone = zone_with(Pool(1, limit=100, cluster_id=1), Pool(2, limit=100, cluster_id=1), clusters=1)
    made = plan(zone.snapshot(), request(6, disks=(shared(10), shared(20))))
    assert disks_per_pool(made) == {1: 6, 2: 6}
    assert (made.pool_ids[:, 0] == made.pool_ids[:, 1]).all()


def test_disks_of_a_vm_part_where_no_pool_holds_both() -> None:
    """Two pools that take one disk each still take a VM."""
    zone = zone_with(Pool(1, limit=10, cluster_id=1), Pool(2, limit=10, cluster_id=1), clusters=1)
    made = plan(zone.snapshot(), request(2, disks=(shared(10), shared(10))))
    assert made.placed == 1
    assert sorted(made.pool_ids[0].tolist()) == [1, 2]


def test_plain_disks_leave_tagged_pools_to_those_that_need_them() -> None:
    """The untagged disk goes to the plain pool first, so that the tagged pool is full of tagged disks."""
    zone = zone_with(
        Pool(1, limit=50, cluster_id=1, tags=SSD), Pool(2, limit=50, cluster_id=1), clusters=1, hosts=3
    )
    made = plan(zone.snapshot(), request(9, disks=(shared(10), shared(10, SSD))))
    assert made.placed == 5
    assert made.pool_ids.tolist() == [[2, 1]] * 5


def test_a_clusters_own_pools_come_before_the_zones() -> None:
    """Zone-wide pools take only what the cluster's own cannot."""
    zone = zone_with(Pool(1, limit=1000), Pool(2, limit=20, cluster_id=1), Pool(3, limit=40, cluster_id=2))
    made = plan(zone.snapshot(), request(10, disks=(shared(10),)))
    assert per_cluster(made) == {1: 5, 2: 5}
    assert disks_per_pool(made) == {2: 2, 3: 4, 1: 4}


def test_the_zones_pools_are_shared_by_all_clusters() -> None:
    """When the zone-wide pool is full, clusters without storage of their own close and the other goes on."""
    zone = zone_with(Pool(1, limit=60), Pool(2, limit=100, cluster_id=2), clusters=3)
    made = plan(zone.snapshot(), request(20, disks=(shared(10),)))
    assert per_cluster(made) == {1: 3, 2: 10, 3: 3}
    assert (made.placed, made.capacity) == (16, 16)


def test_the_capacity_counts_shared_pools_once() -> None:
    """Three clusters that could each use the whole zone-wide pool hold no more than it holds."""
    zone = zone_with(Pool(1, limit=60), clusters=3)
    made = plan(zone.snapshot(), request(2, disks=(shared(10),)))
    assert made.capacity == 6
    assert [spread.capacity for spread in made.spread] == [6, 6, 6]


def test_zone_wide_pools_take_turns() -> None:
    """A batch on two like zone-wide pools fills both alike."""
    zone = zone_with(Pool(1, limit=1000), Pool(2, limit=1000))
    made = plan(zone.snapshot(), request(10, disks=(shared(10), shared(5))))
    assert disks_per_pool(made) == {1: 10, 2: 10}


def test_one_disk_may_lie_in_the_cluster_and_another_in_the_zone() -> None:
    """The tagged disk goes to the only pools that serve it, zone-wide ones, the other stays in the cluster."""
    zone = zone_with(Pool(1, limit=70, tags=SSD), Pool(2, limit=1000, cluster_id=1), clusters=1)
    made = plan(zone.snapshot(), request(10, disks=(shared(10), shared(10, SSD))))
    assert made.pool_ids.tolist() == [[2, 1]] * 7


def test_disks_that_spill_at_different_points_each_find_their_pool() -> None:
    """The cluster's pool runs out for the large disk first, later for the small one; no byte is lost."""
    zone = zone_with(Pool(1, limit=100), Pool(2, limit=100), Pool(3, limit=65, cluster_id=1), clusters=1)
    made = plan(zone.snapshot(), request(20, disks=(shared(20), shared(4))))
    own = Counter(tuple(pools) for pools in made.pool_ids.tolist())
    assert own == {(3, 3): 2, (1, 3): 4, (1, 2): 1, (2, 2): 4}
    assert made.placed == made.capacity == 11


def test_local_disks_bind_each_host_to_its_own_pools() -> None:
    """Hosts take as many VMs as their own pools take; without any they are ruled out."""
    zone = zone_with(Pool(1, limit=25, host_id=11), Pool(2, limit=1000, cluster_id=1), clusters=1, hosts=2)
    made = plan(zone.snapshot(), request(9, disks=(local(10),)))
    assert per_host(made) == {11: 2}
    assert made.excluded == {"storage": 1}


def test_local_and_shared_disks_go_to_their_own_kinds_of_pools() -> None:
    """A VM with a local root and a shared data disk has one in its host's pool and one in its cluster's."""
    pools = [Pool(host, limit=100, host_id=host) for host in (11, 12, 21, 22)]
    zone = zone_with(*pools, Pool(1, limit=500, cluster_id=1), Pool(2, limit=500, cluster_id=2))
    made = plan(zone.snapshot(), request(12, disks=(shared(10), local(20))))
    np.testing.assert_array_equal(made.pool_ids[:, 0], made.cluster_ids)
    np.testing.assert_array_equal(made.pool_ids[:, 1], made.host_ids)


def test_a_host_with_two_pools_of_its_own_uses_both() -> None:
    """Local disks go to the host's first pool until it is full, then to the second."""
    zone = zone_with(Pool(1, limit=20, host_id=11), Pool(2, limit=30, host_id=11), clusters=1, hosts=1)
    made = plan(zone.snapshot(), request(9, disks=(local(10),)))
    assert disks_per_pool(made) == {1: 2, 2: 3}
