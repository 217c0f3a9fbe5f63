"""The errors of driver calls."""

from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec

ANY_HOST = "any host"
"""The name of the host in errors of calls that are not for one host."""


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
        """True if the same call may succeed later or may already have succeeded."""
        return self.transient or self.unanswered

    def at(self, host: str) -> "DriverError":
        """Return the same error with another host name, for the calls of a batch that failed together."""
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
    """Return the error for a guest whose volume existed before and is missing on the hypervisor now."""
    reason = (
        f"the hypervisor does not have volume {volume.uuid} ({volume.name}) any more, and a start never creates"
        " a new volume in its place. restoreVirtualMachine creates a new root disk from the template. Restore"
        " a data volume from a backup, or remove it from the VM with detachVolume"
    )
    return DriverError(step, host, reason, transient=False)


def refuse_lost_volumes(step: str, host: str, guest: GuestSpec) -> None:
    """Raise ``lost_volume`` if the guest had one of its volumes before.

    This is called for a guest that the hypervisor does not have, whose volumes must therefore all be new.
    """
    for volume in guest.volumes:
        if volume.was_made:
            raise lost_volume(step, host, volume)


class HostDrained(DriverError):
    """The error of a host check if the host answers and keeps its guests but accepts no new guests."""
