"""An extension that numbers its guests, on Proxmox VE's API: each gets a number, and nobody else's is touched.

PROXMOX_EXTENSION names CloudStack's own script, which needs curl and jq. Without it a script that behaves in the
same way is run. Scripts of CloudStack 4.21 and 4.22 have no action ``statuses``: PROXMOX_STATUSES=false.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import Caller, Rig, Subjects
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.extension.check import check_extension
from bulkdeploy.drivers.extension.driver import ExtensionDriver
from bulkdeploy.drivers.extension.options import ExtensionOptions
from bulkdeploy.drivers.guests import GuestSpec, PowerState
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.support.hypervisors.proxmox_api import NODE, TEMPLATE, ProxmoxCluster, proxmox_cluster

pytestmark = pytest.mark.long

GUESTS = 12
URL = f"extension://{NODE}?cores=16&mhz=2000&memory=65536&node={NODE}&network_bridge=vmbr0"
HAS_STATUSES = os.environ.get("PROXMOX_STATUSES") != "false"
SCRIPT = Path(__file__).with_name("numbered_extension.py")
NEEDS_NAMES = pytest.mark.skipif(
    not HAS_STATUSES, reason="without statuses only its number tells a guest from a stranger's"
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProxmoxCluster]:
    """A cluster without machines."""
    with proxmox_cluster(tmp_path) as made:
        yield made


@pytest.fixture
def options(cluster: ProxmoxCluster, tmp_path: Path) -> ExtensionOptions:
    """The driver's."""
    program = Path(os.environ.get("PROXMOX_EXTENSION", tmp_path / "extension"))
    if "PROXMOX_EXTENSION" not in os.environ:
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SE "{SCRIPT}" "$@"\n')
        program.chmod(0o755)
    details = {"url": cluster.address, "user": "root@pam", "token": "token", "secret": "secret"}
    given = {
        "executable": program,
        "details": {**details, "verify_tls_certificate": "false"},
        "templates": {"default": {"template_id": TEMPLATE}},
        "actions_at_once": GUESTS,
        "statuses": HAS_STATUSES,
    }
    return ExtensionOptions.model_validate(given)


@pytest.fixture
def rig(options: ExtensionOptions, engine: Engine) -> Iterator[Rig]:
    """One node, which has what the script asks for."""
    details = {**{key: value.get_secret_value() for key, value in options.details.items()}}
    url = f"{URL}&verify_tls_certificate={details['verify_tls_certificate']}"
    driver = ExtensionDriver.from_options(options)
    host = HostAddress(uuid4(), NODE, "127.0.0.1", "External", url)
    subjects = Subjects(volumes=1)
    kept = records_in(engine, lambda _: True)
    driver.use_records(replace(kept, directory=FixedDirectory((host,), shared_pool(subjects.pool_uuid))))
    yield Rig(driver, (host,), lambda _: None, subjects=subjects)
    driver.close()


def start_all(rig: Rig, guests: list[GuestSpec]) -> list[DriverError | None]:
    """Start guests at the same time, each once; what came of each, in their order."""

    def start(guest: GuestSpec) -> DriverError | None:
        try:
            Caller(rig.driver, timeout_s=120).run(rig.hosts[0], guest)
        except DriverError as error:
            Caller(rig.driver, timeout_s=120).remove(rig.hosts[0], guest)
            return error
        return None

    with ThreadPoolExecutor(len(guests)) as threads:
        return list(threads.map(start, guests))


def test_guests_that_are_prepared_at_once_get_numbers_of_their_own(rig: Rig, cluster: ProxmoxCluster) -> None:
    """All run after one call each, and nothing was stopped or deleted on the way."""
    guests = [rig.new_guest() for _ in range(GUESTS)]
    assert start_all(rig, guests) == [None] * GUESTS
    assert cluster.names() == {guest.name: "running" for guest in guests}
    assert cluster.removed == []
    for guest in guests:
        Caller(rig.driver).remove(rig.hosts[0], guest)
    assert cluster.names() == {}


def test_a_number_that_somebody_else_took_is_left_alone(rig: Rig, cluster: ProxmoxCluster) -> None:
    """The creation is refused; its undo touches nothing, and the next attempt takes another number."""
    cluster.strangers = 2
    guest = rig.new_guest()
    failures = [start_all(rig, [guest])[0] for _ in range(2)]
    assert all(isinstance(failure, DriverError) and failure.transient for failure in failures)
    assert start_all(rig, [guest]) == [None]
    strangers = {"stranger-100": "running", "stranger-101": "running"}
    assert cluster.names() == {**strangers, guest.name: "running"}
    assert cluster.removed == []


@NEEDS_NAMES
def test_a_number_that_came_to_somebody_else_is_left_alone(rig: Rig, cluster: ProxmoxCluster) -> None:
    """Its guest was deleted by hand and a stranger's has the number: it is stopped and removed without that one."""
    guest, caller = rig.new_guest(), Caller(rig.driver)
    caller.run(rig.hosts[0], guest)
    (number,) = cluster.machines
    cluster.machines[number] = {"name": "stranger", "status": "running"}
    caller.stop(rig.hosts[0], guest)
    caller.remove(None, guest)
    assert (cluster.names(), cluster.removed) == ({"stranger": "running"}, [])


@NEEDS_NAMES
def test_a_guest_that_was_destroyed_outside_is_stopped(rig: Rig, cluster: ProxmoxCluster) -> None:
    """Its state is what the node says: it does not run. A start does not make it anew."""
    guest, caller = rig.new_guest(), Caller(rig.driver)
    caller.run(rig.hosts[0], guest)
    cluster.machines.clear()
    assert caller.look(rig.hosts[0], guest) is PowerState.STOPPED
    caller.stop(rig.hosts[0], guest)
    with pytest.raises(DriverError, match="restoreVirtualMachine creates both again") as refused:
        caller.run(rig.hosts[0], guest)
    assert (refused.value.transient, cluster.names()) == (False, {})


def test_a_stopped_guest_is_removed_from_the_node_that_had_it(rig: Rig, cluster: ProxmoxCluster) -> None:
    """No host is named for a guest that does not run; its node is known all the same."""
    guest, caller = rig.new_guest(), Caller(rig.driver)
    caller.run(rig.hosts[0], guest)
    caller.stop(rig.hosts[0], guest)
    caller.remove(None, guest)
    assert cluster.names() == {}


def test_the_script_keeps_the_protocol(options: ExtensionOptions, cluster: ProxmoxCluster) -> None:
    """``bulkdeploy check extension`` passes, to its last action, and leaves nothing."""
    needs = list(check_extension(f"{URL}&verify_tls_certificate=false", options, None, 60.0))
    assert [need for need in needs if need.remedy is not None] == []
    assert needs[-1].name == "delete, again"
    assert cluster.names() == {}
