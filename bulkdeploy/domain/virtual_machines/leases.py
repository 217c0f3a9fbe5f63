"""Leases of virtual machines: after a number of days a VM is stopped or destroyed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from bulkdeploy.domain.errors import InvalidParameter

LEASES_ENABLED = "instance.lease.enabled"
RETRY_INTERVAL = "instance.lease.scheduler.interval"
NO_LEASE = -1
"""The number of days that stands for no lease, whatever the offering says."""

MOST_DAYS = 36_500


class ExpiryAction(StrEnum):
    """The action that is taken when a lease expires."""

    STOP = "STOP"
    DESTROY = "DESTROY"


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease: a number of days, and the action after these days."""

    days: int
    action: ExpiryAction

    def columns(self, now: datetime) -> dict[str, Any]:
        """Return the column values of a VM whose lease begins at ``now``."""
        expires = now + timedelta(days=self.days)
        return {"lease_expires": expires, "lease_due": expires, "lease_action": self.action.value}


NO_LEASE_COLUMNS = {"lease_expires": None, "lease_due": None, "lease_action": None}
"""The columns of a VM without a lease."""


def choose_lease(
    days: int | None, action: str | None, offered_days: int | None, offered_action: str | None
) -> Lease | None:
    """Return the lease of a new VM from the call and the offering, or None if the VM gets no lease."""
    days = offered_days if days is None else days
    action = offered_action if action is None else action
    if days is None or days == NO_LEASE or action is None:
        return None
    return Lease(days, ExpiryAction(action))


def check_lease(days: int, action: str | None) -> None:
    """Raise an error if the duration of a lease is zero, or if a lease has no action."""
    if days == 0:
        raise InvalidParameter("leaseduration", days, "it must be at least 1, or -1 for no lease")
    if days != NO_LEASE and action is None:
        raise InvalidParameter("leaseduration", days, "leaseexpiryaction must be given with it")
