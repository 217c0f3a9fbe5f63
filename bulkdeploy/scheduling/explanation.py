"""The reasons why hosts can or cannot take VMs like those of a deployment, in the present zone.

Nothing is locked or claimed.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from bulkdeploy.placement.capacity import HostAnswers
from bulkdeploy.placement.model import HostAnswer
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.scheduling.place import zone_as_seen
from bulkdeploy.scheduling.virtual_machine import read_deployment_need
from bulkdeploy.store.configuration.configurations import read_configuration


def explain_deployment(connection: Connection, deployment_id: int, host_ids: Sequence[int]) -> list[HostAnswer]:
    """Return, for each of these hosts, whether it could take one more VM of the deployment now, or why not.

    Raises:
        PlannerNotInstalled: the deployment's planner is not installed any more.
    """
    configuration = read_configuration(connection)
    need = read_deployment_need(connection, configuration, deployment_id)
    snapshot, request = zone_as_seen(connection, configuration, need, count=1, seed=0, lock=False)
    return HostAnswers(snapshot, request, placement_catalog()).of(host_ids)
