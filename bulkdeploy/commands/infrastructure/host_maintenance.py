"""prepareHostForMaintenance, cancelHostMaintenance, and migrateHost, which CloudStack does not have."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.responses import HOST, HOST_MIGRATION
from bulkdeploy.commands.planned_moves import MOVE_PLAN, PLAN_PARAMETERS, answered, plan_wanted
from bulkdeploy.declare.command import Command, Instead, JobTicket
from bulkdeploy.declare.parameters import uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PlanStale, ResourceUnavailable
from bulkdeploy.services.infrastructure import host_maintenance


def prepare_host_for_maintenance(call: Call) -> JobTicket | Instead:
    """Create the job that moves all VMs off a host for maintenance, or return the plan of a dry run.

    The job's result is the host.
    """
    plan = plan_wanted(call, "prepareHostForMaintenance")
    done = host_maintenance.prepare_host_for_maintenance(
        call.connection, call.system, call.caller, call.arguments["id"], plan
    )
    return answered(call, done)


def cancel_host_maintenance(call: Call) -> JobTicket:
    """Cancel the maintenance of a host. The job's result is the host."""
    return host_maintenance.cancel_host_maintenance(call.connection, call.system, call.caller, call.arguments["id"])


def migrate_host(call: Call) -> JobTicket | Instead:
    """Create the job that moves all VMs off a host, or return the plan of a dry run.

    The job's result contains the new hosts of the VMs. The host can still get new VMs.
    """
    plan = plan_wanted(call, "migrateHost")
    done = host_maintenance.migrate_host(call.connection, call.system, call.caller, call.arguments["id"], plan)
    return answered(call, done)


COMMANDS: tuple[Command, ...] = (
    Command(
        name="prepareHostForMaintenance",
        description="Puts a host into maintenance: excludes it from placement and moves its virtual"
        " machines to other hosts",
        handler=prepare_host_for_maintenance,
        shape=Shape.JOB,
        response=HOST,
        instead=MOVE_PLAN,
        errors=(PlanStale, ResourceUnavailable),
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.HOST, "the host", required=True), *PLAN_PARAMETERS),
    ),
    Command(
        name="migrateHost",
        description="Moves all virtual machines of a host to other hosts. The host can still get new ones.",
        handler=migrate_host,
        shape=Shape.JOB,
        response=HOST_MIGRATION,
        instead=MOVE_PLAN,
        errors=(PlanStale, ResourceUnavailable),
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.HOST, "the host", required=True), *PLAN_PARAMETERS),
    ),
    Command(
        name="cancelHostMaintenance",
        description=(
            "Cancels the maintenance of a host or its preparation, so that the host can get virtual machines again"
        ),
        handler=cancel_host_maintenance,
        shape=Shape.JOB,
        response=HOST,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(uuid("id", Entity.HOST, "the host", required=True),),
    ),
)
