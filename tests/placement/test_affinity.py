"""Affinity groups: strict ones rule hosts out, the others only order them."""

import pytest

from bulkdeploy.domain.infrastructure.topology import AffinityType
from bulkdeploy.placement.model import Affinity
from tests.placement.zone_builder import even_zone, per_cluster, per_host, plan, request

ANTI, TOGETHER = AffinityType.HOST_ANTI_AFFINITY, AffinityType.HOST_AFFINITY
RATHER_APART = AffinityType.NON_STRICT_HOST_ANTI_AFFINITY
RATHER_TOGETHER = AffinityType.NON_STRICT_HOST_AFFINITY


def group(kind: AffinityType, **vms: int) -> Affinity:
    """A group with so many VMs on hosts h11, h12, ..."""
    return Affinity(kind, {int(name[1:]): count for name, count in vms.items()})


def test_anti_affinity_puts_one_vm_on_each_host() -> None:
    """A batch larger than the number of hosts gets one VM a host and is refused the rest."""
    made = plan(even_zone(clusters=2, hosts=3).snapshot(), request(9, affinities=(group(ANTI),)))
    assert per_host(made) == dict.fromkeys([11, 12, 13, 21, 22, 23], 1)
    assert (made.refused, made.capacity) == (3, 6)


def test_anti_affinity_counts_the_vms_that_are_there() -> None:
    """Hosts with a VM of the group are ruled out, and clusters level out over the others."""
    groups = (group(ANTI, h11=1, h12=1),)
    made = plan(even_zone(clusters=2, hosts=3).snapshot(), request(9, affinities=groups))
    assert per_host(made) == dict.fromkeys([13, 21, 22, 23], 1)
    assert made.excluded == {"affinity": 2}


def test_affinity_keeps_to_the_hosts_of_the_group() -> None:
    """A group with VMs takes more only on their hosts, as many as fit there."""
    groups = (group(TOGETHER, h12=1, h21=2),)
    made = plan(even_zone(clusters=2, hosts=3).snapshot(), request(99, affinities=groups))
    assert per_host(made) == {12: 4, 21: 4}
    assert made.excluded == {"affinity": 4}


def test_an_affinity_group_without_vms_goes_to_the_roomiest_host() -> None:
    """The first VM's host binds the batch: all go to the host with most room, the rest is refused."""
    zone = even_zone(clusters=2, hosts=3)
    zone.host(22).cpu_limit = zone.host(22).memory_limit = 99_000
    made = plan(zone.snapshot(), request(99, affinities=(group(TOGETHER),)))
    assert set(made.host_ids.tolist()) == {22}
    assert made.placed == made.capacity == 50
    assert made.excluded == {"affinity": 5}


def test_the_roomiest_host_is_judged_with_its_clusters_threshold() -> None:
    """A large host in a cluster that may take little more is not the roomiest."""
    zone = even_zone(clusters=2, hosts=1, slots=20)
    zone.cluster(1).cpu_threshold = 0.2
    zone.host(21).cpu_used = 10_000
    assert per_host(plan(zone.snapshot(), request(99, affinities=(group(TOGETHER),)))) == {21: 10}


def test_between_equal_hosts_the_owners_fewest_decide() -> None:
    """Equally roomy hosts: the one in the cluster where the owner has fewer VMs."""
    zone = even_zone(clusters=2, hosts=2)
    zone.cluster(1).owner_vms = 1
    assert per_host(plan(zone.snapshot(), request(3, affinities=(group(TOGETHER),)))) == {21: 3}


def test_together_and_apart_leave_one_place() -> None:
    """In a strict group of each kind, both without VMs, only one VM can be placed."""
    made = plan(even_zone(2, 2).snapshot(), request(3, affinities=(group(TOGETHER), group(ANTI))))
    assert made.placed == 1


def test_a_group_whose_hosts_are_gone_takes_no_vm() -> None:
    """A host affinity group with VMs only on hosts outside the zone rules all its hosts out."""
    made = plan(even_zone(1, 2).snapshot(), request(1, affinities=(group(TOGETHER, h99=1),)))
    assert (made.placed, made.excluded) == (0, {"affinity": 2})


@pytest.mark.parametrize("algorithm", ["random", "firstfit", "userdispersing", "firstfitleastconsumed"])
def test_rather_apart_levels_the_groups_vms_and_never_refuses(algorithm: str) -> None:
    """Hosts with fewer of the group's VMs come first; when all have as many, every host takes more."""
    zone = even_zone(clusters=1, hosts=3)
    groups = (group(RATHER_APART, h11=2),)
    made = plan(zone.snapshot(), request(4, affinities=groups, host_algorithm=algorithm))
    assert per_host(made) == {12: 2, 13: 2}
    assert plan(zone.snapshot(), request(12, affinities=groups, host_algorithm=algorithm)).placed == 12


@pytest.mark.parametrize("algorithm", ["random", "firstfit", "userdispersing", "firstfitleastconsumed"])
def test_rather_together_fills_the_groups_hosts_first_and_never_refuses(algorithm: str) -> None:
    """The host with most of the group's VMs is filled, then the next; others take what is left."""
    zone = even_zone(clusters=1, hosts=3)
    groups = (group(RATHER_TOGETHER, h12=1, h13=2),)
    made = plan(zone.snapshot(), request(6, affinities=groups, host_algorithm=algorithm))
    assert per_host(made) == {12: 2, 13: 4}
    assert plan(zone.snapshot(), request(12, affinities=groups, host_algorithm=algorithm)).placed == 12


def test_preferences_do_not_unbalance_clusters() -> None:
    """Non-strict groups order the hosts of a cluster; the clusters are level as ever."""
    groups = (group(RATHER_TOGETHER, h11=4),)
    assert per_cluster(plan(even_zone(2, 3).snapshot(), request(8, affinities=groups))) == {1: 4, 2: 4}


def test_the_algorithm_decides_between_equally_liked_hosts() -> None:
    """Where the group likes two hosts alike, the one the algorithm would take comes first."""
    zone = even_zone(clusters=1, hosts=3)
    zone.host(12).owner_vms, zone.host(13).owner_vms = 2, 1
    groups = (group(RATHER_APART, h11=5),)
    made = plan(zone.snapshot(), request(1, affinities=groups, host_algorithm="userdispersing"))
    assert per_host(made) == {13: 1}


def test_random_decides_between_equally_liked_hosts_by_the_seed() -> None:
    """With nothing to choose between hosts, other seeds take other hosts."""
    snapshot = even_zone(clusters=1, hosts=9).snapshot()
    groups = (group(RATHER_APART),)
    taken = [set(per_host(plan(snapshot, request(3, affinities=groups, seed=seed)))) for seed in range(6)]
    assert all(len(hosts) == 3 for hosts in taken)
    assert len(set().union(*taken)) > 3
