"""Programs that load their code while a resource that they need is still being created.

Loading a program takes about as long as making a database, and on two cores both fit side by side. So ``up``
starts its programs first, with one pipe as the standard input of all, and closes it once the database is ready.
"""

import os
import sys

import click

hold = click.option(
    "--hold", "held", is_flag=True, help="Load everything, but begin only when standard input has ended."
)
"""The option of a program that can be started before its time: see ``until_let_go``."""


def until_let_go(*, held: bool) -> None:
    """Wait until standard input ends if the program was started with ``--hold``. A closed input has ended."""
    while held and sys.stdin is not None and os.read(sys.stdin.fileno(), 1):
        pass
