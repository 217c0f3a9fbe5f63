"""The program ``bulkmonkey``. Secrets among its arguments are concealed before anything else is loaded."""

import os
import sys

from bulkdeploy.cli.concealment import conceal_arguments

COMPLETE = "__complete"
"""How completion scripts call: ``bulkmonkey __complete WORD ... PARTIAL``."""


def main() -> None:
    """Run one command line, or the shell if there is none; ends the process with its exit status."""
    arguments = conceal_arguments(sys.argv[1:])
    # These load half the libraries of this program, which takes longer than concealing may.
    from bulkdeploy.cli.program import complete, one_shot  # noqa: PLC0415 - see above

    if arguments[:1] == [COMPLETE]:
        complete(os.environ, arguments[1:])
        return
    sys.exit(one_shot(os.environ, arguments))


if __name__ == "__main__":
    main()
