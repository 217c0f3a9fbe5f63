"""balanceZone: moves VMs until hosts are evenly used. CloudStack can balance only single clusters."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.responses import BALANCE_RESULT
from bulkdeploy.commands.planned_moves import PLAN_PARAMETERS, plan_wanted
from bulkdeploy.declare.command import Command, Instead, JobTicket
from bulkdeploy.declare.parameters import ExactlyOne, integer, string, uuid
from bulkdeploy.declare.response_fields import fraction, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import POSITIVE_NUMBER
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PlanStale
from bulkdeploy.services.infrastructure.balance import PLACES, balance_zone, show_balance

USUAL_MOVES, MOST_MOVES = 100, 100_000
USUAL_GAIN = 0.001

TERMS = (
    fraction(
        "cpu",
        "the CPU imbalance: the sum of the squared differences between each host's allocated share of CPU and "
        "the share of all hosts together",
    ),
    fraction("memory", "the memory imbalance, calculated as the CPU imbalance"),
    fraction(
        "owners", "0.1 for each pair of VMs of one owner on the same host that an even dispersion would avoid"
    ),
    fraction(
        "n1",
        "for each cluster, the share of the largest host's memory that would not fit on the other hosts if "
        "this host failed",
    ),
)

BALANCE_PLAN = Response(
    "balanceplan",
    (
        number(
            "index",
            "the index of the plan. Send it as planindex instead of dryrun to make exactly these moves. The "
            "plan is kept for one day",
        ),
        fraction("scorebefore", "the present balance score; 0 is perfect balance"),
        fraction("scoreafter", "the balance score after all moves"),
        objects("before", "the parts of the present balance score", TERMS),
        objects("after", "the parts of the balance score after all moves", TERMS),
        number(
            "sets",
            "the number of sets of moves. Sets are made one after the other; moves of one set use different "
            "hosts and are made at the same time",
        ),
        number("moves", "the number of moves"),
        objects(
            "move",
            "the moves",
            (
                number("set", "the number of the set to which the move belongs, starting at 1"),
                text("virtualmachineid", "the virtual machine that moves"),
                text("virtualmachinename", "the name of the virtual machine"),
                text("fromhostid", "the host that the virtual machine leaves"),
                text("fromhostname", "the name of the host that the virtual machine leaves"),
                text("hostid", "the host that the virtual machine moves to"),
                text("hostname", "the name of the host that the virtual machine moves to"),
                fraction("gain", "the amount by which the move lowers the balance score"),
            ),
        ),
    ),
)


def balance(call: Call) -> JobTicket | Instead:
    """Create the job that balances a zone, a pod or a cluster, or return the moves of a dry run."""
    place = next(call.arguments[name] for name in PLACES.values() if name in call.arguments)
    bounds = {
        "most_moves": call.arguments.get("maxmoves", USUAL_MOVES),
        "least_gain": float(call.text("mingain") or USUAL_GAIN),
    }
    plan = plan_wanted(call, "balanceZone")
    if plan is not None and plan.dry_run:
        return Instead(BALANCE_PLAN, show_balance(call.connection, call.system, call.caller, place, plan, **bounds))
    return balance_zone(call.connection, call.system, call.caller, place, plan=plan, **bounds)


COMMANDS: tuple[Command, ...] = (
    Command(
        name="balanceZone",
        description="Moves running virtual machines until the hosts of a zone, a pod or a cluster are evenly used",
        handler=balance,
        shape=Shape.JOB,
        response=BALANCE_RESULT,
        instead=BALANCE_PLAN,
        roles=ROOT_ADMIN_ONLY,
        errors=(PlanStale,),
        changes_state=True,
        parameters=(
            uuid("zoneid", Entity.ZONE, "the zone"),
            uuid("podid", Entity.POD, "only move VMs within this pod"),
            uuid("clusterid", Entity.CLUSTER, "only move VMs within this cluster"),
            integer(
                "maxmoves", f"the maximum number of moves; default: {USUAL_MOVES}", minimum=1, maximum=MOST_MOVES
            ),
            string(
                "mingain",
                f"the minimum by which each move must lower the score; default: {USUAL_GAIN}",
                rule=POSITIVE_NUMBER,
            ),
            *PLAN_PARAMETERS,
        ),
        rules=(ExactlyOne(tuple(PLACES.values())),),
    ),
)
