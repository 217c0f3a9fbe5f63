"""Parameters of commands about how hosts are kept available."""

from bulkdeploy.declare.parameters import uuid
from bulkdeploy.domain.entities import Entity

PLACES = (
    ("Host", "hostid", Entity.HOST, "a host"),
    ("Cluster", "clusterid", Entity.CLUSTER, "all hosts of a cluster"),
    ("Zone", "zoneid", Entity.ZONE, "all hosts of a zone"),
)
THE_HOST = uuid("hostid", Entity.HOST, "the host", required=True)
