"""balanceZone: moves VMs until hosts are evenly used. An own command; CloudStack balances single clusters only."""

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
    fraction("cpu", "how far hosts' shares of promised CPU lie from that of all: the sum of squares"),
    fraction("memory", "the same of memory"),
    fraction("owners", "a tenth for each pair of VMs of one owner on one host that even dispersion would not have"),
    fraction(
        "n1", "per cluster, the part of its largest host's memory for whose loss the others have no free room"
    ),
)

BALANCE_PLAN = Response(
    "balanceplan",
    (
        number("index", "give it as planindex, instead of dryrun, to make just these moves; kept for a day"),
        fraction("scorebefore", "the score as it is now; 0 is balance"),
        fraction("scoreafter", "the score after all moves"),
        objects("before", "what the score is made of now", TERMS),
        objects("after", "the same after all moves", TERMS),
        number("sets", "sets of moves, made one after the other; moves of one set have no host in common"),
        number("moves", "how many moves there are"),
        objects(
            "move",
            "the moves",
            (
                number("set", "the set that it belongs to, from 1"),
                text("virtualmachineid", "the virtual machine that moves"),
                text("virtualmachinename", "its name"),
                text("fromhostid", "the host that it leaves"),
                text("fromhostname", "that host's name"),
                text("hostid", "the host that it moves to"),
                text("hostname", "that host's name"),
                fraction("gain", "by how much it lowers the score"),
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
            uuid("podid", Entity.POD, "only this pod"),
            uuid("clusterid", Entity.CLUSTER, "only this cluster"),
            integer("maxmoves", f"how many moves at most; default {USUAL_MOVES}", minimum=1, maximum=MOST_MOVES),
            string(
                "mingain",
                f"by how much each move must lower the score; default {USUAL_GAIN}",
                rule=POSITIVE_NUMBER,
            ),
            *PLAN_PARAMETERS,
        ),
        rules=(ExactlyOne(tuple(PLACES.values())),),
    ),
)
