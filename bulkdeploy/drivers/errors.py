"""The errors of driver calls."""

from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec

ANY_HOST = "any host"
"""The host's name in errors of calls that are not for one host."""


class DriverError(Exception):
    """Raised when a driver call fails. It contains the facts that an operator needs to act.

    Attributes:
        step: the step that failed: ``connect``, ``volume``, ``network``, ``boot``, ``stop``, ``delete``,
            ``migrate``, ``scale``, ``devices``, ``filter``, ``resize``, ``snapshot``, ``revert``, ``console``...
        host: the host's name.
        reason: the hypervisor's message.
        transient: True when the same call may succeed on the same host later. A start that fails is tried on other
            hosts in either case, unless it is pinned.
        unanswered: True when the hypervisor may have executed the call nevertheless.
        on_any_host: True when every other host would reject the call for the same reason. The VM is not tried on
            other hosts then.
    """

    def __init__(
        self,
        step: str,
        host: str,
        reason: str,
        *,
        transient: bool,
        unanswered: bool = False,
        on_any_host: bool = False,
    ) -> None:
        self.step, self.host, self.reason = step, host, reason
        self.transient, self.unanswered, self.on_any_host = transient, unanswered, on_any_host
        super().__init__(f"{step} failed on host {host}: {reason}")

    @property
    def may_pass(self) -> bool:
        """True when the same call may succeed later, or has done so already."""
        return self.transient or self.unanswered

    def at(self, host: str) -> "DriverError":
        """Return the same error for another host. If a batch fails as a whole, each call fails for its own host."""
        return self._copy(host, self.reason)

    def reported(self, reason: str) -> "DriverError":
        """Return the same error with another reason text."""
        return self._copy(self.host, reason)

    def _copy(self, host: str, reason: str) -> "DriverError":
        return type(self)(
            self.step,
            host,
            reason,
            transient=self.transient,
            unanswered=self.unanswered,
            on_any_host=self.on_any_host,
        )


class StaleFence(DriverError):
    """The hypervisor has seen a higher fence for this guest: the caller has lost its lease."""


def lost_volume(step: str, host: str, volume: VolumeSpec) -> DriverError:
    """Return the error of a call that does not find a volume which a guest had before."""
    reason = (
        f"the hypervisor does not have volume {volume.uuid} ({volume.name}) any more, and a start makes no new"
        " volume in its place. restoreVirtualMachine makes a root disk anew from its template; a data volume comes"
        " from a backup, or detachVolume takes it from the VM"
    )
    return DriverError(step, host, reason, transient=False)


def refuse_lost_volumes(step: str, host: str, guest: GuestSpec) -> None:
    """Raise ``lost_volume`` for a guest that the hypervisor does not have, unless all its volumes are new."""
    for volume in guest.volumes:
        if volume.was_made:
            raise lost_volume(step, host, volume)


class HostDrained(DriverError):
    """Raised for a check of a host that answers and keeps its guests but is configured to accept no new ones."""
