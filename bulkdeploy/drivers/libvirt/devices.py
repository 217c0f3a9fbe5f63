"""Devices of running guests: volumes, NICs, and the ISO in the drive."""

import time
from functools import partial
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt.calls import GuestCalls, affected, running_guest
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.domain import (
    read_domain,
    target_name,
    write_disk,
    write_drive,
    write_interface,
)
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.networks.filters import filter_name
from bulkdeploy.drivers.libvirt.networks.host_filters import find_filter
from bulkdeploy.drivers.libvirt.networks.networks import Networks
from bulkdeploy.drivers.libvirt.qemu_monitor import has_open

LOOKS_S = 0.1
CLOSED_AGAIN = "Tray of the device is not open"
"""A part of QEMU's error if the guest closed the tray before the ISO was inserted, as some firmware does."""


class Devices:
    """Attaches devices to running guests and detaches them."""

    def __init__(self, calls: GuestCalls, networks: Networks) -> None:
        self._calls, self._networks = calls, networks

    def ensure(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Attach and detach volumes and NICs of a running guest.

        Raises:
            DriverError: the guest does not run on the host, or did not release a device in time.
        """
        self._calls.of_guest(
            "devices", host, guest.uuid, timeout_s, lambda call: self._change_devices(call, guest, fence)
        )

    def _change_devices(self, call: HostCall, guest: GuestSpec, fence: int) -> None:
        self._calls.fenced(call.host, guest.uuid, fence).fenced_here("devices")
        domain, seen = running_guest(call, "devices", guest.uuid)
        wanted = {volume.uuid for volume in guest.volumes}
        self._calls.claim(call, "devices", guest, wanted | seen.disks.keys(), fence)
        flags = affected(domain)
        kept = wanted | {nic.uuid for nic in guest.nics}
        for device in seen.devices.keys() - kept:
            _detach(call, domain, device, seen.devices[device], flags)
        taken = set(seen.targets)
        for volume in guest.volumes:
            if volume.uuid not in seen.disks:
                target = next(name for name in map(target_name, range(1000)) if name not in taken)
                taken.add(target)
                with call.failing("devices"):
                    is_open = partial(has_open, domain, volume.uuid)
                    disk = self._calls.ensure_volume(call, "devices", guest.uuid, volume, fence, is_open)
                    _attach(call, domain, write_disk(disk, target), flags)
        is_filtered = self._networks.can_filter and find_filter(call, guest.uuid) is not None
        self._networks.ensure_leases(call, guest)
        for nic in guest.nics:
            if nic.uuid not in {seen_nic.uuid for seen_nic in seen.nics}:
                named = filter_name(guest.uuid) if is_filtered else None
                _attach(call, domain, write_interface(self._networks.interface(nic, named)), flags)
        self._calls.claim(call, "devices", guest, wanted, fence)

    def ensure_drive(self, host: HostAddress, guest: GuestSpec, *, fence: int, timeout_s: float) -> None:
        """Insert an ISO into the drive of a running guest, or eject the ISO.

        Raises:
            DriverError: the guest does not run on the host, has no drive, or did not release the old ISO in time.
        """
        self._calls.of_guest(
            "devices", host, guest.uuid, timeout_s, lambda call: self._change_iso(call, guest, fence)
        )

    def _change_iso(self, call: HostCall, guest: GuestSpec, fence: int) -> None:
        self._calls.fenced(call.host, guest.uuid, fence).fenced_here("devices")
        domain, seen = running_guest(call, "devices", guest.uuid)
        iso = self._calls.iso(call, guest)
        if (None if iso is None else iso.place) == seen.iso_place:
            return
        if seen.drive is None:
            reason = "the guest was started without a drive: stop and start it"
            raise DriverError("devices", call.host.name, reason, transient=False)
        while True:
            call.go_on("devices")
            try:
                domain.updateDeviceFlags(write_drive(seen.drive, iso), affected(domain))
            except libvirt.libvirtError as error:
                if CLOSED_AGAIN not in str(error) or call.deadline.left_s() < LOOKS_S:
                    raise
                time.sleep(LOOKS_S)
            else:
                return


def _attach(call: HostCall, domain: Any, device: str, flags: int) -> None:
    call.go_on("devices")
    domain.attachDeviceFlags(device, flags)


def _detach(call: HostCall, domain: Any, uuid: UUID, device: str, flags: int) -> None:
    """Detach a device from a guest, and wait until the guest has released it.

    Raises:
        DriverError: the guest did not release the device in time.
    """
    call.go_on("devices")
    try:
        domain.detachDeviceFlags(device, flags)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_DEVICE_MISSING, libvirt.VIR_ERR_OPERATION_FAILED):
            raise
    while uuid in _devices(domain):
        if call.deadline.left_s() < LOOKS_S:
            reason = f"the guest does not release device {uuid}"
            raise DriverError("devices", call.host.name, reason, transient=True)
        time.sleep(LOOKS_S)


def _devices(domain: Any) -> dict[UUID, str]:
    seen = read_domain(domain.XMLDesc())
    return {} if seen is None else seen.devices
