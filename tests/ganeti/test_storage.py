"""Volume groups of nodes, of real disks that may be lost, through a live cluster: ``make test-ganeti``."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.abilities.storage_units import StorageUnit
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.ganeti.driver import GanetiDriver
from bulkdeploy.drivers.records import Pool
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory
from tests.ganeti.live import PATIENCE_S, address, gnt, needs_cluster, options

pytestmark = needs_cluster

GROUP = "bulkdeploytest"
DISK_BYTES = 12 << 30
"""Ganeti wants volume groups of 20 GiB; the files are sparse."""

HOST = address(1)
POOL = Pool(uuid4(), "node1-local", "Filesystem", None, None, HOST.uuid)


def run(*command: str) -> str:
    """What a program of LVM says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout.strip()


@dataclass
class Disks:
    """The devices under the volume group."""

    devices: list[str]

    def lose(self, device: str) -> None:
        """Take a disk away."""
        run("losetup", "--detach", device)
        self.devices.remove(device)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    """A volume group of two disks that the cluster's instances may use."""
    if shutil.which("vgcreate") is None or not Path("/dev/loop-control").exists():
        pytest.skip("needs lvm2 and loop devices")
    made = Disks([])
    for name in ("first", "second"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(DISK_BYTES)
        made.devices.append(run("losetup", "--find", "--show", str(tmp_path / name)))
    try:
        run("vgcreate", "--yes", GROUP, *made.devices)
        gnt("gnt-cluster", "modify", "--enabled-disk-templates=diskless,sharedfile,plain", f"--vg-name={GROUP}")
        yield made
        gnt("gnt-cluster", "modify", "--enabled-disk-templates=diskless,sharedfile", "--vg-name=")
    finally:
        subprocess.run(["vgremove", "--force", "--yes", GROUP], capture_output=True, check=False)
        for device in made.devices:
            run("losetup", "--detach", device)


@pytest.fixture
def driver(engine: Engine) -> Iterator[GanetiDriver]:
    """A driver whose instances have logical volumes."""
    made = GanetiDriver.from_options(options(disk_template="plain"))
    kept = records_in(engine, lambda _: True)
    made.use_records(replace(kept, directory=FixedDirectory([HOST], POOL)))
    yield made
    made.close()


def units(driver: GanetiDriver) -> dict[str, StorageUnit]:
    """The node's units of LVM, by name."""
    found = driver.units_of_host(HOST, timeout_s=PATIENCE_S)
    return {unit.name: unit for unit in found if unit.unit_type.startswith("lvm")}


def test_a_volume_group_loses_a_disk_and_is_repaired(driver: GanetiDriver, disks: Disks) -> None:
    """Units have sizes and a pool; allocation stops on one disk; what is left of the group is made whole."""
    first, second = disks.devices
    seen = units(driver)
    assert set(seen) == {GROUP, first, second}
    assert all(unit.is_healthy and unit.is_allocatable for unit in seen.values())
    assert all(
        unit.used_bytes + unit.free_bytes == unit.size_bytes
        for unit in driver.units_of_host(HOST, timeout_s=PATIENCE_S)
    )
    assert (seen[GROUP].pool_uuid, seen[first].pool_uuid) == (POOL.uuid, None)
    assert seen[first].size_bytes + seen[second].size_bytes == seen[GROUP].size_bytes > DISK_BYTES
    driver.set_allocatable(HOST, seen[second], allocatable=False, timeout_s=PATIENCE_S)
    assert [units(driver)[name].is_allocatable for name in (first, second)] == [True, False]
    with pytest.raises(DriverError, match="lvm-vg only"):
        driver.repair_unit(HOST, seen[first], timeout_s=PATIENCE_S)
    disks.lose(second)
    broken = units(driver)
    assert (broken[GROUP].is_healthy, broken[first].is_healthy) == (False, True)
    assert second not in broken
    driver.repair_unit(HOST, broken[GROUP], timeout_s=PATIENCE_S)
    whole = units(driver)
    assert set(whole) == {GROUP, first}
    assert whole[GROUP].is_healthy
