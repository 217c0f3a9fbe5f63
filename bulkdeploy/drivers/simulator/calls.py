"""The format of calls for the simulator's database (``batches.sql``), and their results."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import UUID

import orjson

from bulkdeploy.drivers.batches import GuestCall, RemoveCall, StartCall, StopCall
from bulkdeploy.drivers.errors import ANY_HOST, DriverError, StaleFence
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAddress

STEPS: Mapping[type[GuestCall], str] = {StartCall: "boot", StopCall: "stop", RemoveCall: "delete"}
"""The step of a call in errors that are not caused by a step of the hypervisor."""

BUSY = "busy"
"""The result of a call that was not executed, because another call for the guest is running."""


def write_calls(calls: Sequence[tuple[GuestCall, float]]) -> str:
    """Return the calls as JSON. The number beside each call seeds all its random decisions."""
    rows = [
        {"number": number, "guest": call.guest_uuid, "fence": call.fence, "draw": draw, **_parameters(call)}
        for number, (call, draw) in enumerate(calls)
    ]
    try:
        return orjson.dumps(rows).decode()
    except TypeError:  # a number of more than 64 bits, which the database rejects with its own error
        return json.dumps(rows, default=str)


def template_of(guest: GuestSpec) -> UUID | None:
    """Return the template of the guest's root volume, or None if the guest has no volumes."""
    return guest.volumes[0].template_uuid if guest.volumes else None


def made_volumes(guest: GuestSpec) -> list[UUID]:
    """Return the uuids of the guest's volumes that existed before."""
    return [volume.uuid for volume in guest.volumes if volume.was_made]


def nic_details(guest: GuestSpec) -> list[dict[str, object]]:
    """Return the guest's NICs in the format of the simulator."""
    return [
        {"uuid": nic.uuid, "mac": nic.mac_address, "network": nic.network_uuid, "ip": nic.ip_address}
        for nic in guest.nics
    ]


def _parameters(call: GuestCall) -> dict[str, object]:
    match call:
        case StartCall(host, guest):
            return {
                "kind": "start",
                "host": host.uuid,
                "name": guest.name,
                "cpu_number": guest.cpu_number,
                "cpu_mhz": guest.cpu_mhz,
                "memory_mib": guest.memory_mib,
                "volumes": [volume.uuid for volume in guest.volumes],
                "pools": [volume.pool_uuid for volume in guest.volumes],
                "sizes": [volume.size_bytes for volume in guest.volumes],
                "nics": [nic.uuid for nic in guest.nics],
                "template": template_of(guest),
                "nic_details": nic_details(guest),
                "iso": guest.iso_uuid,
                "made": made_volumes(guest),
            }
        case StopCall(host, forced=forced):
            return {"kind": "stop", "host": host.uuid, "forced": forced}
        case RemoveCall(host, volume_uuids=volume_uuids):
            return {
                "kind": "remove",
                "host": None if host is None else host.uuid,
                "volumes": volume_uuids,
            }


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """The parameters that all calls have.

    ``step`` is the step in errors that are not caused by a step of the hypervisor. ``fence`` is None for calls that
    do not concern a guest.
    """

    step: str
    host: HostAddress | None
    fence: int | None
    timeout_s: float

    @property
    def host_name(self) -> str:
        """The name of the host in errors, or ANY_HOST if the call has no host."""
        return ANY_HOST if self.host is None else self.host.name

    def answer(self, row: Sequence[Any], sleep: Callable[[float], None]) -> str | None:
        """Wait for the simulated duration of the call, and return its result or raise its error.

        Args:
            row: an ``outcome`` of ``faults.sql``.
            sleep: waits for a number of seconds.

        Raises:
            DriverError: the call failed.
        """
        verdict, step, reason, transient, wait_ms, host_found = row
        host = self.host_name if self.host is not None or host_found is None else host_found
        wait_s = min(wait_ms / 1000, self.timeout_s)
        if wait_s > 0:
            sleep(wait_s)
        if verdict == "silent":
            reason = f"no answer within {self.timeout_s:g} s"
            raise DriverError(step, host, reason, transient=True, unanswered=True)
        if verdict == "stale":
            raise StaleFence(step, host, reason, transient=False)
        if verdict == "failed":
            raise DriverError(step, host, reason, transient=transient)
        return None if reason is None else str(reason)

    def fail(self, error: DriverError) -> NoReturn:
        """Raise an error that a whole batch of calls got, as an error of this call's host.

        Raises:
            DriverError: always.
        """
        raise error.at(self.host_name)
