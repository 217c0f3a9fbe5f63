"""The contract of all drivers for admitting machines as hosts."""

from dataclasses import dataclass

import pytest

from bulkdeploy.drivers.contract_suites.subjects import PATIENCE_S, Rig
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostModel, NewHost


@dataclass(frozen=True)
class Machines:
    """Machines that become hosts: at least two that answer, and one that does not."""

    answering: tuple[NewHost, ...]
    silent: NewHost


class HostContract:
    """The contract that each machine reports its own hardware."""

    def test_a_machine_says_what_it_has(self, rig: Rig, machines: Machines) -> None:
        """A machine reports its name and sizes, also if it is admitted again."""
        for _ in range(2):
            model = rig.driver.admit_host(machines.answering[0], timeout_s=PATIENCE_S)
            assert model.name
            assert min(model.cpu_cores, model.cpu_mhz, model.memory_mib) > 0

    def test_a_machine_that_does_not_answer_is_no_host(self, rig: Rig, machines: Machines) -> None:
        """The admission of a silent machine fails in time."""
        with pytest.raises(DriverError):
            rig.driver.admit_host(machines.silent, timeout_s=1.0)

    def test_one_that_does_not_answer_stops_no_other(self, rig: Rig, machines: Machines) -> None:
        """Machines that are admitted together have their results in order, and a silent one affects no other."""
        requested = [machines.silent, *machines.answering, machines.silent]
        first, *models, last = rig.driver.admit_hosts(requested, timeout_s=PATIENCE_S)
        assert isinstance(first, DriverError)
        assert isinstance(last, DriverError)
        assert models == [rig.driver.admit_host(host, timeout_s=PATIENCE_S) for host in machines.answering]
        assert all(isinstance(model, HostModel) for model in models)
