"""Simulated hosts whose guests are recorded as those of most real hypervisors are: in the service's own records."""

from collections.abc import Callable, Sequence

from bulkdeploy.drivers.abilities.host_fencing import HostFencing
from bulkdeploy.drivers.batches import Answer, GuestCall, RemoveCall, StartCall
from bulkdeploy.drivers.exchanges.fenced_call import FencedCall
from bulkdeploy.drivers.simulator.driver import SimulatorDriver


class RecordedSimulator(SimulatorDriver):
    """A simulator that cannot fence hosts and records, as the driver for libvirt does, which host has a guest."""

    def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        """See BatchDriver. Each call is made by itself, with its records before and after it."""
        return [self._recorded(call, timeout_s) for call in calls]

    def _recorded(self, call: GuestCall, timeout_s: float) -> Callable[[], None]:
        def answer() -> None:
            fences = self._records.fences
            fenced = FencedCall(fences, call.host, call.guest_uuid, call.fence, timeout_s)
            if isinstance(call, StartCall):
                fenced.claim("boot", [volume.uuid for volume in call.guest.volumes])
            else:
                fenced.fenced_here("delete" if isinstance(call, RemoveCall) else "stop")
            (simulated,) = super(RecordedSimulator, self).begin([call], timeout_s=timeout_s)
            simulated()
            if not isinstance(call, StartCall):
                fences.release(call.guest_uuid, call.fence)

        return answer


RecordedSimulator.abilities = SimulatorDriver.abilities - {HostFencing}
