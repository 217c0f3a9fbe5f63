"""listDeploymentPlanners: the deployment planners that offerings and deployments can name."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.scheduling.catalog import placement_catalog
from bulkdeploy.store.rows.listing import Page, cut_page


def list_deployment_planners(call: Call) -> Page:
    """Return the deployment planners that an offering or a deployment may name, with their descriptions."""
    keyword = (call.text("keyword") or "").lower()
    catalog = placement_catalog()
    rows = [{"name": name, "description": catalog.strategy(name).description} for name in catalog.planners]
    return cut_page([row for row in rows if keyword in row["name"].lower()], paging(call))


COMMANDS = (
    Command(
        name="listDeploymentPlanners",
        description="Lists the planners that an offering or a deployment may name",
        handler=list_deployment_planners,
        shape=Shape.LIST,
        response=Response(
            "deploymentplanner", (text("name", "the planner"), text("description", "how the planner selects hosts"))
        ),
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=PAGING,
    ),
)
