"""Power drivers speak to real controllers on the loopback interface: sushy-tools' Redfish, pyghmi's IPMI.

Controllers reject passwords, hang, lie about the power state and have certificates of unknown authorities.
"""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.drivers.installed import UnknownDriver
from bulkdeploy.power.driver import Bmc, PowerError
from bulkdeploy.power.registry import PowerDrivers
from tests.support.power.ipmi_server import ipmi
from tests.support.power.redfish_servers import PASSWORD, USER, Server, redfish
from tests.support.processes.certificates import self_signed

TIMEOUT_S = 20
PLAIN = PowerDrivers({"redfish": {"https": False, "tries": 1}, "ipmitool": {"tries": 1, "answer_seconds": 1}})

needs_ipmitool = pytest.mark.skipif(shutil.which("ipmitool") is None, reason="Debian's package ipmitool is needed")


def bmc(port: int, *, address: str = "127.0.0.1", user: str = USER, password: str = PASSWORD) -> Bmc:
    """A controller on the loopback interface."""
    return Bmc(uuid4(), "node1", address, port, user, password)


@pytest.fixture(params=["redfish", pytest.param("ipmitool", marks=needs_ipmitool)])
def driver(request: pytest.FixtureRequest) -> str:
    """Each driver."""
    return str(request.param)


@contextmanager
def controller(driver: str, folder: Path, *, ignores: bool = False) -> Iterator[int]:
    """A controller of a driver, whose server is on."""
    with ExitStack() as stack:
        if driver == "ipmitool":
            if ignores:
                (folder / "ignores").touch()
            yield stack.enter_context(ipmi(folder, PASSWORD))
        else:
            yield stack.enter_context(redfish({"node1": Server(ignores=ignores)}))


def test_power_is_switched_and_reported(driver: str, tmp_path: Path) -> None:
    """Every action has its effect, and one that is repeated has no further one."""
    with controller(driver, tmp_path) as port:
        subject = bmc(port)
        for action, expected in (
            (PowerAction.OFF, PowerState.OFF),
            (PowerAction.OFF, PowerState.OFF),
            (PowerAction.ON, PowerState.ON),
            (PowerAction.ON, PowerState.ON),
            (PowerAction.RESET, PowerState.ON),
            (PowerAction.CYCLE, PowerState.ON),
            (PowerAction.SOFT, PowerState.OFF),
        ):
            PLAIN.act(driver, subject, action, timeout_s=TIMEOUT_S)
            assert PLAIN.power_state(driver, subject, timeout_s=TIMEOUT_S) is expected, action


def test_a_controller_that_does_nothing_is_not_believed(driver: str, tmp_path: Path) -> None:
    """An accepted action is no power state."""
    with controller(driver, tmp_path, ignores=True) as port:
        PLAIN.act(driver, bmc(port), PowerAction.OFF, timeout_s=TIMEOUT_S)
        assert PLAIN.power_state(driver, bmc(port), timeout_s=TIMEOUT_S) is PowerState.ON


def test_wrong_passwords_are_named_as_such_and_never_shown(driver: str, tmp_path: Path) -> None:
    """The error says that the login failed, and does not repeat the password."""
    with controller(driver, tmp_path) as port:
        for action in (
            lambda: PLAIN.power_state(driver, bmc(port, password="wr0ngsecret"), timeout_s=TIMEOUT_S),
            lambda: PLAIN.act(driver, bmc(port, password="wr0ngsecret"), PowerAction.OFF, timeout_s=TIMEOUT_S),
        ):
            with pytest.raises(PowerError) as raised:
                action()
            assert raised.value.is_auth, raised.value
            assert "wr0ngsecret" not in str(raised.value)
        assert PLAIN.power_state(driver, bmc(port), timeout_s=TIMEOUT_S) is PowerState.ON


def test_an_address_without_a_controller_does_not_answer(driver: str) -> None:
    """Port 1 of this machine: no answer, in time."""
    with pytest.raises(PowerError) as raised:
        PLAIN.power_state(driver, bmc(1), timeout_s=3)
    assert raised.value.is_unanswered, raised.value


def test_a_controller_that_hangs_is_given_up_on(driver: str) -> None:
    """It accepts connections, or packets, and never answers; another call meanwhile fails at once."""
    kind = socket.SOCK_DGRAM if driver == "ipmitool" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as silent:
        silent.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            silent.listen()
        subject = bmc(silent.getsockname()[1])
        with pytest.raises(PowerError) as raised:
            PLAIN.act(driver, subject, PowerAction.OFF, timeout_s=1)
        assert raised.value.is_unanswered, raised.value


def test_a_controller_that_answers_one_byte_at_a_time_is_given_up_on() -> None:
    """No read ever times out, and the call ends all the same; the next one does not wait behind it."""
    ended = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            while not ended.wait(0.2):
                connection.send(b"H")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,))
        dripping.start()
        subject = bmc(listener.getsockname()[1])
        for expected in ("no answer within 1 s", "an earlier call has not ended yet"):
            with pytest.raises(PowerError, match=expected):
                PLAIN.power_state("redfish", subject, timeout_s=1)
        ended.set()
        dripping.join()


def test_states_that_are_neither_on_nor_off_are_unknown() -> None:
    """PoweringOff is not Off."""
    with redfish({"node1": Server(lies="PoweringOff")}) as port:
        assert PLAIN.power_state("redfish", bmc(port), timeout_s=TIMEOUT_S) is PowerState.UNKNOWN


def test_a_controller_of_several_systems_needs_a_name() -> None:
    """The wrong server never loses its power: without a name nothing is done."""
    servers = {"left": Server(), "right": Server()}
    with redfish(servers) as port:
        for address, why in (("127.0.0.1", "must name one"), ("127.0.0.1/middle", "not found")):
            with pytest.raises(PowerError, match=why):
                PLAIN.act("redfish", bmc(port, address=address), PowerAction.OFF, timeout_s=TIMEOUT_S)
        PLAIN.act("redfish", bmc(port, address="127.0.0.1/right"), PowerAction.OFF, timeout_s=TIMEOUT_S)
    assert (servers["left"].is_on, servers["right"].is_on) == (True, False)


def test_certificates_are_checked_unless_switched_off(tmp_path: Path) -> None:
    """A certificate of an unknown authority is refused; the CA file of the settings makes it known."""
    tls = self_signed(tmp_path)
    with redfish({"node1": Server()}, tls) as port:
        subject = bmc(port, address="localhost")
        with pytest.raises(PowerError, match="certificate verify failed"):
            PowerDrivers({"redfish": {"tries": 1}}).power_state("redfish", subject, timeout_s=TIMEOUT_S)
        for options in ({"ca_file": str(tls[0])}, {"verify": False}):
            found = PowerDrivers({"redfish": options}).power_state("redfish", subject, timeout_s=TIMEOUT_S)
            assert found is PowerState.ON
        other = bmc(port, address="127.0.0.1")  # not the name in the certificate
        with pytest.raises(PowerError, match="certificate"):
            PowerDrivers({"redfish": {"ca_file": str(tls[0])}}).power_state("redfish", other, timeout_s=TIMEOUT_S)


@needs_ipmitool
@pytest.mark.parametrize("password", ["Password12345", "; rm -rf / #", "a\"b'c $(x)", "0123456789012345678"])
def test_passwords_are_changed_whatever_is_in_them(tmp_path: Path, password: str) -> None:
    """No character of a password has a meaning to ipmitool or to a shell; longer ones are refused."""
    with ipmi(tmp_path, PASSWORD) as port:
        PLAIN.change_password("ipmitool", bmc(port), password, timeout_s=TIMEOUT_S)
        assert (tmp_path / "password").read_text() == password
        with pytest.raises(PowerError, match="at most 20 bytes"):
            PLAIN.change_password("ipmitool", bmc(port, password=password), "x" * 21, timeout_s=TIMEOUT_S)


@needs_ipmitool
def test_arguments_of_ipmitool_stay_values(tmp_path: Path) -> None:
    """An address or a user that looks like an option is sent as it is."""
    with ipmi(tmp_path, PASSWORD) as port:
        for given in ({"user": "-V"}, {"user": "--help"}, {"address": "-h"}):
            with pytest.raises(PowerError):
                PLAIN.power_state("ipmitool", bmc(port, **given), timeout_s=5)


OTHERS = "class NoDriver: ..."


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PowerDrivers:
    """An installed package whose entry points are no power drivers, or cannot be imported."""
    (tmp_path / "other_power.py").write_text(OTHERS)
    info = tmp_path / "other_power-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-power\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[bulkdeploy.power_drivers]\nodd = other_power:NoDriver\nlost = other_power_that_is_gone:Driver\n"
        "redfish = other_power:NoDriver\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return PowerDrivers({"redfish": {"tries": "many"}})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("odd", "no subclass of PowerDriver"),
        ("lost", "No module named 'other_power_that_is_gone'"),
        ("none", "installed are: ipmitool, lost, odd, redfish, simulator"),
        ("redfish", r"power\.redfish\.tries \(BULKDEPLOY_POWER__REDFISH__TRIES\)"),
    ],
)
def test_a_driver_that_cannot_be_used_fails_its_calls_with_the_reason(
    others: PowerDrivers, name: str, why: str
) -> None:
    """A wrong entry point or option is a PowerError that names it; a driver of the tree cannot be replaced."""
    with pytest.raises(PowerError, match=why):
        others.power_state(name, bmc(1), timeout_s=1)


def test_options_of_unknown_drivers_are_refused() -> None:
    """A typing error in the settings is found when a process starts."""
    with pytest.raises(UnknownDriver, match="installed are: ipmitool, redfish, simulator"):
        PowerDrivers({"redfsh": {}})
