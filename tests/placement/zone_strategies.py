"""Hypothesis strategies: small zones in which every rule sometimes matters, and requests for them."""

from math import inf

from hypothesis import strategies as st

from bulkdeploy.domain.infrastructure.topology import AffinityType, StorageType
from bulkdeploy.placement.hosts import HOST_ALGORITHMS
from bulkdeploy.placement.model import COUNT_DISPERSING, Affinity, Disk, PlacementRequest, Purpose
from bulkdeploy.scheduling.catalog import planners
from tests.placement.zone_builder import Cluster, Host, Pool, Zone

TAGS = st.sampled_from([frozenset(), frozenset({"ssd"}), frozenset({"ssd", "gpu"})])
NO_TAGS = st.just(frozenset[str]())
SELDOM = st.integers(0, 5).map(lambda number: number == 5)
MOODS = (
    *("states", "dedication", "tags", "shapes", "thresholds", "hypervisors", "loads", "guests"),
    *("pins", "avoids", "affinity", "planners", "purposes", "pools", "zone pools", "local pools"),
)
Moods = frozenset[str]
"""Which rules come up at all in one example; with all of them at once hardly any VM would be placed."""


@st.composite
def clusters(draw: st.DrawFn, id_: int, moods: Moods) -> Cluster:
    """A cluster of one of three pods."""
    owner_vms = draw(st.integers(0, 4))
    thresholds = st.sampled_from([inf, 0.85, 0.5]) if "thresholds" in moods else st.just(inf)
    return Cluster(
        id_,
        draw(st.integers(1, 3)),
        hypervisor="VMware" if "hypervisors" in moods and draw(SELDOM) else "KVM",
        enabled=not ("states" in moods and draw(SELDOM)),
        pod_enabled=not ("states" in moods and draw(SELDOM)),
        cpu_threshold=draw(thresholds),
        memory_threshold=draw(thresholds),
        owner_vms=owner_vms,
        all_vms=owner_vms + draw(st.integers(0, 2)),
    )


@st.composite
def hosts(draw: st.DrawFn, id_: int, cluster_id: int, moods: Moods) -> Host:
    """A host with room for up to twelve of the smallest VMs of ``requests``."""
    owner_vms = draw(st.integers(0, 2))
    top = 6500 if "loads" in moods else 3000
    return Host(
        id_,
        cluster_id,
        up=not ("states" in moods and draw(SELDOM)),
        enabled=not ("states" in moods and draw(SELDOM)),
        cores=1 if "shapes" in moods and draw(SELDOM) else 4,
        mhz=500 if "shapes" in moods and draw(SELDOM) else 2000,
        cpu_limit=draw(st.sampled_from([6000, 6000, 9000])),
        cpu_used=draw(st.integers(0, top)),
        memory_limit=6000,
        memory_used=draw(st.integers(0, top)),
        vms_limit=draw(st.integers(1, 8)) if "guests" in moods else 30,
        vms_used=owner_vms + draw(st.integers(0, 1)),
        owner_vms=owner_vms,
        tags=draw(TAGS if "tags" in moods else NO_TAGS),
        foreign="dedication" in moods and draw(SELDOM),
        own="dedication" in moods and draw(st.booleans()),
    )


@st.composite
def pools(draw: st.DrawFn, id_: int, cluster_id: int | None, host_id: int | None, moods: Moods) -> Pool:
    """A pool of a cluster, a host, or (both None) the zone."""
    anywhere = cluster_id is None and host_id is None
    return Pool(
        id_,
        limit=draw(st.integers(0, 70)),
        cluster_id=cluster_id,
        host_id=host_id,
        allocated=draw(st.integers(0, 10)),
        up=not ("states" in moods and draw(SELDOM)),
        tags=draw(TAGS if "tags" in moods else NO_TAGS),
        hypervisor=draw(st.sampled_from(["", "KVM", "VMware"])) if anywhere and "hypervisors" in moods else "",
    )


@st.composite
def zones(draw: st.DrawFn, moods: Moods) -> Zone:
    """Two to five clusters of up to three hosts, and pools; ids in no particular order."""
    number = draw(st.integers(2, 5))
    ids = st.lists(st.integers(1, 99), min_size=20, max_size=20, unique=True)
    cluster_ids, host_ids, pool_ids = draw(ids)[:number], draw(ids), iter(draw(ids))
    homes = [cluster_id for cluster_id in cluster_ids for _ in range(draw(st.integers(1, 3)))]
    zone = Zone(
        [draw(clusters(id_, moods)) for id_ in cluster_ids],
        [draw(hosts(id_, home, moods)) for id_, home in zip(host_ids, homes, strict=False)],
    )
    pod_states = {cluster.pod_id: cluster.pod_enabled for cluster in zone.clusters}
    for cluster in zone.clusters:
        cluster.pod_enabled = pod_states[cluster.pod_id]
    places: list[tuple[int | None, int | None]] = []
    if "pools" in moods:
        places += [(draw(st.sampled_from(cluster_ids)), None) for _ in range(draw(st.integers(1, 6)))]
    if "zone pools" in moods:
        places += [(None, None)] * draw(st.integers(1, 3))
    if "local pools" in moods:
        places += [(None, host.id) for host in zone.hosts if draw(st.booleans())]
    zone.pools = [draw(pools(id_, *place, moods)) for id_, place in zip(pool_ids, places, strict=False)]
    return zone


@st.composite
def disks(draw: st.DrawFn, moods: Moods, most: int) -> tuple[Disk, ...]:
    """A few disks of a few units, of the storage types that the zone may have."""
    kinds = [StorageType.SHARED] * len(moods & {"pools", "zone pools"})
    kinds += [StorageType.LOCAL] * ("local pools" in moods)
    number = draw(st.integers(1, most)) if kinds else 0
    tags = TAGS if "tags" in moods else NO_TAGS
    return tuple(Disk(draw(st.integers(1, 9)), draw(st.sampled_from(kinds)), draw(tags)) for _ in range(number))


@st.composite
def affinities(draw: st.DrawFn, zone: Zone) -> Affinity:
    """A group with VMs on some hosts of the zone, or on none."""
    kinds = [kind for kind in AffinityType if kind is not AffinityType.EXPLICIT_DEDICATION]
    members = draw(st.lists(st.sampled_from([host.id for host in zone.hosts]), max_size=3, unique=True))
    return Affinity(draw(st.sampled_from(kinds)), {host_id: draw(st.integers(1, 2)) for host_id in members})


@st.composite
def requests(draw: st.DrawFn, zone: Zone, moods: Moods, most_disks: int) -> PlacementRequest:
    """A request of up to 40 VMs."""
    pin = draw(st.sampled_from(["pod", "cluster", "host"])) if "pins" in moods else None
    groups = draw(st.lists(affinities(zone), min_size=1, max_size=2)) if "affinity" in moods else []
    host_ids = st.sampled_from([host.id for host in zone.hosts])
    return PlacementRequest(
        count=draw(st.integers(0, 40)),
        cpu_number=draw(st.integers(1, 2)),
        cpu_mhz=draw(st.sampled_from([500, 1000])),
        memory_mib=draw(st.sampled_from([0, 500, 1000])),
        hypervisor="KVM",
        disks=draw(disks(moods, most_disks)),
        host_tags=draw(TAGS) if "tags" in moods else frozenset(),
        pod_id=draw(st.integers(1, 3)) if pin == "pod" else None,
        cluster_id=draw(st.sampled_from(zone.clusters)).id if pin == "cluster" else None,
        host_id=draw(host_ids) if pin == "host" else None,
        avoid_host_ids=frozenset(draw(st.lists(host_ids, max_size=3))) if "avoids" in moods else frozenset(),
        affinities=tuple(groups),
        dedicated="dedication" in moods and draw(st.booleans()),
        purpose=draw(st.sampled_from([Purpose.START, Purpose.MOVE])) if "purposes" in moods else Purpose.START,
        planner=draw(st.sampled_from(planners())) if "planners" in moods else COUNT_DISPERSING,
        offering_planner=draw(st.sampled_from(planners())) if "planners" in moods and draw(st.booleans()) else None,
        pods_first=draw(st.booleans()),
        host_algorithm=draw(st.sampled_from(tuple(HOST_ALGORITHMS))),
        seed=draw(st.integers(0, 9)),
    )


@st.composite
def problems(
    draw: st.DrawFn, *, most_disks: int = 2, without: Moods = frozenset()
) -> tuple[Zone, PlacementRequest]:
    """A zone and a request for it, in which a few moods come up, never those of ``without``."""
    moods = draw(st.frozensets(st.sampled_from([mood for mood in MOODS if mood not in without]), max_size=5))
    zone = draw(zones(moods))
    return zone, draw(requests(zone, moods, most_disks))
