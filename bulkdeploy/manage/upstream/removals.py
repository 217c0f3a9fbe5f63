"""How what a CloudStack no longer has is removed here: as calls delete it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bulkdeploy.services.catalog import templates
from bulkdeploy.services.catalog.disk_offerings import DISK_OFFERING
from bulkdeploy.services.catalog.offerings import OfferingKind, delete_offering
from bulkdeploy.services.catalog.service_offerings import SERVICE_OFFERING
from bulkdeploy.services.infrastructure.clusters import delete_cluster
from bulkdeploy.services.infrastructure.hosts import delete_host
from bulkdeploy.services.infrastructure.pods import delete_pod
from bulkdeploy.services.infrastructure.storage_pools import delete_pool
from bulkdeploy.services.infrastructure.zones import delete_zone
from bulkdeploy.services.networks.networks import delete_network
from bulkdeploy.services.networks.security_groups import delete_security_group
from bulkdeploy.services.networks.vlan_ip_ranges import delete_range
from bulkdeploy.services.ownership import NamedOwner
from bulkdeploy.services.virtual_machines.affinity_groups import delete_affinity_group


def _owned(connection: Any, caller: Any, ref: Any, *, delete: Callable[..., Any]) -> None:
    delete(connection, caller, NamedOwner(), ref, None)


def _offering(connection: Any, caller: Any, ref: Any, *, kind: OfferingKind) -> None:
    delete_offering(connection, caller, kind, ref)


def _image(connection: Any, caller: Any, ref: Any, *, kind: templates.Kind) -> None:
    templates.delete(connection, caller, kind, ref, None, forced=True)


REMOVALS: Mapping[str, Callable[..., Any]] = {
    "hosts": partial(delete_host, forced=True),
    "storagepools": partial(delete_pool, forced=True),
    "clusters": delete_cluster,
    "pods": delete_pod,
    "zones": delete_zone,
    "vlanipranges": delete_range,
    "networks": delete_network,
    "securitygroups": partial(_owned, delete=delete_security_group),
    "affinitygroups": partial(_owned, delete=delete_affinity_group),
    "templates": partial(_image, kind=templates.TEMPLATE),
    "isos": partial(_image, kind=templates.ISO),
    "serviceofferings": partial(_offering, kind=SERVICE_OFFERING),
    "diskofferings": partial(_offering, kind=DISK_OFFERING),
}
"""By section; (connection, caller, what) -> nothing. Domains, accounts, users, roles and projects stay."""
