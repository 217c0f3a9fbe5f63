"""Which hosts of a cluster take its VMs, by host algorithm."""

import pytest

from bulkdeploy.placement.hosts import HOST_ALGORITHMS
from tests.placement.zone_builder import even_zone, per_cluster, per_host, plan, request


@pytest.mark.parametrize("algorithm", HOST_ALGORITHMS)
def test_every_algorithm_fills_a_cluster_to_its_last_slot(algorithm: str) -> None:
    """As many VMs as slots: each host gets just what it holds, and one more VM is refused."""
    zone = even_zone(clusters=2, hosts=4, slots=3)
    for number, host in enumerate(zone.hosts):
        host.cpu_used = 1000 * (number % 4)
    made = plan(zone.snapshot(), request(13, host_algorithm=algorithm, seed=5))
    assert per_host(made) == {11: 3, 12: 2, 13: 1, 21: 3, 22: 2, 23: 1}
    assert made.refused == 1


def test_random_uses_every_host_about_alike() -> None:
    """Over many VMs no host of a roomy cluster gets half or twice its share."""
    made = plan(even_zone(1, hosts=8, slots=40).snapshot(), request(160, host_algorithm="random"))
    assert len(per_host(made)) == 8
    assert all(10 <= vms <= 40 for vms in per_host(made).values())


def test_random_depends_on_the_seed() -> None:
    """Another seed gives other hosts, and the clusters get the same numbers."""
    snapshot = even_zone(2, hosts=9, slots=40).snapshot()
    plans = [plan(snapshot, request(50, host_algorithm="random", seed=seed)) for seed in (1, 2)]
    assert per_host(plans[0]) != per_host(plans[1])
    assert per_cluster(plans[0]) == per_cluster(plans[1]) == {1: 25, 2: 25}


def test_random_finds_the_last_slots_among_many_full_hosts() -> None:
    """One roomy host among eight with one slot each: all of them are filled."""
    zone = even_zone(clusters=1, hosts=9, slots=40)
    for host in zone.hosts[1:]:
        host.vms_limit = 1
    made = plan(zone.snapshot(), request(48, host_algorithm="random"))
    assert per_host(made) == {11: 40, **dict.fromkeys(range(12, 20), 1)}


@pytest.mark.parametrize("algorithm", ["firstfit", "userconcentratedpod_firstfit"])
def test_firstfit_fills_hosts_in_order_of_their_ids(algorithm: str) -> None:
    """The lowest id is filled, then the next."""
    made = plan(even_zone(1, hosts=3).snapshot(), request(6, host_algorithm=algorithm))
    assert per_host(made) == {11: 4, 12: 2}


def test_userdispersing_levels_the_owners_vms_over_hosts() -> None:
    """Hosts where the owner has fewer VMs catch up first."""
    zone = even_zone(clusters=1, hosts=3)
    zone.host(11).owner_vms, zone.host(12).owner_vms = 3, 1
    made = plan(zone.snapshot(), request(4, host_algorithm="userdispersing"))
    assert per_host(made) == {12: 1, 13: 3} or per_host(made) == {12: 2, 13: 2}
    assert {zone.host(id_).owner_vms + vms for id_, vms in per_host(made).items()} <= {2, 3}


def test_leastconsumed_levels_the_share_of_cpu_in_use() -> None:
    """A host of twice the size takes twice the VMs, and one in use waits for the others."""
    zone = even_zone(clusters=1, hosts=3, slots=10)
    zone.host(12).cpu_limit = zone.host(12).memory_limit = 20_480
    zone.host(12).cpu_limit = 20_000
    zone.host(13).cpu_used = 5_000
    made = plan(zone.snapshot(), request(12, host_algorithm="firstfitleastconsumed"))
    assert per_host(made) == {11: 4, 12: 8}


def test_an_unknown_algorithm_is_refused() -> None:
    """A host algorithm that does not exist is an error, whatever else the request says."""
    snapshot = even_zone(1, 1).snapshot()
    with pytest.raises(KeyError, match="'fastest'"):
        plan(snapshot, request(1, host_algorithm="fastest"))
