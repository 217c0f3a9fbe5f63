"""The capacity object, as listCapacity answers it and as zones, pods and clusters hold it."""

from bulkdeploy.declare.response_fields import large_number, number, objects, text
from bulkdeploy.declare.responses import Field

AMOUNTS: tuple[Field, ...] = (
    number("type", "0 memory, 1 CPU, 3 storage, 8 addresses, 9 local storage, 90 CPU cores"),
    text("name", "the type's name"),
    large_number("capacitytotal", "all there is, after over-commit: bytes, MHz, addresses or cores"),
    large_number("capacityused", "what is taken, in the same unit"),
    large_number("capacityallocated", "what is promised, in the same unit"),
    text("percentused", "the share that is taken, in percent"),
    text("zoneid", "the zone"),
    text("zonename", "the zone's name"),
)
POD: tuple[Field, ...] = (text("podid", "the pod"), text("podname", "the pod's name"))
CLUSTER: tuple[Field, ...] = (text("clusterid", "the cluster"), text("clustername", "the cluster's name"))

CAPACITY_FIELDS = (*AMOUNTS, *POD, *CLUSTER)

ZONE_CAPACITY = objects("capacity", "what the zone holds, with showcapacities", AMOUNTS)
POD_CAPACITY = objects("capacity", "what the pod holds, with showcapacities", (*AMOUNTS, *POD))
CLUSTER_CAPACITY = objects("capacity", "what the cluster holds, with showcapacities", CAPACITY_FIELDS)
