"""The states of virtual machines, and the transitions that the job engine makes.

Source: CloudStack's VirtualMachine.State; cloudstack-protocol.md 5.2. The compare-and-set statement that writes a
transition rejects transitions that are not listed here.
"""

from collections.abc import Collection
from enum import StrEnum


class VmState(StrEnum):
    """The states of VMs in CloudStack's spelling (response field ``state``)."""

    STOPPED = "Stopped"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    MIGRATING = "Migrating"
    DESTROYED = "Destroyed"
    EXPUNGING = "Expunging"
    ERROR = "Error"
    UNKNOWN = "Unknown"
    SHUTDOWN = "Shutdown"


GONE = frozenset({VmState.DESTROYED, VmState.EXPUNGING})
"""States that ``state=present`` leaves out."""

MOVES: dict[VmState, frozenset[VmState]] = {
    VmState.STOPPED: frozenset({VmState.STARTING, VmState.DESTROYED, VmState.ERROR}),
    VmState.STARTING: frozenset({VmState.RUNNING, VmState.STOPPED, VmState.ERROR}),
    VmState.RUNNING: frozenset({VmState.STOPPING, VmState.MIGRATING, VmState.STOPPED, VmState.UNKNOWN}),
    VmState.STOPPING: frozenset({VmState.STOPPED, VmState.RUNNING}),
    VmState.MIGRATING: frozenset({VmState.RUNNING, VmState.STOPPED}),
    VmState.DESTROYED: frozenset({VmState.STOPPED, VmState.EXPUNGING}),
    VmState.ERROR: frozenset({VmState.DESTROYED, VmState.EXPUNGING}),
    VmState.UNKNOWN: frozenset({VmState.RUNNING, VmState.STOPPED}),
    VmState.EXPUNGING: frozenset(),
    VmState.SHUTDOWN: frozenset({VmState.STOPPED}),
}


def one_of(states: Collection[StrEnum]) -> str:
    """Return states as a text for error messages, such as "Running or Stopped"."""
    return " or ".join(sorted(state.value for state in states))
