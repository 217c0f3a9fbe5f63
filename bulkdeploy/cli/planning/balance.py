"""``balance``: shows the moves that balance a zone, and executes them after confirmation."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from bulkdeploy.cli.api_commands import follow_job
from bulkdeploy.cli.arguments import check_values, read_arguments
from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.connection.naming import resolve_names
from bulkdeploy.cli.failures import UsageError

API = "balanceZone"
YES = "yes"
MOST_SHOWN = 50
IN_ROWS = ("csv", "column")
TERMS = ("cpu", "memory", "owners", "n1")


def balance(context: CommandContext, words: Sequence[str]) -> None:
    """Print the plan that balances a zone, a pod or a cluster. If the user confirms, execute the plan and wait.

    Raises:
        UsageError: the API has no balanceZone, or the parameters are wrong.
        CommandFailed: the call or its job failed.
    """
    api = context.catalogue.get(API)
    if api is None:
        raise UsageError("the server has no command balanceZone: only bulkdeploy servers have it")
    given = [word for word in words if word.lower() not in (YES, "zone")]
    arguments = read_arguments(api, given, send_unknown=context.options.send_unknown)
    parameters = arguments.parameters
    check_values(api, parameters)
    resolve_names(context.catalogue, api, parameters, context.call, context.screen.print_message)
    only_plan = parameters.get("dryrun", "").lower() == "true"
    plan = context.call(API, {**parameters, "dryrun": "true"})["balanceplan"]
    _show(context, plan, arguments.filter)
    if only_plan or not plan["moves"]:
        return
    if YES not in (word.lower() for word in words) and not _confirmed(plan):
        context.screen.print_message("Nothing was moved")
        return
    shown = {"planindex": str(plan["index"])} if plan.get("index") else {}
    answer = context.transport.call(API, {**parameters, **shown})
    if not context.preferences.asyncblock:
        context.screen.show(answer)
        return
    follow_job(context, str(answer["jobid"]), API, ())


def _confirmed(plan: Mapping[str, Any]) -> bool:
    """Return whether the user confirms the plan at the terminal. Returns False without a terminal."""
    if not sys.stdin.isatty():
        return False
    print(f"Move {plan['moves']} virtual machines? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    return sys.stdin.readline().strip().lower() in ("y", YES)


def _show(context: CommandContext, plan: Mapping[str, Any], fields: Sequence[str]) -> None:
    screen, moves = context.screen, plan.get("move") or []
    if screen.format in IN_ROWS:
        screen.show({"move": moves}, fields)
    elif screen.format != "table":
        screen.show({"balanceplan": plan}, fields)
    else:
        screen.render(_scores(plan), *([_moves(moves)] if moves else []), _verdict(plan))


def _scores(plan: Mapping[str, Any]) -> Table:
    table = Table("SCORE", *(name.upper() for name in TERMS), "TOTAL")
    for word in ("before", "after"):
        (terms,) = plan[word]
        table.add_row(word, *(f"{terms[name]:.4f}" for name in TERMS), f"{plan[f'score{word}']:.4f}")
    return table


def _moves(moves: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("SET", "VM", "FROM", "TO", "GAIN")
    for move in moves[:MOST_SHOWN]:
        table.add_row(
            str(move["set"]),
            move["virtualmachinename"],
            move["fromhostname"],
            move["hostname"],
            f"{move['gain']:.4f}",
        )
    return table


def _verdict(plan: Mapping[str, Any]) -> Text:
    if not plan["moves"]:
        return Text("No move improves the balance enough.", "green")
    more = f", the first {MOST_SHOWN} shown" if plan["moves"] > MOST_SHOWN else ""
    return Text(f"{plan['moves']} moves in {plan['sets']} sets{more}.")
