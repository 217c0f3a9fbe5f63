"""The driver for executables of CloudStack's Extension protocol, with one that fails in every way."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import (
    Caller,
    DeclaredOffContract,
    DriverContract,
    FencingContract,
    HostContract,
    LeftoversContract,
    Machines,
    Outage,
    OutageContract,
    Rig,
    Subjects,
    VncConsoleContract,
    guests_of,
    open_screen,
)
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.extension.check import check_extension
from bulkdeploy.drivers.extension.driver import ExtensionDriver
from bulkdeploy.drivers.extension.options import ExtensionOptions
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import LAST_FENCE
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.drivers.vnc_server import vnc_server
from tests.support.runs.waiting import PATIENCE_S

SHELF = Path(__file__).with_name("extension_shelf.py")
SIZES = "cores=16&mhz=2000&memory=65536"
SECRET = "a-very-secret-token"
VNC_PASSWORD = "PVEVNC:6329C6AA::ZPcs5MT"
"""As Proxmox VE gives them: VNC looks at eight letters."""

URLS = tuple(f"extension://{name}?{SIZES}&node={name}" for name in ("left", "right"))


def write_program(shelf: Path) -> Path:
    """The extension, as a program of its own."""
    program = shelf / "extension"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SE "{SHELF}" "$@"\n')
    program.chmod(0o755)
    return program


@contextmanager
def shelf_driver(engine: Engine, shelf: Path, **actions: bool) -> Iterator[Rig]:
    """Two hosts of an empty shelf; ``actions``: which optional actions the extension has."""
    program = write_program(shelf)
    options = ExtensionOptions.model_validate(
        {"executable": program, "details": {"shelf": str(shelf), "token": SECRET}, **actions}
    )
    driver = ExtensionDriver.from_options(options)
    subjects = Subjects(volumes=1)
    hosts = tuple(HostAddress(uuid4(), url[12:16], "127.0.0.1", "External", url) for url in URLS)
    kept = records_in(engine, lambda _: True)
    driver.use_records(replace(kept, directory=FixedDirectory(hosts, shared_pool(subjects.pool_uuid))))

    def fail_next(step: str) -> None:
        fault(shelf, {"boot": "create"}.get(step, step), "refuse")

    with vnc_server(VNC_PASSWORD, lambda: " ".join(shelved(shelf))) as port:
        name_screen(shelf, host="127.0.0.1", port=str(port), password=VNC_PASSWORD, protocol="vnc")
        yield Rig(
            driver,
            hosts,
            fail_next,
            start_steps=("boot",),
            subjects=subjects,
            release=lambda guest: kept.fences.release(guest, LAST_FENCE),
        )
    driver.close()


@pytest.fixture
def rig(engine: Engine, tmp_path: Path) -> Iterator[Rig]:
    """Two hosts of an empty shelf."""
    with shelf_driver(engine, tmp_path, statuses=True) as made:
        yield made


def fault(shelf: Path, action: str, how: str) -> None:
    """Let the next of these actions fail."""
    with (shelf / "faults").open("a") as faults:
        faults.write(f"{action} {how}\n")


def name_screen(shelf: Path, **console: str) -> None:
    """What getconsole answers from now on."""
    (shelf / "screen").write_text(json.dumps(console))


def shelved(shelf: Path) -> dict[str, str]:
    """The guests on the shelf."""
    return {page.stem: page.read_text() for page in shelf.glob("*.guest")}


@pytest.mark.long
class TestExtension(
    DriverContract,
    FencingContract,
    HostContract,
    VncConsoleContract,
    DeclaredOffContract,
    OutageContract,
    LeftoversContract,
):
    """Guests with a root disk on two hosts of one shelf."""

    @pytest.fixture
    def outage(self, tmp_path: Path) -> Outage:
        """The executable fails for every action about a silent node."""
        silent = tmp_path / "silent"

        def cut_off(host: HostAddress) -> None:
            silent.write_text(str(host.url).partition("node=")[2])

        return Outage(cut_off, lambda _: silent.unlink())

    @pytest.fixture
    def traces(self, tmp_path: Path) -> Callable[[], set[str]]:
        """What lies on the shelf; the faults that are to come are the tests'."""
        return lambda: {str(path) for path in tmp_path.rglob("*")} - {str(tmp_path / "faults")}

    @pytest.fixture
    def machines(self) -> Machines:
        """Two that answer, and one that no extension is asked for."""
        promise = HostPromise(Decimal(1), Decimal(1), guests_limit=50)
        left, right, silent = (
            NewHost(uuid4(), "External", HostAccess(url), promise) for url in (*URLS, "http://nobody")
        )
        return Machines((left, right), silent)


@pytest.mark.parametrize(
    ("action", "how"),
    [
        *(("prepare", how) for how in ("lost", "garbage", "half", "early")),
        *(("create", how) for how in ("lost", "early")),
    ],
)
def test_an_answer_that_nobody_understood_makes_no_second_guest(
    rig: Rig, tmp_path: Path, action: str, how: str
) -> None:
    """The call is made anew, and the guest exists once and runs."""
    guest, caller = rig.new_guest(), Caller(rig.driver)
    fault(tmp_path, action, how)
    with pytest.raises(DriverError):
        caller.run(rig.hosts[0], guest)
    caller.run(rig.hosts[0], guest)
    assert shelved(tmp_path) == {guest.name: "PowerOn"}
    caller.remove(rig.hosts[0], guest)
    assert (shelved(tmp_path), rig.volumes()) == ({}, set())


@pytest.mark.parametrize("how", ["garbage", "half"])
def test_plain_text_of_an_action_that_is_not_read_is_fine(rig: Rig, tmp_path: Path, how: str) -> None:
    """As for CloudStack, the exit code says how the action ended."""
    guest, caller = rig.new_guest(), Caller(rig.driver)
    for action in ("create", "stop", "start", "delete"):
        fault(tmp_path, action, how)
    caller.run(rig.hosts[0], guest)
    caller.stop(rig.hosts[0], guest)
    caller.run(rig.hosts[0], guest)
    caller.remove(rig.hosts[0], guest)
    assert (shelved(tmp_path), (tmp_path / "faults").read_text()) == ({}, "")


@pytest.mark.parametrize("how", ["lost", "early"])
@pytest.mark.parametrize("called", ["stop", "remove"])
def test_what_follows_a_lost_creation_leaves_nothing_running(
    rig: Rig, tmp_path: Path, called: str, how: str
) -> None:
    """Whether the guest was made or not: stopped it does not run, removed it is gone."""
    guest, caller = rig.new_guest(), Caller(rig.driver)
    fault(tmp_path, "create", how)
    with pytest.raises(DriverError) as failed:
        caller.run(rig.hosts[0], guest)
    if called == "stop":
        caller.stop(rig.hosts[0], guest)
        assert "PowerOn" not in shelved(tmp_path).values()
        caller.run(rig.hosts[1], guest)
        assert guests_of(rig.driver)[guest.uuid].host_uuid == rig.hosts[1].uuid
    caller.remove(None, guest)
    assert (failed.value.step, shelved(tmp_path)) == ("boot", {})


@pytest.mark.parametrize(("how", "says"), [("hang", "took too long"), ("flood", "printed more than")])
def test_an_action_that_does_not_end_is_killed(rig: Rig, tmp_path: Path, how: str, says: str) -> None:
    """Its time and what it prints are limited; it may have been done all the same."""
    guest = rig.new_guest()
    fault(tmp_path, "create", how)
    for timeout_s in (2.0, 30.0, 600.0) if how == "hang" else (600.0,):
        with pytest.raises(DriverError, match=says) as failed:
            Caller(rig.driver, timeout_s=timeout_s).run(rig.hosts[0], guest)
        assert (failed.value.unanswered, failed.value.transient) == (True, True)
        if not (tmp_path / "faults").read_text():
            break  # on a busy machine the program may be killed before it reads its fault
    Caller(rig.driver).run(rig.hosts[0], guest)
    assert shelved(tmp_path) == {guest.name: "PowerOn"}


def test_another_host_sees_what_the_guests_of_a_silent_host_write(engine: Engine, tmp_path: Path) -> None:
    """The mark changes with their disks alone; a look that fails or answers nothing is an error."""
    with shelf_driver(engine, tmp_path, activity=True) as rig:
        silent, other = rig.hosts
        guests = [rig.new_guest(), rig.new_guest()]
        for host, guest in zip(rig.hosts, guests, strict=True):
            Caller(rig.driver).run(host, guest)
        marks = []
        for written in guests:
            marks.append(rig.driver.activity_mark(silent, other, [], timeout_s=30))
            (tmp_path / f"{written.name}.disk").write_text("1")
        marks.append(rig.driver.activity_mark(silent, other, [], timeout_s=30))
        assert marks == ["left", "left 1", "left 1"]
        fault(tmp_path, "activity", "refuse")
        with pytest.raises(DriverError, match="out of paper"):
            rig.driver.activity_mark(silent, other, [], timeout_s=30)
        fault(tmp_path, "activity", "idle")
        with pytest.raises(DriverError, match="must contain mark"):
            rig.driver.activity_mark(silent, other, [], timeout_s=30)
    with shelf_driver(engine, tmp_path) as rig:
        silent, other = rig.hosts
        assert rig.driver.activity_mark(silent, other, [], timeout_s=30) is None


def test_refusals_say_why_without_secrets(rig: Rig, tmp_path: Path) -> None:
    """What the extension says is shown, and its token is not; it is run with PATH and LANG alone."""
    fault(tmp_path, "create", "refuse")
    with pytest.raises(DriverError) as failed:
        Caller(rig.driver).run(rig.hosts[0], rig.new_guest())
    assert str(failed.value) == "boot failed on host left: create: exit code 1: out of paper, token ****"
    known = {name for line in (tmp_path / "log").read_text().splitlines() for name in line.split()[1:]}
    assert known - {"PWD", "SHLVL", "_", "LC_CTYPE"} == {
        "LANG",
        "PATH",
    }  # the others are the shell's and Python's own


@pytest.mark.parametrize("statuses", [True, False])
def test_a_guest_that_ended_by_itself_is_stopped(engine: Engine, tmp_path: Path, statuses: bool) -> None:
    """Its host is known, it does not run, and the same call starts it as it is."""
    with shelf_driver(engine, tmp_path, statuses=statuses) as rig:
        guest, caller = rig.new_guest(), Caller(rig.driver)
        caller.run(rig.hosts[0], guest)
        (tmp_path / f"{guest.name}.guest").write_text("PowerOff")
        assert caller.look(rig.hosts[0], guest) is PowerState.STOPPED
        assert guests_of(rig.driver)[guest.uuid].power is PowerState.STOPPED
        caller.run(rig.hosts[0], guest)
    assert shelved(tmp_path) == {guest.name: "PowerOn"}
    actions = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert (actions.count("create"), actions.count("start")) == (1, 1)


def test_what_runs_already_under_a_prepared_identity_is_not_touched(rig: Rig, tmp_path: Path) -> None:
    """A guest that is not ours keeps running, whatever happens to the one that was to have its name."""
    guest, caller = rig.new_guest(), Caller(rig.driver)
    (tmp_path / f"{guest.name}.guest").write_text("PowerOn")
    with pytest.raises(DriverError, match="identity of a running guest") as failed:
        caller.run(rig.hosts[0], guest)
    caller.remove(None, guest)
    assert (failed.value.transient, shelved(tmp_path)) == (True, {guest.name: "PowerOn"})


@pytest.mark.parametrize(
    ("console", "says"),
    [
        (
            {"protocol": "direct", "url": "https://pve/console"},
            "a web page, which the service cannot show: https://pve/console",
        ),
        ({"protocol": "spice", "host": "127.0.0.1", "port": "1"}, "protocol must be vnc"),
        ({"protocol": "vnc", "host": "127.0.0.1"}, "must have host and port"),
        ({"protocol": "vnc", "host": "127.0.0.1", "port": "1"}, "VNC server at 127.0.0.1, port 1"),
    ],
)
def test_why_there_is_no_screen_is_said(rig: Rig, tmp_path: Path, console: dict[str, str], says: str) -> None:
    """What the extension answered, or what did not answer there."""
    guest = rig.new_guest()
    Caller(rig.driver).run(rig.hosts[0], guest)
    name_screen(tmp_path, **console)
    with pytest.raises(DriverError, match=says):
        open_screen(rig, rig.hosts[0], guest.uuid)


def test_a_guest_of_which_nothing_is_known_counts_as_running(rig: Rig, tmp_path: Path) -> None:
    """Its host is looked at; a list, with which rows are compared, is refused."""
    guest = rig.new_guest()
    Caller(rig.driver).run(rig.hosts[0], guest)
    (tmp_path / f"{guest.name}.guest").write_text("migrating")
    looks = rig.driver.look_at_hosts(rig.hosts, timeout_s=30)
    assert [[(one.uuid, one.power) for one in of_host] for of_host in looks if isinstance(of_host, list)] == [
        [(guest.uuid, PowerState.RUNNING)],
        [],
    ]
    with pytest.raises(DriverError, match="is unknown"):
        list(rig.driver.list_guests())


def test_hosts_that_do_not_answer_are_told_from_a_program_that_is_gone(rig: Rig, tmp_path: Path) -> None:
    """The first is the host's silence; for the second no host is to blame."""
    fault(tmp_path, "statuses", "refuse")
    silent = rig.driver.look_at_hosts(rig.hosts[:1], timeout_s=30)
    assert [isinstance(one, DriverError) for one in silent] == [True]
    (tmp_path / "extension").unlink()
    with pytest.raises(DriverError, match="cannot be run"):
        rig.driver.look_at_hosts(rig.hosts, timeout_s=30)


def checked(shelf: Path, patience_s: float = PATIENCE_S) -> tuple[list[str], str]:
    """Return the actions that the check found right, and what it reported of the one that was wrong."""
    options = ExtensionOptions.model_validate(
        {"executable": write_program(shelf), "details": {"shelf": str(shelf)}}
    )
    needs = list(check_extension(URLS[0], options, None, patience_s))
    assert shelved(shelf) == {}
    wrong = [f"{need.name}: {need.found}" for need in needs if need.remedy is not None]
    return [need.name for need in needs if need.remedy is None], "".join(wrong)


def test_the_check_passes_an_executable_that_does_all(tmp_path: Path) -> None:
    """Each action once, and deleting twice; guests without screens are no fault."""
    found, wrong = checked(tmp_path)
    assert wrong == ""
    assert found == [
        "no-such-action", "statuses", "prepare", "create", "stop", "start", "reboot", "getconsole",
        "stop, before delete", "delete", "delete, again",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("action", "how", "says"),
    [
        ("no-such-action", "hang", "no-such-action: no-such-action: it took too long, and was killed"),
        ("statuses", "garbage", "statuses: statuses: the output is not JSON: {'what"),
        ("prepare", "half", 'prepare: prepare: the output is not JSON: {"status": "suc'),
        ("create", "refuse", "create: create: exit code 1: out of paper"),
        ("create", "flood", "create: create: it printed more than 1048576 bytes, and was killed"),
        ("create", "lost", "create: create: killed by signal 9: no output"),
        ("status", "early", "create: status: killed by signal 9: no output"),
        ("status", "idle", "create: after create, status must report poweron, not None"),
        ("stop", "idle", "stop: after stop, status must report poweroff, not 'PowerOn'"),
        ("getconsole", "idle", "getconsole: console must be an object, not None"),
        ("delete", "idle", "delete: after delete, status must report unknown, not 'PowerOff'"),
    ],
)
def test_the_check_names_what_is_wrong(tmp_path: Path, action: str, how: str, says: str) -> None:
    """The action, what it did, and nothing is left of the guest."""
    fault(tmp_path, action, how)
    # Cleaning up may take long on a machine under load; only a program that hangs is to be killed soon.
    assert checked(tmp_path, 2.0 if how == "hang" else PATIENCE_S)[1].startswith(says)
