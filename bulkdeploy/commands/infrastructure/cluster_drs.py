"""CloudStack's DRS commands: generateClusterDrsPlan, executeClusterDrsPlan and listClusterDrsPlan."""

from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.responses import BALANCE_RESULT
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import integer, mapping, uuid
from bulkdeploy.declare.response_fields import moment, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, ResourceInUse
from bulkdeploy.services.infrastructure import cluster_drs as service
from bulkdeploy.store.infrastructure import cluster_drs as store
from bulkdeploy.store.rows.listing import Page

MOVE = (
    text("virtualmachineid", "the virtual machine that moves"),
    text("virtualmachinename", "the name of the virtual machine"),
    text("sourcehostid", "the host that the virtual machine leaves"),
    text("sourcehostname", "the name of the host that the virtual machine leaves"),
    text("destinationhostid", "the host that the virtual machine moves to"),
    text("destinationhostname", "the name of the host that the virtual machine moves to"),
)


def generate_plan(call: Call) -> dict[str, Any]:
    """Return the moves that would balance a cluster. Nothing is moved."""
    cluster, most = call.arguments["id"], call.arguments.get("migrations")
    return {"migrations": service.plan_cluster(call.connection, call.system, cluster, most)}


def execute_plan(call: Call) -> JobTicket:
    """Create the job that moves VMs of a cluster to the hosts that the call names.

    Raises:
        InvalidParameter: an entry does not have exactly the fields vm and host.
    """
    moves = call.arguments.get("migrateto", ())
    for move in moves:
        if set(move) != {"vm", "host"}:
            raise InvalidParameter("migrateto", str(sorted(move)), "each entry must have vm and host")
    return service.execute_plan(call.connection, call.system, call.caller, call.arguments["id"], moves)


def list_plans(call: Call) -> Page:
    """Return the DRS plans of clusters, newest first."""
    return store.list_plans(call.connection, call.arguments, paging(call))


THE_CLUSTER = uuid("id", Entity.CLUSTER, "the cluster", required=True)

COMMANDS: tuple[Command, ...] = (
    Command(
        name="generateClusterDrsPlan",
        description="Shows the moves of virtual machines that would balance a cluster",
        handler=generate_plan,
        shape=Shape.OBJECT,
        response=Response(
            "generateclusterdrsplanresponse",
            (objects("migrations", "the moves, in the order in which they are made", MOVE),),
        ),
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            THE_CLUSTER,
            integer(
                "migrations",
                "the maximum number of moves; default: the setting drs.max.migrations of the cluster",
                minimum=1,
            ),
        ),
    ),
    Command(
        name="executeClusterDrsPlan",
        description="Moves virtual machines between hosts of a cluster, as planned by generateClusterDrsPlan",
        handler=execute_plan,
        shape=Shape.JOB,
        response=BALANCE_RESULT,
        roles=ROOT_ADMIN_ONLY,
        errors=(ResourceInUse,),
        changes_state=True,
        parameters=(
            THE_CLUSTER,
            mapping(
                "migrateto",
                "the moves in the order in which they are made: migrateto[0].vm, migrateto[0].host",
                (("vm", Entity.VIRTUAL_MACHINE), ("host", Entity.HOST)),
            ),
        ),
    ),
    Command(
        name="listClusterDrsPlan",
        description="Lists plans that balanced clusters, newest first, until their jobs expire",
        handler=list_plans,
        shape=Shape.LIST,
        response=Response(
            "drsPlan",
            (
                text("id", "the plan: the id of its job"),
                text("clusterid", "the cluster"),
                text("eventid", "the event with which the plan began"),
                text("type", "MANUAL or AUTOMATED"),
                text("status", "IN_PROGRESS or COMPLETED"),
                moment("created", "the date and time of creation"),
                objects(
                    "migrations",
                    "the moves that were started",
                    (
                        *MOVE,
                        text("jobid", "the job that moves the virtual machine"),
                        text("jobstatus", "IN_PROGRESS, SUCCEEDED or FAILED"),
                    ),
                ),
            ),
        ),
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            uuid("id", Entity.JOB, "only this plan"),
            uuid("clusterid", Entity.CLUSTER, "only plans of this cluster"),
            *PAGING,
        ),
    ),
)
