"""Drivers are found by name, in the tree and outside, and shared between hypervisor types."""

import importlib
import sys
from pathlib import Path

import pytest

from bulkdeploy.drivers.registry import Drivers, NoDriverFor, UnknownDriver, build_drivers
from bulkdeploy.drivers.simulator import SimulatorDriver

OUTSIDER = '''
MADE = []


class Outsider:
    """Remembers what it was made with and whether it was closed."""

    def __init__(self, options):
        self.options, self.closed = options, False
        MADE.append(self)

    def close(self):
        self.closed = True
        if self.options.get("stubborn"):
            raise OSError("will not close")


def refuse(options):
    raise ValueError("bad options")
'''


@pytest.fixture
def outsider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package of someone else's that provides two drivers."""
    (tmp_path / "outsider_driver.py").write_text(OUTSIDER)
    metadata = tmp_path / "outsider_driver-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: outsider-driver\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[bulkdeploy.drivers]\noutsider = outsider_driver:Outsider\n"
        "zealot = outsider_driver:refuse\nsimulator = outsider_driver:Outsider\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "outsider_driver", raising=False)


@pytest.fixture
def options(simulator_url: str) -> dict[str, dict[str, object]]:
    """What the in-tree driver needs."""
    return {"simulator": {"url": simulator_url, "pool_size": 1}}


def test_one_driver_serves_every_type_by_default(options: dict[str, dict[str, object]]) -> None:
    """With a default alone every hypervisor type gets the same object."""
    drivers = build_drivers({"default": "simulator"}, options)
    assert isinstance(drivers.driver_for("KVM"), SimulatorDriver)
    assert drivers.driver_for("KVM") is drivers.driver_for("VMware")
    assert len(list(drivers)) == 1
    drivers.close()


@pytest.mark.usefixtures("outsider")
def test_a_type_can_have_a_driver_from_outside(options: dict[str, dict[str, object]]) -> None:
    """An entry point's driver gets its options and is chosen for its type, in any case."""
    drivers = build_drivers({"KVM": "outsider", "default": "simulator"}, {**options, "outsider": {"speed": 3}})
    theirs = drivers.driver_for("kvm")
    assert type(theirs).__name__ == "Outsider"
    assert vars(theirs)["options"] == {"speed": 3}
    assert isinstance(drivers.driver_for("XenServer"), SimulatorDriver)
    assert len(list(drivers)) == 2
    drivers.close()
    assert vars(theirs)["closed"]


@pytest.mark.usefixtures("outsider")
def test_nobody_replaces_a_driver_of_the_tree(options: dict[str, dict[str, object]]) -> None:
    """An entry point with an in-tree name is not used."""
    drivers = build_drivers({"default": "simulator"}, options)
    assert isinstance(drivers.driver_for("KVM"), SimulatorDriver)
    drivers.close()


@pytest.mark.usefixtures("outsider")
def test_an_unknown_driver_is_named_with_those_there_are() -> None:
    """A wrong name in the settings is an error at the start that says what would be right."""
    with pytest.raises(UnknownDriver, match=r"no driver named 'kvmm'.*outsider, simulator, zealot"):
        build_drivers({"KVM": "kvmm"}, {})


def test_a_type_without_a_driver_is_an_error() -> None:
    """Without a default, other hypervisor types are refused."""
    drivers = build_drivers({}, {})
    with pytest.raises(NoDriverFor, match="'KVM'"):
        drivers.driver_for("KVM")


@pytest.mark.usefixtures("outsider")
def test_drivers_made_before_a_failure_are_closed() -> None:
    """When the second cannot be made, the first does not keep its connections."""
    with pytest.raises(ValueError, match="bad options"):
        build_drivers({"KVM": "outsider", "VMware": "zealot"}, {})
    made = importlib.import_module("outsider_driver").MADE
    assert [driver.closed for driver in made] == [True]


@pytest.mark.usefixtures("outsider")
def test_one_that_will_not_close_does_not_keep_others_open() -> None:
    """Every driver is closed, then the error is told."""
    first = build_drivers({"KVM": "outsider"}, {"outsider": {"stubborn": True}}).driver_for("KVM")
    second = build_drivers({"KVM": "outsider"}, {}).driver_for("KVM")
    with pytest.raises(OSError, match="will not close"):
        Drivers({"KVM": second, "VMware": first}).close()
    assert vars(first)["closed"]
    assert vars(second)["closed"]
