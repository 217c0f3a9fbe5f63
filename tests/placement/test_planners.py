"""The other planners: first fit, user-concentrated pods, implicit dedication."""

from tests.placement.zone_builder import Zone, even_zone, per_cluster, per_host, plan, request


def cpu_used(zone: Zone, **used: int) -> Zone:
    """Let the first host of clusters c1, c2, ... have so much CPU in use, in VMs."""
    for name, vms in used.items():
        zone.host(int(name[1:]) * 10 + 1).cpu_used = vms * 1000
    return zone


def test_first_fit_fills_the_least_used_cluster_first() -> None:
    """Clusters come by the share of their CPU in use, each filled to its room."""
    zone = cpu_used(even_zone(clusters=3, hosts=2), c1=2, c2=1, c3=3)
    assert per_cluster(plan(zone.snapshot(), request(9, planner="FirstFitPlanner"))) == {2: 7, 1: 2}


def test_first_fit_over_pods_fills_the_least_used_pod_first() -> None:
    """With pods first, the emptier pod's clusters come before a still emptier cluster of the other pod."""
    zone = cpu_used(even_zone(clusters=4, hosts=1, pods=2), c1=0, c3=3, c2=1, c4=1)
    by_pod = plan(zone.snapshot(), request(5, planner="FirstFitPlanner", pods_first=True))
    assert per_cluster(by_pod) == {2: 3, 4: 2}
    assert per_cluster(plan(zone.snapshot(), request(5, planner="FirstFitPlanner"))) == {1: 4, 2: 1}


def test_equally_used_clusters_come_by_id() -> None:
    """First fit over an empty zone begins with the lowest id, or with all clusters of the first pod."""
    zone = even_zone(clusters=4, hosts=1, pods=2)
    made = plan(zone.snapshot(), request(5, planner="FirstFitPlanner"))
    assert per_cluster(made) == {1: 4, 2: 1}
    made = plan(zone.snapshot(), request(5, planner="FirstFitPlanner", pods_first=True))
    assert per_cluster(made) == {1: 4, 3: 1}


def test_user_concentrated_pod_fills_the_owners_pod_first() -> None:
    """The pod where the owner has most VMs is filled before the next, and inside it the cluster with most."""
    zone = even_zone(clusters=4, hosts=1, pods=2)
    zone.cluster(1).owner_vms, zone.cluster(4).owner_vms = 1, 2
    made = plan(zone.snapshot(), request(9, planner="UserConcentratedPodPlanner"))
    assert per_cluster(made) == {4: 4, 2: 4, 1: 1}


def test_implicit_dedication_takes_only_hosts_without_other_accounts() -> None:
    """Empty hosts and those with only the owner's VMs are used, first fit; the others are ruled out."""
    zone = even_zone(clusters=2, hosts=3)
    zone.host(11).vms_used = 1
    zone.host(12).vms_used = zone.host(12).owner_vms = 2
    made = plan(zone.snapshot(), request(10, planner="ImplicitDedicationPlanner", host_algorithm="firstfit"))
    assert per_host(made) == {12: 4, 13: 4, 21: 2}
    assert made.excluded == {"occupied_by_others": 1}


def test_every_planner_alternates_its_jobs() -> None:
    """Also where one cluster is filled before the next, jobs of both come in turns."""
    made = plan(even_zone(2, 1).snapshot(), request(8, planner="FirstFitPlanner"))
    assert made.cluster_ids.tolist() == [1, 2] * 4
