"""The program ``bulkmonkey``. Secrets in its arguments are hidden before anything else is loaded."""

import os
import sys

from bulkdeploy.cli.concealment import conceal_arguments


def main() -> None:
    """Run one command line, or the shell without arguments, and end the process with the exit status."""
    arguments = conceal_arguments(sys.argv[1:])
    # These modules load many libraries, and secrets must be concealed before that.
    from bulkdeploy.cli.program import run_program  # noqa: PLC0415 - see above

    sys.exit(run_program(os.environ, arguments))


if __name__ == "__main__":
    main()
