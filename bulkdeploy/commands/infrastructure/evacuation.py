"""evacuateHost: starts a dead host's VMs on other hosts. CloudStack does not have this command."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.responses import HOST_MIGRATION
from bulkdeploy.commands.planned_moves import MOVE_PLAN, PLAN_PARAMETERS, answered, plan_wanted
from bulkdeploy.declare.command import Command, Instead, JobTicket
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PlanStale, ResourceUnavailable
from bulkdeploy.provisioning.kinds.infrastructure.evacuate_host import MODES, PRIMARY_ONLY
from bulkdeploy.services.infrastructure import evacuation


def look_at_host(call: Call) -> bool | None:
    """Return whether the host responds to its driver, or None if this is unknown."""
    return evacuation.host_answers(call.connection, call.system, call.arguments["id"])


def evacuate_host(call: Call, answers: bool | None) -> JobTicket | Instead:
    """Create the job that starts a dead host's VMs on other hosts, or return the plan of a dry run.

    ``answers`` is the result of ``look_at_host``. The job's result contains the new hosts of the VMs.
    """
    done = evacuation.evacuate_host(
        call.connection,
        call.system,
        call.caller,
        call.arguments["id"],
        answers=answers,
        force=call.flag("force"),
        mode=call.arguments.get("mode", PRIMARY_ONLY),
        plan=plan_wanted(call, "evacuateHost"),
    )
    return answered(call, done)


COMMANDS: tuple[Command, ...] = (
    Command(
        name="evacuateHost",
        description="Fences a host that does not answer, and starts its running virtual machines on other hosts",
        handler=evacuate_host,
        prepare=look_at_host,
        shape=Shape.JOB,
        response=HOST_MIGRATION,
        instead=MOVE_PLAN,
        errors=(PlanStale, ResourceUnavailable),
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        parameters=(
            uuid("id", Entity.HOST, "the host", required=True),
            boolean(
                "force",
                "fence the host (its guests end) and evacuate it even if it answers; if the host cannot be fenced, "
                "this confirms that the host is powered off",
            ),
            string(
                "mode",
                f"{PRIMARY_ONLY} (default): evacuate the virtual machines that ran on the host; all: also report"
                " Stopped virtual machines as lost whose volumes are on the local disks of the host",
                choices=MODES,
            ),
            *PLAN_PARAMETERS,
        ),
    ),
)
