"""Programs that load their code while the database is still being created.

Loading a program takes about as long as creating a database, and on two cores both can happen at the same time. So
``up`` starts its programs first, with one pipe as the standard input of all, and closes the pipe when the database
is ready.
"""

import os
import sys

import click

hold_option = click.option(
    "--hold", "held", is_flag=True, help="Load all code, but begin only when standard input is closed."
)
"""The option ``--hold`` of programs that ``up`` starts before the database is ready."""


def wait_for_end_of_input(*, held: bool) -> None:
    """Wait until standard input is closed, if ``held`` is set. Return at once if there is no standard input."""
    while held and sys.stdin is not None and os.read(sys.stdin.fileno(), 1):
        pass
