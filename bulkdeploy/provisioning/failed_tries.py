"""The failed attempts of a job that may try several hosts, and the hosts that its next attempt avoids."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.provisioning.progress import FAILURE

AVOID = "avoid"
REJECTING = "rejecting"
TRIES = "tries"
"""Keys of a job's progress: see the attributes of FailedTries."""


@dataclass(frozen=True, slots=True)
class FailedTries:
    """The failed attempts of one job on different hosts.

    A host that rejects the VM is avoided for the rest of the job. A host with a failure that may pass, such as a
    timeout or a restarting daemon, is avoided only while another host remains.

    Attributes:
        count: the number of failed attempts on all hosts.
        avoided: the ids of the hosts that the next attempt avoids, including ``rejecting``.
        rejecting: the ids of the hosts that rejected the VM.
    """

    count: int
    avoided: frozenset[int]
    rejecting: frozenset[int]

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> "FailedTries":
        """Read the failed attempts out of the notes of a job.

        A job of an older release noted only the avoided hosts.
        """
        avoided = frozenset(progress.get(AVOID, ()))
        return cls(int(progress.get(TRIES, len(avoided))), avoided, frozenset(progress.get(REJECTING, ())))

    @property
    def may_forget(self) -> bool:
        """True if some avoided hosts had only failures that may pass."""
        return self.avoided > self.rejecting

    def add(self, host_id: int | None, failure: DriverError) -> "FailedTries":
        """Return a copy with one more failed attempt on the given host, or on no host if ``host_id`` is None."""
        host = frozenset(() if host_id is None else (host_id,))
        rejecting = self.rejecting if failure.may_pass else self.rejecting | host
        return FailedTries(self.count + 1, self.avoided | host, rejecting)

    def forget_passing(self) -> "FailedTries":
        """Return a copy that avoids only the hosts that rejected the VM."""
        return replace(self, avoided=self.rejecting)

    def noted_in(self, progress: Mapping[str, Any]) -> dict[str, Any]:
        """Return the notes of a job with these attempts added, and without the failure that was cleaned up."""
        noted = {name: value for name, value in progress.items() if name != FAILURE}
        return {**noted, AVOID: sorted(self.avoided), REJECTING: sorted(self.rejecting), TRIES: self.count}
