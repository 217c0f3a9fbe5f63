"""The removal of entities that no longer exist in a CloudStack, in batches and with the rules of API calls."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bulkdeploy.services.catalog.disk_offerings import DISK_OFFERING
from bulkdeploy.services.catalog.offerings import OfferingKind, delete_offerings
from bulkdeploy.services.catalog.service_offerings import SERVICE_OFFERING
from bulkdeploy.services.catalog.templates import ISO, TEMPLATE, Kind, delete_templates
from bulkdeploy.services.infrastructure.clusters import delete_clusters
from bulkdeploy.services.infrastructure.hosts import delete_hosts
from bulkdeploy.services.infrastructure.pods import delete_pods
from bulkdeploy.services.infrastructure.storage.storage_pools import delete_pools
from bulkdeploy.services.infrastructure.zones import delete_zones
from bulkdeploy.services.networks.networks import delete_networks
from bulkdeploy.services.networks.security_groups import delete_security_groups
from bulkdeploy.services.networks.vlan_ip_ranges import delete_ranges
from bulkdeploy.services.virtual_machines.affinity_groups import delete_affinity_groups


def _offerings(connection: Any, caller: Any, refs: Any, *, kind: OfferingKind) -> None:
    delete_offerings(connection, caller, kind, refs)


def _images(connection: Any, caller: Any, refs: Any, *, kind: Kind) -> None:
    delete_templates(connection, caller, kind, refs, forced=True)


REMOVALS: Mapping[str, Callable[..., Any]] = {
    "hosts": partial(delete_hosts, forced=True),
    "storagepools": partial(delete_pools, forced=True, with_local=True),
    "clusters": delete_clusters,
    "pods": delete_pods,
    "zones": delete_zones,
    "vlanipranges": delete_ranges,
    "networks": delete_networks,
    "securitygroups": delete_security_groups,
    "affinitygroups": delete_affinity_groups,
    "templates": partial(_images, kind=TEMPLATE),
    "isos": partial(_images, kind=ISO),
    "serviceofferings": partial(_offerings, kind=SERVICE_OFFERING),
    "diskofferings": partial(_offerings, kind=DISK_OFFERING),
}
"""By section; (connection, caller, what) -> nothing. Domains, accounts, users, roles and projects stay."""
