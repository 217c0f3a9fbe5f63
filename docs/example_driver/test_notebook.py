"""The example driver keeps the contract of drivers."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from bulkdeploy_notebook import NotebookDriver, NotebookOptions
from notebook import NotebookError, Page

from bulkdeploy.drivers.contract import DriverContract, HostContract, Machines, Rig, VolumeContract
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost

METHODS = {"boot": "run_guest", "stop": "end_guest", "delete": "erase_volume"}
"""What the notebook is asked for in each step."""


class TestNotebook(DriverContract, VolumeContract, HostContract):
    """Two hosts of a new notebook."""

    @pytest.fixture
    def fail_next(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        """Lets the notebook fail the next time that it is asked for what a step needs."""

        def fail_next(step: str) -> None:
            def fail(*_: object) -> None:
                monkeypatch.undo()
                raise NotebookError("out of ink")

            monkeypatch.setattr(Page, METHODS[step], fail)

        return fail_next

    @pytest.fixture
    def rig(self, tmp_path: Path, fail_next: Callable[[str], None]) -> Rig:
        """The driver, what it drives, and how to break it."""
        driver = NotebookDriver.from_options(NotebookOptions(path=tmp_path / "notebook"))
        hosts = tuple(HostAddress(uuid4(), name, "127.0.0.1", "KVM") for name in ("left", "right"))
        return Rig(driver, hosts, fail_next, start_steps=("boot",))

    @pytest.fixture
    def machines(self) -> Machines:
        """Two that answer, one that does not."""
        promise = HostPromise(Decimal(1), Decimal(1), guests_limit=50)
        left, right, silent = (
            NewHost(uuid4(), "KVM", HostAccess(url), promise)
            for url in ("notebook://left", "notebook://right", "http://silent")
        )
        return Machines((left, right), silent)
