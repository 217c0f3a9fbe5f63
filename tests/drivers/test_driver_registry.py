"""Drivers are found by name, in the tree and outside, get the options they declare, and serve hypervisor types."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from bulkdeploy.drivers.abilities.consoles import VncConsoles
from bulkdeploy.drivers.installed import UnknownDriver, UnusableDriver
from bulkdeploy.drivers.options import WrongDriverOptions
from bulkdeploy.drivers.registry import (
    INSTALLED,
    NoDriverFor,
    configure_drivers,
)
from bulkdeploy.drivers.simulator.driver import SimulatorDriver

OUTSIDER = '''
from pydantic import Field, SecretStr

from bulkdeploy.drivers.abilities.consoles import SerialConsoles, VncConsoles
from bulkdeploy.drivers.driver import HypervisorDriver
from bulkdeploy.drivers.options import DriverOptions

MADE = []


class OutsiderOptions(DriverOptions):
    speed: int = Field(default=1, ge=1)
    password: SecretStr = SecretStr("")
    hosts: list[str] = []
    stubborn: bool = False


class Outsider(VncConsoles, HypervisorDriver):
    """Remembers what it was made with and whether it was closed."""

    options_model = OutsiderOptions

    @classmethod
    def from_options(cls, options):
        made = cls()
        made.options, made.closed = options, False
        MADE.append(made)
        return made

    def close(self):
        self.closed = True
        if self.options.stubborn:
            raise OSError("will not close")


Outsider.__abstractmethods__ = frozenset()  # its calls are no matter here


class Zealot(Outsider):
    @classmethod
    def from_options(cls, options):
        raise ValueError("will not begin")


class Unfinished(Outsider, SerialConsoles):
    pass


def no_class(options):
    return None
'''


DECLARING = """
from bulkdeploy.drivers.driver import HypervisorDriver


class Declares(HypervisorDriver):
    abilities = frozenset({"live migration"})
"""


@pytest.fixture
def _outsider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package of someone else's that provides drivers."""
    (tmp_path / "outsider_driver.py").write_text(OUTSIDER)
    (tmp_path / "declaring_driver.py").write_text(DECLARING)
    (tmp_path / "earlier_driver.py").write_text("from bulkdeploy.drivers.abilities import Ability\n")
    metadata = tmp_path / "outsider_driver-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: outsider-driver\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[bulkdeploy.drivers]\noutsider = outsider_driver:Outsider\nzealot = outsider_driver:Zealot\n"
        "simulator = outsider_driver:Outsider\nmeek = outsider_driver:Outsider\n"
        "unfinished = outsider_driver:Unfinished\ndeclares = declaring_driver:Declares\n"
        "earlier = earlier_driver:Earlier\n"
        "no_class = outsider_driver:no_class\nlost = outsider_driver_that_is_gone:Driver\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "outsider_driver", raising=False)


@pytest.fixture
def options(simulator_url: str) -> dict[str, dict[str, object]]:
    """What the in-tree driver needs."""
    return {"simulator": {"url": simulator_url, "pool_size": 1}}


def test_one_driver_serves_every_type_by_default(options: dict[str, dict[str, object]]) -> None:
    """With a default alone every hypervisor type gets the same object."""
    drivers = configure_drivers({"default": "simulator"}, options)
    assert isinstance(drivers.driver_for("KVM"), SimulatorDriver)
    assert drivers.driver_for("KVM") is drivers.driver_for("VMware")
    assert len(list(drivers)) == 1
    drivers.close()


@pytest.mark.usefixtures("_outsider")
def test_a_type_can_have_a_driver_from_outside(options: dict[str, dict[str, Any]]) -> None:
    """An entry point's driver gets its options and is chosen for its type, in any case."""
    given = {**options, "outsider": {"speed": "3", "hosts": '["a", "b"]'}}
    drivers = configure_drivers({"KVM": "outsider", "default": "simulator"}, given)
    theirs = drivers.driver_for("kvm")
    assert type(theirs).__name__ == "Outsider"
    assert (vars(theirs)["options"].speed, vars(theirs)["options"].hosts) == (3, ["a", "b"])
    assert isinstance(drivers.driver_for("XenServer"), SimulatorDriver)
    assert len(list(drivers)) == 2
    drivers.close()
    assert vars(theirs)["closed"]


@pytest.mark.usefixtures("_outsider")
def test_what_a_driver_can_do_is_known_before_it_is_made() -> None:
    """Settings are read and abilities told without a hypervisor: nothing is made until somebody asks for it."""
    drivers = configure_drivers({"KVM": "outsider"}, {})
    made = importlib.import_module("outsider_driver").MADE
    configured = drivers.configured_for("KVM")
    assert (configured.name, configured.abilities, made) == ("outsider", frozenset({VncConsoles}), [])
    drivers.close()
    assert made == []
    assert drivers.driver_for("KVM") is drivers.driver_for("kvm")
    assert len(made) == 1


@pytest.mark.usefixtures("_outsider")
def test_an_entry_point_cannot_replace_a_driver_in_the_tree(options: dict[str, dict[str, Any]]) -> None:
    """An entry point with an in-tree name is not used."""
    drivers = configure_drivers({"default": "simulator"}, options)
    assert isinstance(drivers.driver_for("KVM"), SimulatorDriver)
    drivers.close()


@pytest.mark.usefixtures("_outsider")
def test_an_unknown_driver_is_named_with_its_setting_and_those_there_are() -> None:
    """A wrong name in the settings is an error at the start that says what would be right."""
    assert set(INSTALLED.names()) >= {"outsider", "simulator", "zealot"}
    assert {"driver", "registry", "contract"}.isdisjoint(INSTALLED.names())
    with pytest.raises(UnknownDriver, match=r"drivers\.KVM: there is no driver named 'kvmm'.*outsider, simulator"):
        configure_drivers({"KVM": "kvmm"}, {})
    with pytest.raises(UnknownDriver, match=r"driver\.outsidre: there is no driver named 'outsidre'"):
        configure_drivers({"KVM": "outsider"}, {"outsidre": {"speed": 3}})


@pytest.mark.usefixtures("_outsider")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_class", "no subclass of HypervisorDriver"),
        ("lost", "No module named"),
        ("unfinished", "Unfinished does not implement open_serial_console"),
        ("declares", "Declares sets abilities. A driver inherits its abilities instead"),
        ("earlier", "cannot import name 'Ability' .*CHANGELOG.md lists what drivers must change"),
    ],
)
def test_what_is_no_driver_is_an_error_with_the_reason(name: str, why: str) -> None:
    """An entry point that cannot be loaded, or is none, is an error that names setting and reason."""
    with pytest.raises(UnusableDriver, match=rf"drivers\.KVM: driver '{name}' cannot be used: .*{why}"):
        configure_drivers({"KVM": name}, {})


@pytest.mark.usefixtures("_outsider")
def test_wrong_options_are_all_named_and_not_shown() -> None:
    """One error has every option that is wrong, as it stands in the file and in the environment, without values."""
    wrong = {"speed": "0", "sped": 7, "hosts": "s3cret"}
    with pytest.raises(WrongDriverOptions) as refused:
        configure_drivers({"KVM": "outsider"}, {"outsider": wrong})
    assert set(refused.value.problems) == {"speed", "sped", "hosts"}
    text = str(refused.value)
    assert "driver.outsider.speed (BULKDEPLOY_DRIVER__OUTSIDER__SPEED): " in text
    assert "greater than or equal to 1" in text
    assert "s3cret" not in text


@pytest.mark.usefixtures("_outsider")
def test_a_secret_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    """Its name with _file names the file; the line's end is no part of it, and nothing shows it."""
    file = tmp_path / "password"
    file.write_text(" s3cret \n")
    drivers = configure_drivers({"KVM": "outsider"}, {"outsider": {"password_file": str(file)}})
    made = vars(drivers.driver_for("KVM"))["options"]
    assert made.password.get_secret_value() == " s3cret "
    assert "s3cret" not in repr(made)


@pytest.mark.usefixtures("_outsider")
def test_a_secret_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A file that is not there, and an option given twice, are named."""
    gone = {"password_file": str(tmp_path / "gone")}
    with pytest.raises(WrongDriverOptions, match=r"driver\.outsider\.password_file .*: the file cannot be read"):
        configure_drivers({"KVM": "outsider"}, {"outsider": gone})
    with pytest.raises(WrongDriverOptions, match="password is given as well"):
        configure_drivers({"KVM": "outsider"}, {"outsider": {**gone, "password": "s3cret"}})


@pytest.mark.parametrize("hypervisor", ["KVM", "VMware"])
def test_a_type_without_a_driver_is_an_error_that_names_the_setting(hypervisor: str) -> None:
    """Without a default, other hypervisor types are refused."""
    drivers = configure_drivers({}, {})
    with pytest.raises(NoDriverFor) as refused:
        drivers.driver_for(hypervisor)
    for word in (f"drivers.{hypervisor}", f"BULKDEPLOY_DRIVERS__{hypervisor.upper()}", "[driver.NAME]"):
        assert word in str(refused.value)


@pytest.mark.usefixtures("_outsider")
def test_drivers_made_before_a_failure_are_closed() -> None:
    """When the second cannot be made, the first does not keep its connections."""
    drivers = configure_drivers({"KVM": "outsider", "VMware": "zealot"}, {})
    with pytest.raises(ValueError, match="will not begin"):
        drivers.make_all()
    made = importlib.import_module("outsider_driver").MADE
    assert [driver.closed for driver in made] == [True]


@pytest.mark.usefixtures("_outsider")
@pytest.mark.parametrize("names", [("outsider", "meek"), ("meek", "outsider")])
def test_one_that_will_not_close_does_not_keep_others_open(names: tuple[str, str]) -> None:
    """Every driver is closed, then the error is told."""
    drivers = configure_drivers(dict(zip(("KVM", "VMware"), names, strict=True)), {"outsider": {"stubborn": True}})
    made = drivers.make_all()
    with pytest.raises(OSError, match="will not close"):
        drivers.close()
    assert [vars(driver)["closed"] for driver in made] == [True, True]
