"""How many VMs fit: per host, and under the thresholds of a cluster."""

from math import nextafter

import pytest

from tests.placement.zone_builder import Cluster, Host, Zone, even_zone, per_host, plan, request


@pytest.mark.parametrize(
    ("changes", "capacity"),
    [
        ({}, 4),
        ({"cpu_limit": 3999}, 3),
        ({"cpu_limit": 9000}, 4),
        ({"memory_used": 1024}, 3),
        ({"vms_limit": 10, "vms_used": 9}, 1),
        ({"vms_limit": 10, "vms_used": 12}, 0),
        ({"cpu_used": 5000}, 0),
    ],
)
def test_a_host_holds_what_its_scarcest_resource_holds(changes: dict[str, int], capacity: int) -> None:
    """CPU, memory and guest limit each cap the VMs of a host, used up or even overdrawn."""
    zone = even_zone(clusters=1, hosts=1, slots=4)
    for name, value in changes.items():
        setattr(zone.host(11), name, value)
    made = plan(zone.snapshot(), request(100))
    assert (made.placed, made.capacity) == (capacity, capacity)


def test_a_vm_that_needs_none_of_a_resource_is_bound_by_the_others() -> None:
    """Offerings without CPU or memory needs fill a host to its guest limit."""
    zone = even_zone(clusters=1, hosts=1)
    assert plan(zone.snapshot(), request(99, cpu_mhz=0, memory_mib=0)).placed == zone.host(11).vms_limit


@pytest.mark.parametrize(
    ("threshold", "used", "capacity"),
    [
        (0.85, 0, 8),
        (0.85, 1500, 7),
        (0.85, 1501, 6),
        (0.3, 0, 3),
        (0.29, 0, 2),
        (0.0, 0, 0),
        (1.0, 0, 10),
    ],
)
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_threshold_may_be_reached_and_not_crossed(
    resource: str, threshold: float, used: int, capacity: int
) -> None:
    """(used + requested) / limit stays at or below the share, to the unit."""
    host = Host(11, 1, cpu_limit=10_000, memory_limit=10_000)
    setattr(host, f"{resource}_used", used)
    cluster = Cluster(1)
    setattr(cluster, f"{resource}_threshold", threshold)
    made = plan(Zone([cluster], [host]).snapshot(), request(99, memory_mib=1000))
    assert made.placed == capacity


@pytest.mark.parametrize("percent", range(1, 100))
def test_thresholds_with_decimals_are_exact(percent: int) -> None:
    """With limit 100 and VMs of size 1, a threshold of n % lets in n VMs, and n - 1 just below n %."""
    zone = Zone([Cluster(1, cpu_threshold=percent / 100)], [Host(11, 1, cpu_limit=100, vms_limit=200)])
    assert plan(zone.snapshot(), request(200, cpu_mhz=1, memory_mib=0)).placed == percent
    zone.cluster(1).cpu_threshold = nextafter(percent / 100, 0)
    assert plan(zone.snapshot(), request(200, cpu_mhz=1, memory_mib=0)).placed == percent - 1


def test_a_threshold_caps_the_cluster_not_its_hosts() -> None:
    """One host may be filled wholly as long as the cluster stays below its share."""
    zone = even_zone(clusters=1, hosts=2, slots=10)
    zone.cluster(1).cpu_threshold = 0.6
    made = plan(zone.snapshot(), request(99, host_algorithm="firstfit"))
    assert per_host(made) == {11: 10, 12: 2}


def test_hosts_that_cannot_run_vms_are_no_headroom() -> None:
    """A host in maintenance adds neither limit nor use to its cluster's share."""
    zone = even_zone(clusters=1, hosts=2, slots=10)
    zone.cluster(1).cpu_threshold = 0.5
    zone.host(12).enabled, zone.host(12).cpu_used = False, 9000
    assert plan(zone.snapshot(), request(99)).placed == 5
