"""Crash points: the places, by name, at which a trial lets a process die.

Before and after every commit, publish and driver call on a job's way stands ``before(point)`` and
``after(point)``. Unless a trial has armed this process they do nothing, in less than a tenth of a microsecond.
Armed, they hand the place's name, such as ``settle.commit.before``, to the trial, which may kill the process
there, or raise.

This is the one thing in the product that is reached by name from everywhere: a fault must be placeable where
nobody thought of handing anything in.
"""

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

Fault = Callable[[str], None]
"""Is told each place that is passed."""


class CrashPoint(StrEnum):
    """What can be interrupted. Each has a ``before`` and an ``after``."""

    # API processes
    DEPLOY_COMMIT = "deploy.commit"
    CALL_COMMIT = "call.commit"
    SUBMIT_COMMIT = "submit.commit"
    CANCEL_COMMIT = "cancel.commit"
    CALL_PUBLISH = "call.publish"
    CALL_CLEAR = "call.clear"

    # workers
    LEASE_COMMIT = "lease.commit"
    RENEW_COMMIT = "renew.commit"
    KEEP_COMMIT = "keep.commit"
    PLACE_COMMIT = "place.commit"
    REPLACE_COMMIT = "replace.commit"
    MIGRATE_COMMIT = "migrate.commit"
    SCALE_COMMIT = "scale.commit"
    PLUG_COMMIT = "plug.commit"
    UNPLUG_COMMIT = "unplug.commit"
    RESTORE_COMMIT = "restore.commit"
    SETTLE_COMMIT = "settle.commit"
    GIVE_BACK_COMMIT = "give_back.commit"
    WAKE_PUBLISH = "wake.publish"
    WAKE_CLEAR = "wake.clear"
    DRIVER_BOOT = "driver.boot"
    DRIVER_STOP = "driver.stop"
    DRIVER_LOOK = "driver.look"
    DRIVER_DELETE = "driver.delete"
    DRIVER_MIGRATE = "driver.migrate"
    DRIVER_SCALE = "driver.scale"
    DRIVER_DEVICES = "driver.devices"

    # sweepers
    RELAY_PUBLISH = "relay.publish"
    RELAY_COMMIT = "relay.commit"
    SWEEP_DROPPED = "sweep.dropped"
    SWEEP_HELD_BACK = "sweep.held_back"
    SWEEP_LOST = "sweep.lost"
    SWEEP_OVERDUE = "sweep.overdue"
    SWEEP_NEVER_BEGUN = "sweep.never_begun"
    SWEEP_EXPUNGE = "sweep.expunge"
    SWEEP_REMOVALS = "sweep.removals"
    DRIVER_DELETE_VOLUME = "driver.delete_volume"
    SWEEP_VOLUMES = "sweep.volumes"
    SWEEP_OWNERLESS = "sweep.ownerless"
    SWEEP_EXPIRED = "sweep.expired"
    SWEEP_SESSIONS = "sweep.sessions"


_armed: Fault | None = None


def before(point: CrashPoint) -> None:
    """``point`` comes next."""
    if _armed is not None:
        _armed(f"{point}.before")


def after(point: CrashPoint) -> None:
    """``point`` is just over."""
    if _armed is not None:
        _armed(f"{point}.after")


def arm(fault: Fault | None) -> None:
    """Tell ``fault`` of every place this process, or one forked from it, passes from now on; None: nobody."""
    global _armed  # noqa: PLW0603 - see above
    _armed = fault


def kills_from(directory: Path) -> Fault:
    """A fault for real processes: whoever passes the place that a file in ``directory`` is named after is killed.

    The file is removed first, so one file kills one process, whichever comes by first.
    """

    def kill_here(place: str) -> None:
        try:
            (directory / place).unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return kill_here
