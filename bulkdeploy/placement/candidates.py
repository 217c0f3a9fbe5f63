"""Which hosts the request may use at all, whatever room they have (reference section 6.3).

Each rule is applied once per batch to whole columns. Pins only narrow the candidates: every other rule
holds for a pinned host, cluster or pod too.
"""

from collections.abc import Iterable

import numpy as np

from bulkdeploy.placement.model import HostColumns, Ints, PlacementRequest, Reason, Strategy, ZoneSnapshot
from bulkdeploy.placement.sieve import Sieve
from bulkdeploy.placement.strategies import implicit_dedication
from bulkdeploy.placement.tags import carriers


def find_candidates(snapshot: ZoneSnapshot, request: PlacementRequest) -> Sieve:
    """Apply all rules that do not depend on room, in the order of ``Reason``."""
    sieve = Sieve(len(snapshot.hosts.id), snapshot.hosts.cluster)
    _out_of_scope(snapshot, request, sieve)
    _cluster_rules(snapshot, request, sieve)
    _host_states(snapshot.hosts, request, sieve)
    _dedication(snapshot.hosts, request, sieve)
    _host_shape(snapshot, request, sieve)
    return sieve


def _out_of_scope(snapshot: ZoneSnapshot, request: PlacementRequest, sieve: Sieve) -> None:
    clusters = snapshot.clusters
    if request.pod_id is not None:
        sieve.drop_clusters(clusters.pod_id != request.pod_id, Reason.OUT_OF_SCOPE)
    if request.cluster_id is not None:
        sieve.drop_clusters(clusters.id != request.cluster_id, Reason.OUT_OF_SCOPE)
    if request.host_id is not None:
        sieve.drop(snapshot.hosts.id != request.host_id, Reason.OUT_OF_SCOPE)


def _cluster_rules(snapshot: ZoneSnapshot, request: PlacementRequest, sieve: Sieve) -> None:
    clusters = snapshot.clusters
    other = np.fromiter(
        (hypervisor != request.hypervisor for hypervisor in clusters.hypervisor), bool, len(clusters.id)
    )
    sieve.drop_clusters(other, Reason.HYPERVISOR)
    sieve.drop_clusters(~clusters.enabled, Reason.CLUSTER_DISABLED)
    sieve.drop_clusters(~clusters.pod_enabled, Reason.POD_DISABLED)


def _host_states(hosts: HostColumns, request: PlacementRequest, sieve: Sieve) -> None:
    sieve.drop(~hosts.up, Reason.HOST_NOT_UP)
    sieve.drop(~hosts.enabled, Reason.HOST_NOT_ENABLED)
    if request.avoid_host_ids:
        sieve.drop(np.isin(hosts.id, _ints(request.avoid_host_ids)), Reason.AVOIDED)


def _dedication(hosts: HostColumns, request: PlacementRequest, sieve: Sieve) -> None:
    sieve.drop(hosts.foreign, Reason.DEDICATED_TO_OTHERS)
    if request.dedicated:
        sieve.drop(~hosts.own, Reason.NOT_DEDICATED)
    else:
        sieve.drop(hosts.own, Reason.DEDICATION_NOT_ASKED)
    if request.strategy is Strategy.IMPLICIT_DEDICATION:
        sieve.drop(implicit_dedication.occupied_by_others(hosts), Reason.OCCUPIED_BY_OTHERS)


def _host_shape(snapshot: ZoneSnapshot, request: PlacementRequest, sieve: Sieve) -> None:
    hosts = snapshot.hosts
    if request.host_tags:
        carries = carriers(snapshot.tag_sets, request.host_tags)
        sieve.drop(~carries[hosts.tag_set], Reason.HOST_TAGS)
    sieve.drop(hosts.cores < request.cpu_number, Reason.CPU_CORES)
    sieve.drop(hosts.mhz < request.cpu_mhz, Reason.CPU_SPEED)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)
