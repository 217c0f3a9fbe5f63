"""The program ``bulkmonkey``. Secrets among its arguments are concealed before anything else is loaded."""

import os
import sys

from bulkdeploy.cli.concealment import conceal_arguments


def main() -> None:
    """Run one command line, or the shell if there is none; ends the process with its exit status."""
    arguments = conceal_arguments(sys.argv[1:])
    # These load half the libraries of this program, which takes longer than concealing may.
    from bulkdeploy.cli.program import run_program  # noqa: PLC0415 - see above

    sys.exit(run_program(os.environ, arguments))


if __name__ == "__main__":
    main()
