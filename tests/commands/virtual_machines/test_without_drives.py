"""ISOs of VMs whose hypervisor has no drives: none is attached, and those of before are detached."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.abilities.isos import IsoDrives
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from bulkdeploy.wiring.system import build_job_queue
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.commands.virtual_machines.test_drives import insert_into_row
from tests.support.api.callers import refused
from tests.support.hypervisors.drivers import always

__all__ = ["owned"]


class Driveless(SimulatorDriver):
    """A hypervisor without drives."""

    def ensure_drive(self, *arguments: Any, **named: Any) -> None:
        """Must not be called."""
        del arguments, named
        raise AssertionError("it has no drives")


Driveless.abilities = SimulatorDriver.abilities - {IsoDrives}


@pytest.fixture
def driveless(fleet_simulator_url: str) -> Iterator[Driveless]:
    """One."""
    driver = Driveless(fleet_simulator_url)
    yield driver
    driver.close()


@pytest.fixture
def system(settings: Settings, engine: Engine, cipher: FernetCipher, driveless: Driveless) -> System:
    """One whose hypervisors are without drives."""
    return System(engine, build_job_queue(settings), cipher, settings.data_dir, always(driveless))


def test_an_iso_of_before_is_detached_and_none_is_attached(owned: Owned, driveless: Driveless) -> None:
    """Whether the VM runs or not; nothing is asked of a guest that runs."""
    for state in ("Running", "Stopped"):
        iso = insert_into_row(owned)
        error = refused(owned.client, "attachIso", id=iso, virtualmachineid=owned.vm, forced=True).errortext
        assert "hypervisor KVM does not support ISOs" in error
        assert owned.done("detachIso", driveless, virtualmachineid=owned.vm)["jobstatus"] == 1
        (vm,) = owned.client.call("listVirtualMachines", id=owned.vm)["virtualmachine"]
        assert (vm["state"], vm.get("isoid")) == (state, None)
        if state == "Running":
            assert owned.done("stopVirtualMachine", driveless, id=owned.vm)["jobstatus"] == 1
    owned.fleet.assert_intact()
