"""Runner of one file of CloudStack's integration tests, inside Marvin's own environment.

``python run_tests.py REPORT NOSE-ARGUMENTS`` behaves as ``nosetests`` with Marvin's plug-in, and writes a line with
the name and the outcome of each test. It knows nothing of this project.
"""

import sys
from pathlib import Path

import nose
from marvin.lib.base import VirtualMachine
from marvin.marvinPlugin import MarvinPlugin
from nose.plugins import Plugin


class CurrentMarvinPlugin(MarvinPlugin):  # type: ignore[misc]
    """Marvin's plug-in for pynose, which passes one argument fewer to ``addSuccess`` than nose did."""

    name = "marvin"

    def addSuccess(self, test: object, capt: object = None) -> None:  # noqa: N802 - nose's name
        """Report a test that passed."""
        super().addSuccess(test, capt)

    def wantFile(self, filename: str) -> bool:  # noqa: N802 - nose's name
        """Return whether a file may hold tests; Marvin's own answer starts an interpreter for each file."""
        return filename.endswith(".py")


class Report(Plugin):  # type: ignore[misc]
    """Plug-in that writes outcomes line by line, so that tests are known that ran before an interruption."""

    name = "outcomes"
    enabled = True
    score = 2000
    """Before the plug-in of nose that counts skipped tests, which hides them from plug-ins after it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        path.write_text("")

    def options(self, parser: object, env: object = None) -> None:
        """Add no options."""

    def configure(self, options: object, conf: object) -> None:
        """Be always enabled."""

    def addSuccess(self, test: object, *_: object) -> None:  # noqa: N802 - nose's name
        """Write a test that passed."""
        self._write(test, "passed")

    def addError(self, test: object, err: tuple[type[BaseException], object, object], *_: object) -> None:  # noqa: N802
        """Write a test that was skipped or raised an error."""
        self._write(test, "skipped" if err[0].__name__ == "SkipTest" else "failed")

    def addFailure(self, test: object, *_: object) -> None:  # noqa: N802
        """Write a test that failed."""
        self._write(test, "failed")

    def _write(self, test: object, outcome: str) -> None:
        case = getattr(test, "test", test)
        identifier = getattr(case, "id", None)
        if identifier is not None:
            with self._path.open("a") as file:
                file.write(f"{'.'.join(identifier().split('.')[-2:])} {outcome}\n")


def program_no_access(*_: object, **__: object) -> None:
    """Replace Marvin's creation of an SSH access through a public address.

    Marvin repeats a call that fails five times at intervals of 30 seconds and then goes on without the access.
    """


if __name__ == "__main__":
    VirtualMachine.program_ssh_access = program_no_access
    report = Report(Path(sys.argv.pop(1)))
    sys.exit(not nose.run(addplugins=[CurrentMarvinPlugin(), report]))
