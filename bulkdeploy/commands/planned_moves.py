"""Parameters and responses of commands that start or move existing VMs and can return their plan first."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.parameters.plan_indexes import PLACED, fingerprints, inventory_age
from bulkdeploy.declare.command import Instead, JobTicket
from bulkdeploy.declare.parameters import boolean, long
from bulkdeploy.declare.response_fields import number, objects, text
from bulkdeploy.declare.responses import Response
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.services.planned_moves import MovePlan, PlanWanted
from bulkdeploy.store.deployments.deployments import plan_hosts
from bulkdeploy.store.ledger.balance_rows import names_of

PLAN_INDEX = long(
    "planindex",
    "the index of a plan that a dry run of this call returned. The call applies exactly that plan, or is "
    "rejected if that is no longer possible",
    minimum=1,
)
PLAN_PARAMETERS = (boolean("dryrun", "true: only return the plan, and change nothing; default: false"), PLAN_INDEX)

MOVE_PLAN = Response(
    "plan",
    (
        *PLACED,
        number("count", "the number of virtual machines that must be started or moved"),
        number("fits", "the number of virtual machines for which a host was found"),
        objects(
            "move",
            "the plan for each virtual machine",
            (
                text("virtualmachineid", "the virtual machine"),
                text("virtualmachinename", "the name of the virtual machine"),
                text("fromhostid", "the host that the virtual machine leaves"),
                text("fromhostname", "the name of the host that the virtual machine leaves"),
                text("hostid", "the host that was found for the virtual machine"),
                text("hostname", "the name of the host that was found for the virtual machine"),
                text("errortext", "why no host was found"),
                text("planner", "the deployment planner that chose the host; absent if the host was named"),
            ),
            ROOT_ADMIN_ONLY,
        ),
    ),
)


def plan_wanted(call: Call, command: str) -> PlanWanted | None:
    """Return the plan parameters of a call, or None if the call neither is a dry run nor names a plan."""
    index, dry_run = call.arguments.get("planindex"), call.flag("dryrun")
    if index is None and not dry_run:
        return None
    fingerprint = fingerprints({**call.arguments, "command": command})["plan_fingerprint"]
    return PlanWanted(fingerprint, dry_run, index)


def answered(call: Call, result: JobTicket | MovePlan) -> JobTicket | Instead:
    """Return the response of a call: the job, or the plan of a dry run in API format."""
    return result if isinstance(result, JobTicket) else Instead(MOVE_PLAN, _row(call, result))


def _row(call: Call, plan: MovePlan) -> dict[str, Any]:
    moves = plan.moves
    gets = Counter(move.to_host_id for move in moves if move.to_host_id is not None)
    places = plan_hosts(call.connection, list(gets))
    both = {host for move in moves for host in (move.from_host_id, move.to_host_id) if host is not None}
    vms, hosts = names_of(call.connection, [move.vm_id for move in moves], both)
    return {
        "index": plan.index,
        "count": len(moves),
        "fits": gets.total(),
        "inventoryage": inventory_age(call.connection),
        "placedhosts": [{**places[host], "count": count} for host, count in gets.most_common() if host in places],
        "move": [
            {
                "virtualmachineid": str(vms[move.vm_id].uuid),
                "virtualmachinename": vms[move.vm_id].name,
                **_host(hosts, move.from_host_id, "from"),
                **_host(hosts, move.to_host_id, ""),
                "errortext": move.why or None,
                "planner": move.planner or None,
            }
            for move in moves
        ],
    }


def _host(hosts: Mapping[int, Any], host_id: int | None, prefix: str) -> dict[str, str]:
    if host_id is None:
        return {}
    return {f"{prefix}hostid": str(hosts[host_id].uuid), f"{prefix}hostname": hosts[host_id].name}
