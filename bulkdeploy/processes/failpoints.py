"""Failpoints: named places in the code at which a test can kill the process.

``before(point)`` and ``after(point)`` surround every commit, message and driver call of a job. They do nothing, and
take less than a tenth of a microsecond, unless a test has called ``arm``. Then they call the test's function with
the name of the place, such as ``completion.commit.before``. The function may kill the process or raise an
exception. The armed function is a global variable, so that every layer can have failpoints without an additional
parameter.
"""

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

Fault = Callable[[str], None]
"""A test's function, which is called with the name of each place that the process passes."""


class Failpoint(StrEnum):
    """A place where a test can interrupt the process, once before and once after its operation.

    Kinds of jobs have further failpoints, which are in the file of each kind.
    """

    # API processes
    CALL_COMMIT = "call.commit"
    CALL_PUBLISH = "call.publish"
    CALL_CLEAR = "call.clear"

    # operators' programs
    ADOPT_COMMIT = "adopt.commit"
    REMOVE_UNMANAGED = "unmanaged.remove"

    # every job
    MESSAGE_ACCEPT = "message.accept"
    LEASE_COMMIT = "lease.commit"
    RENEW_COMMIT = "renew.commit"
    COMPLETION_COMMIT = "completion.commit"
    RELEASE_COMMIT = "release.commit"
    WAKE_PUBLISH = "wake.publish"
    WAKE_CLEAR = "wake.clear"

    # steps of several kinds of jobs
    KEEP_COMMIT = "keep.commit"
    DRIVER_BOOT = "driver.boot"
    DRIVER_STOP = "driver.stop"
    DRIVER_LOOK = "driver.look"
    DRIVER_DELETE = "driver.delete"
    DRIVER_DELETE_VOLUME = "driver.delete_volume"
    DRIVER_MIGRATE = "driver.migrate"
    DRIVER_SCALE = "driver.scale"
    DRIVER_DEVICES = "driver.devices"
    DRIVER_RESIZE = "driver.resize"
    DRIVER_TEMPLATE = "driver.template"
    DRIVER_SNAPSHOT = "driver.snapshot"
    DRIVER_REVERT = "driver.revert"
    DRIVER_DELETE_SNAPSHOT = "driver.delete_snapshot"
    DRIVER_CUSTOM_ACTION = "driver.custom_action"
    DRIVER_FENCE = "driver.fence"
    POWER_ACTION = "power.action"

    # sweepers, and API processes that put a host into service again
    DRIVER_LEFTOVERS = "driver.leftovers"

    # sweepers
    RELAY_PUBLISH = "relay.publish"
    RELAY_COMMIT = "relay.commit"
    SWEEP_DROPPED = "sweep.dropped"
    SWEEP_THROTTLED = "sweep.throttled"
    SWEEP_LOST = "sweep.lost"
    SWEEP_OVERDUE = "sweep.overdue"
    SWEEP_NEVER_BEGUN = "sweep.never_begun"
    SWEEP_EXPUNGE = "sweep.expunge"
    SWEEP_REMOVALS = "sweep.removals"
    SWEEP_VOLUMES = "sweep.volumes"
    SWEEP_OWNERLESS = "sweep.ownerless"
    SWEEP_GUESTS = "sweep.guests"
    SWEEP_EVACUATIONS = "sweep.evacuations"
    SWEEP_HOST_HA = "sweep.host_ha"
    SWEEP_POWER = "sweep.power"
    SWEEP_FILTERS = "sweep.filters"
    SWEEP_USAGE = "sweep.usage"
    SWEEP_HEALTH = "sweep.health"
    SWEEP_POLICIES = "sweep.policies"
    SWEEP_POLICY_FAILED = "sweep.policy_failed"
    SWEEP_SCHEDULES = "sweep.schedules"
    SWEEP_SCHEDULE_FAILED = "sweep.schedule_failed"
    SWEEP_LEASES = "sweep.leases"
    SWEEP_LEASE_FAILED = "sweep.lease_failed"
    SWEEP_BALANCE = "sweep.balance"
    SWEEP_MANAGED = "sweep.managed"
    SWEEP_MANAGED_FAILED = "sweep.managed_failed"
    SWEEP_RETENTION = "sweep.retention"
    SWEEP_UNMANAGED = "sweep.unmanaged"
    SWEEP_EXPIRED = "sweep.expired"
    SWEEP_SESSIONS = "sweep.sessions"


_armed: Fault | None = None


def before(point: str) -> None:
    """Call the armed function, if there is one, before the operation ``point``."""
    if _armed is not None:
        _armed(f"{point}.before")


def after(point: str) -> None:
    """Call the armed function, if there is one, after the operation ``point``."""
    if _armed is not None:
        _armed(f"{point}.after")


def arm(fault: Fault | None) -> None:
    """Call ``fault`` at every failpoint that this process, or a process forked from it, passes.

    None stops this.
    """
    global _armed  # noqa: PLW0603 - see the module's docstring
    _armed = fault


def kills_from(directory: Path) -> Fault:
    """Return a function for ``arm`` that kills the process at each place that ``directory`` has a file for.

    The file is named like the place, and is deleted before the process is killed. So one file kills one process.
    """

    def kill_here(place: str) -> None:
        try:
            (directory / place).unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return kill_here
