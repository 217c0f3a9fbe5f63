"""The audit: rows against rows, and rows against what the hypervisors really have.

Safe on a live system: VMs that a job works on are left out of the comparison with the
hypervisors, whether the job was there before or after the guests were listed.
"""

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import Engine

from bulkdeploy.drivers.driver import Guest, HypervisorDriver, PowerState
from bulkdeploy.store.audit import (
    BelievedGuest,
    Finding,
    believed_guests,
    check_invariants,
    unsettled_vms,
)

GUESTS_PROMISE = "what runs on the hypervisors is what the rows say, on the host they say, once"


def audit(engine: Engine, drivers: Iterable[HypervisorDriver]) -> list[Finding]:
    """Check every invariant; an intact system has findings without breaches."""
    with engine.connect() as connection:
        unsettled = unsettled_vms(connection)
        believed = {guest.uuid: guest for guest in believed_guests(connection)}
    real: dict[UUID, list[Guest]] = {}
    for driver in drivers:
        for guest in driver.list_guests():
            real.setdefault(guest.uuid, []).append(guest)
    with engine.connect() as connection:
        unsettled |= unsettled_vms(connection)
        believed_after = {guest.uuid: guest for guest in believed_guests(connection)}
    settled = {
        uuid
        for uuid in believed.keys() | believed_after.keys() | real.keys()
        if uuid not in unsettled and believed.get(uuid) == believed_after.get(uuid)
    }
    breaches = [
        breach
        for uuid in sorted(settled)
        if (breach := _compare(uuid, believed.get(uuid), real.get(uuid, []))) is not None
    ]
    return [*check_invariants(engine), Finding("guests", GUESTS_PROMISE, len(settled), tuple(breaches))]


def _compare(uuid: UUID, believed: BelievedGuest | None, real: list[Guest]) -> str | None:
    """What is wrong with one VM, or None."""
    running = [guest for guest in real if guest.power is PowerState.RUNNING]
    if believed is None:
        if real:
            hosts = ", ".join(str(guest.host_uuid) for guest in real)
            return f"guest {uuid} is on host {hosts}, and no Running VM owns it"
        return None
    if len(running) != 1:
        return f"VM {uuid} is Running by its row and runs {len(running)} times on the hypervisors"
    guest = running[0]
    if guest.host_uuid != believed.host_uuid:
        return f"VM {uuid} is on host {believed.host_uuid} by its row and runs on host {guest.host_uuid}"
    sizes = (guest.cpu_number, guest.cpu_mhz, guest.memory_mib)
    if sizes != (believed.cpu_number, believed.cpu_mhz, believed.memory_mib):
        return f"VM {uuid} has other sizes on the hypervisor than in its row: {sizes}"
    return None
