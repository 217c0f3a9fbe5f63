"""listInfrastructure: the numbers of zones, hosts, pools and other parts of the infrastructure."""

from collections.abc import Mapping

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.response_fields import number
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.store.infrastructure.metrics.metrics import count_infrastructure

THERE = (
    *("zones", "pods", "clusters", "hosts", "storagepools", "imagestores", "cpusockets", "managementservers"),
    *("systemvms", "routers", "ilbvms", "alerts", "objectstores", "backuprepositories"),
)
ABSENT = dict.fromkeys(THERE[-6:], 0)
"""The numbers of resources that the service does not have and that CloudStack's UI shows."""


def list_infrastructure(call: Call) -> Mapping[str, int]:
    """Return the numbers of zones, hosts and other parts of the infrastructure.

    The service counts as one management server, independent of its number of processes.
    """
    return {**count_infrastructure(call.connection), "managementservers": 1, **ABSENT}


COMMANDS = (
    Command(
        name="listInfrastructure",
        description="Counts zones, pods, clusters, hosts, storage pools and other infrastructure",
        handler=list_infrastructure,
        shape=Shape.OBJECT,
        response=Response("infrastructure", tuple(number(name, f"the number of {name}") for name in THERE)),
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        authorized=ROOT_ADMIN_ONLY,
    ),
)
