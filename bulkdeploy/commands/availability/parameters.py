"""Parameters of the commands for host HA and out-of-band management."""

from bulkdeploy.declare.parameters import uuid
from bulkdeploy.domain.entities import Entity

THE_HOST = uuid("hostid", Entity.HOST, "the host", required=True)
