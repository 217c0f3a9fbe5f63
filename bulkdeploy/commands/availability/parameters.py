"""Parameters of commands about how hosts are kept available."""

from bulkdeploy.declare.parameters import uuid
from bulkdeploy.domain.entities import Entity

THE_HOST = uuid("hostid", Entity.HOST, "the host", required=True)
