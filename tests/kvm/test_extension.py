"""The example extension runs real guests under QEMU, and keeps the contract of drivers."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import (
    DriverContract,
    FencingContract,
    HostContract,
    Machines,
    Rig,
    Subjects,
    VncConsoleContract,
)
from bulkdeploy.drivers.extension.driver import ExtensionDriver
from bulkdeploy.drivers.extension.options import ExtensionOptions
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost
from bulkdeploy.drivers.libvirt.probe_guest import boot_image
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.support.processes.programs import BULKDEPLOY

EXAMPLE = Path(__file__).parents[2] / "docs" / "example_extension" / "qemu.py"
HOST = "extension://{}?cores=16&mhz=2000&memory=65536"

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None, reason="qemu-system-x86 is not installed"
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The example, which fails once in an action for which there is a file fail-ACTION."""
    path = tmp_path / "extension"
    path.write_text(
        f'#!/bin/sh\nif rm "{tmp_path}/fail-$1" 2>/dev/null; then echo \'{{"error": "told to"}}\'; exit 1; fi\n'
        f'exec "{sys.executable}" "{EXAMPLE}" "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """What guests start from: a boot sector that counts seconds."""
    path = tmp_path / "image"
    path.write_bytes(boot_image())
    return path


@pytest.fixture
def rig(engine: Engine, tmp_path: Path, program: Path, image: Path) -> Iterator[Rig]:
    """Two hosts, which are this machine."""
    details = {"folder": str(tmp_path / "guests")}
    options = ExtensionOptions.model_validate(
        {"executable": program, "details": details, "templates": {"default": {"image": str(image)}}}
    )
    driver = ExtensionDriver.from_options(options)
    subjects = Subjects(volumes=1, memory_mib=16)
    hosts = tuple(HostAddress(uuid4(), name, "127.0.0.1", "External", HOST.format(name)) for name in ("a", "b"))
    kept = records_in(engine, lambda _: True)
    driver.use_records(replace(kept, directory=FixedDirectory(hosts, shared_pool(subjects.pool_uuid))))

    def fail_next(step: str) -> None:
        (tmp_path / f"fail-{'create' if step == 'boot' else step}").touch()

    yield Rig(driver, hosts, fail_next, start_steps=("boot",), subjects=subjects)
    for guest in list(driver.list_guests()):
        driver.ensure_absent(None, guest.uuid, list(guest.volume_uuids), fence=1 << 30, timeout_s=60)
    driver.close()


class TestQemuExtension(DriverContract, FencingContract, HostContract, VncConsoleContract):
    """Boot sectors as QEMU processes."""

    @pytest.fixture
    def machines(self) -> Machines:
        """Two that answer, and one that no extension is asked for."""
        promise = HostPromise(Decimal(1), Decimal(1), guests_limit=50)
        urls = (HOST.format("a"), HOST.format("b"), "http://nobody")
        a, b, silent = (NewHost(uuid4(), "External", HostAccess(url), promise) for url in urls)
        return Machines((a, b), silent)


def test_the_check_passes_and_leaves_nothing(tmp_path: Path, program: Path, image: Path) -> None:
    """``bulkdeploy check extension`` runs every action; one that fails is named, with what it must do."""
    settings = tmp_path / "settings.toml"
    settings.write_text(
        f'data_dir = "{tmp_path}/data"\n[driver.extension]\nexecutable = "/nowhere"\n'
        f'details = {{ folder = "{tmp_path}/guests" }}\ntemplates = {{ default = {{ image = "{image}" }} }}\n'
    )
    command = [sys.executable, *BULKDEPLOY, "--config", str(settings), "check", "extension", str(program)]
    command += ["--host", HOST.format("a")]
    passed = subprocess.run(command, capture_output=True, text=True)
    assert (passed.returncode, passed.stdout.count("ok  "), list((tmp_path / "guests").iterdir())) == (0, 11, [])
    (tmp_path / "fail-stop").touch()
    failed = subprocess.run(command, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "missing  stop: stop: exit code 1: told to" in failed.stdout
    assert list((tmp_path / "guests").iterdir()) == []
