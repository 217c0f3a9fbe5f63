"""Asynchronous jobs: the properties that CloudStack shows, and those that the job engine adds.

The properties of one kind of job are declared in its file in ``provisioning/kinds``. Sources:
cloudstack-protocol.md 3 for the API, ADR 9 for phases and leases.
"""

from enum import IntEnum, StrEnum


class JobStatus(IntEnum):
    """The response field ``jobstatus``. A job leaves IN_PROGRESS once and never changes again."""

    IN_PROGRESS = 0
    SUCCEEDED = 1
    FAILED = 2


class JobPhase(StrEnum):
    """The phase of an unfinished job. A finished job stays in ``DONE``.

    A ``HELD`` job waits until enough jobs of its bulk operation have ended.
    """

    HELD = "held"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"


class InstanceType(StrEnum):
    """The type of the object that a job works on (``jobinstancetype``).

    Jobs of one object run one after the other.
    """

    VIRTUAL_MACHINE = "VirtualMachine"
    HOST = "Host"
    ZONE = "Zone"

    @property
    def noun(self) -> str:
        """The name of the type in CloudStack's descriptions of events."""
        return "Vm" if self is InstanceType.VIRTUAL_MACHINE else self.value.lower()


def class_for(name: str, *, is_root_admin: bool) -> str:
    """Return the value of ``cmd`` of a job as CloudStack would return it to this caller.

    ``name`` is the command's class for root admins, who have commands of their own. Clients search for parts of the
    name.
    """
    return name if is_root_admin else name.replace(".admin.", ".user.").removesuffix("ByAdmin")


FAILED_RESULT_CODE = 530
"""``jobresultcode`` of every failed job; the true code stands in ``jobresult.errorcode``."""


PLANNED = "planned"
"""Param of jobs that move or start others' VMs: a plan that was shown, as lists of VM, host and turn, by ids."""

GUEST_ENDED = "guest_ended"
"""Param of jobs that stop a VM: its guest had ended without a call."""

CRASHES, LEAVES_HOST = "crashes", "leaves_host"
"""Params of jobs that start a crashed guest again: its crashes within an hour; True if they are too many to try its
host once more."""

FIRST_HOST = "first_host_id"
"""Param of jobs that start a VM: the host that is tried before others."""
