"""Each rule that rules hosts out, alone, and which of two counts."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bulkdeploy.domain.infrastructure.topology import AffinityType, StorageType
from bulkdeploy.placement.model import Affinity, Disk, PlacementRequest
from tests.placement.zone_builder import Pool, Zone, even_zone, per_host, plan, request

Story = tuple[str, Callable[[Zone], None], PlacementRequest]


def change(kind: str, id_: int, **values: object) -> Callable[[Zone], None]:
    """Set these fields of one cluster or host."""

    def apply(zone: Zone) -> None:
        thing = zone.cluster(id_) if kind == "cluster" else zone.host(id_)
        for name, value in values.items():
            setattr(thing, name, value)

    return apply


def as_it_is(zone: Zone) -> None:
    """Change nothing."""


ONE_OTHER_ON_11 = Affinity(AffinityType.HOST_ANTI_AFFINITY, {11: 1})
MEMBERS_ELSEWHERE = Affinity(AffinityType.HOST_AFFINITY, {12: 1, 21: 2, 22: 1})

STORIES: dict[str, Story] = {
    "another pod is pinned": (
        "out_of_scope",
        change("cluster", 1, pod_id=2),
        request(1, pod_id=1),
    ),
    "another cluster is pinned": ("out_of_scope", as_it_is, request(1, cluster_id=2)),
    "the cluster has another hypervisor": (
        "hypervisor",
        change("cluster", 1, hypervisor="VMware"),
        request(1),
    ),
    "the cluster is disabled": ("cluster_disabled", change("cluster", 1, enabled=False), request(1)),
    "the pod is disabled": ("pod_disabled", change("cluster", 1, pod_enabled=False), request(1)),
    "the host is down": ("host_not_up", change("host", 11, up=False), request(1)),
    "the host is in maintenance": ("host_not_enabled", change("host", 11, enabled=False), request(1)),
    "the host failed before": ("avoided", as_it_is, request(1, avoid_host_ids=frozenset({11}))),
    "the host is somebody else's": ("dedicated_to_others", change("host", 11, foreign=True), request(1)),
    "the host is the owner's and nobody asked": (
        "dedication_not_requested",
        change("host", 11, own=True),
        request(1),
    ),
    "others have VMs on the host": (
        "occupied_by_others",
        change("host", 11, vms_used=3, owner_vms=2),
        request(1, planner="ImplicitDedicationPlanner"),
    ),
    "the host lacks one of two tags": (
        "host_tags",
        change("host", 11, tags=frozenset({"ssd"})),
        request(1, host_tags=frozenset({"ssd", "gpu"})),
    ),
    "the host has too few cores": ("cpu_cores", change("host", 11, cores=1), request(1, cpu_number=2)),
    "the host's cores are too slow": ("cpu_speed", change("host", 11, mhz=999), request(1)),
    "the host is 1 MHz short": ("cpu", change("host", 11, cpu_used=3001), request(1)),
    "the host is 1 MiB short": ("memory", change("host", 11, memory_used=3073), request(1)),
    "the host has all the guests it may": (
        "guest_limit",
        change("host", 11, vms_limit=7, vms_used=7),
        request(1),
    ),
    "the host has a VM of the anti-affinity group": (
        "affinity",
        as_it_is,
        request(1, affinities=(ONE_OTHER_ON_11,)),
    ),
    "a program chose other hosts": (
        "allocator",
        as_it_is,
        request(1, most_by_host={12: 9, 21: 9, 22: 9}),
    ),
    "the host has no VM of the affinity group": (
        "affinity",
        as_it_is,
        request(1, affinities=(MEMBERS_ELSEWHERE,)),
    ),
}


@pytest.mark.parametrize(("reason", "prepare", "requested"), STORIES.values(), ids=STORIES.keys())
def test_a_rule_removes_the_host_it_speaks_of(
    reason: str, prepare: Callable[[Zone], None], requested: PlacementRequest
) -> None:
    """Host 11 (or its whole cluster) is ruled out under the rule's own reason and gets no VM."""
    zone = even_zone(clusters=2, hosts=2)
    for host in zone.hosts:
        host.tags = requested.host_tags
    prepare(zone)
    made = plan(zone.snapshot(), replace(requested, count=99))
    hosts = 2 if reason in WHOLE_CLUSTER else 1
    assert made.excluded == {reason: hosts}
    assert 11 not in per_host(made)
    assert (12 in per_host(made)) == (hosts == 1)


WHOLE_CLUSTER = ("out_of_scope", "hypervisor", "cluster_disabled", "pod_disabled")


def fields(requested: PlacementRequest) -> dict[str, object]:
    """The request's fields by name."""
    return {name: getattr(requested, name) for name in PlacementRequest.__dataclass_fields__}


def test_a_pinned_host_is_the_only_one() -> None:
    """Pinned to host 12, the batch fills it and is refused the rest."""
    made = plan(even_zone(clusters=2, hosts=2).snapshot(), request(9, host_id=12))
    assert per_host(made) == {12: 4}
    assert made.refused == 5
    assert made.excluded == {"out_of_scope": 3}


def test_a_pin_does_not_lift_other_rules() -> None:
    """A pinned host that is down takes nothing, and the answer says that it is down."""
    zone = even_zone(clusters=1, hosts=2)
    zone.host(11).up = False
    made = plan(zone.snapshot(), request(1, host_id=11))
    assert made.placed == 0
    assert made.excluded == {"out_of_scope": 1, "host_not_up": 1}


def test_the_first_rule_counts() -> None:
    """A host that is down, full and somebody else's is counted once, as down."""
    zone = even_zone(clusters=1, hosts=1)
    host = zone.host(11)
    host.up, host.foreign, host.memory_used = False, True, host.memory_limit
    assert plan(zone.snapshot(), request(1)).excluded == {"host_not_up": 1}


def test_a_dedicated_batch_uses_only_the_owners_hosts() -> None:
    """In an ExplicitDedication group the owner's dedicated hosts are used, and nothing else."""
    zone = even_zone(clusters=2, hosts=2)
    zone.host(12).own = True
    zone.host(21).foreign = True
    made = plan(zone.snapshot(), request(9, dedicated=True))
    assert per_host(made) == {12: 4}
    assert made.excluded == {"not_dedicated": 2, "dedicated_to_others": 1}


def test_hosts_with_more_tags_than_required_are_used() -> None:
    """Tags beyond those of the offering do not keep a host from being used."""
    zone = even_zone(clusters=1, hosts=2)
    zone.host(11).tags = frozenset({"ssd", "gpu"})
    assert per_host(plan(zone.snapshot(), request(9, host_tags=frozenset({"ssd"})))) == {11: 4}


def test_clusters_without_storage_are_ruled_out_whole() -> None:
    """Where no pool can take even one disk, all hosts of the cluster are counted under storage."""
    zone = even_zone(clusters=2, hosts=3)
    zone.pools = [Pool(1, limit=100, cluster_id=1), Pool(2, limit=9, cluster_id=2)]
    made = plan(zone.snapshot(), request(6, disks=(Disk(10, StorageType.SHARED),)))
    assert made.excluded == {"storage": 3}
    assert set(made.cluster_ids.tolist()) == {1}


def test_clusters_at_their_threshold_are_ruled_out_whole() -> None:
    """A cluster that one more VM would push over its threshold is counted under its own reason."""
    zone = even_zone(clusters=2, hosts=2)
    zone.cluster(1).cpu_threshold = 0.5
    zone.host(11).cpu_used, zone.host(12).cpu_used = 2000, 2000
    made = plan(zone.snapshot(), request(4))
    assert made.excluded == {"cluster_threshold": 2}
    assert set(made.cluster_ids.tolist()) == {2}
