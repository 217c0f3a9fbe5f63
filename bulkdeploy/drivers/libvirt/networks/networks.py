"""The network configuration of guests: NICs, filters of security groups, and DHCP leases."""

import ipaddress
from collections.abc import Collection, Sequence
from uuid import UUID

from bulkdeploy.domain.networks.security_group_rules import Rule
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec, NicSpec
from bulkdeploy.drivers.hosts import HostAddress
from bulkdeploy.drivers.libvirt.calls import GuestCalls
from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall
from bulkdeploy.drivers.libvirt.domain import Interface
from bulkdeploy.drivers.libvirt.networks.filters import GUARD, is_guarded, write_filter
from bulkdeploy.drivers.libvirt.networks.host_filters import define_filter, find_filter, remove_filter
from bulkdeploy.drivers.libvirt.networks.leases import ensure_lease

UNFILTERED = ("user", "openvswitch")


class Networks:
    """The connection of guests to networks, according to the options of the driver."""

    def __init__(self, calls: GuestCalls) -> None:
        self._calls = calls

    def ensure_filters(
        self, host: HostAddress, guest_uuids: Sequence[UUID], *, timeout_s: float
    ) -> Collection[UUID]:
        """Update the network filters of running guests, and return the guests that were updated.

        If the configured network has no filters, nothing is done and all guests are returned.
        """
        if not self.can_filter:
            return guest_uuids

        def filter_guests(call: HostCall) -> list[UUID]:
            rules = self._calls.records.security_rules.of(guest_uuids)
            filtered, errors = [], []
            for guest_uuid in guest_uuids:
                try:
                    if self._filter_again(call, guest_uuid, rules.get(guest_uuid, frozenset())):
                        filtered.append(guest_uuid)
                except DriverError as error:
                    errors.append(error)
            if errors:
                raise errors[0]
            return filtered

        return self._calls.links.run("filter", host, Deadline(timeout_s), filter_guests)

    def _filter_again(self, call: HostCall, guest_uuid: UUID, rules: Collection[Rule]) -> bool:
        """Replace the rules of a guest's network filter, and return True.

        Returns False if the guest has no filter. Such a guest gets a filter only when it is started.
        """
        left_s = call.deadline.left_s()
        with self._calls.turns.of(guest_uuid, "filter", call.host.name, timeout_s=left_s), call.failing("filter"):
            found = find_filter(call, guest_uuid)
            if found is None:
                return False
            define_filter(call, write_filter(guest_uuid, rules, guarded=is_guarded(found.XMLDesc())))
            return True

    @property
    def can_filter(self) -> bool:
        """True if libvirt can filter packets on the configured type of network, as on Linux bridges."""
        return self._calls.options.network not in UNFILTERED

    def ensure_filter(self, call: HostCall, guest: GuestSpec) -> bool:
        """Create the network filter of a guest before the guest starts, and return True.

        Returns False, and creates nothing, if the guest is in no security group or the network cannot be filtered.
        """
        if not self.can_filter:
            return False
        rules = self._calls.records.security_rules.of([guest.uuid]).get(guest.uuid)
        if rules is None:
            return False
        guarded = all(self._guarded_address(nic) is not None for nic in guest.nics)
        define_filter(call, write_filter(guest.uuid, rules, guarded=guarded))
        return True

    def copy_filter(self, source: HostCall, destination: HostCall, guest_uuid: UUID) -> None:
        """Copy the guest's network filter to the destination host before a migration."""
        found = find_filter(source, guest_uuid) if self.can_filter else None
        if found is not None:
            define_filter(destination, found.XMLDesc())

    def remove_filter(self, call: HostCall, guest_uuid: UUID) -> None:
        """Delete the network filter of a guest that is no longer on the host."""
        if self.can_filter:
            remove_filter(call, guest_uuid)

    def interface(self, nic: NicSpec, named: str | None) -> Interface:
        """Return the libvirt interface of a NIC.

        ``named`` is the name of the guest's network filter. If it is None, the NIC has at most the filter against
        spoofing.
        """
        options, kind = self._calls.options, self._calls.options.network
        label = nic.label or options.default_label
        source = options.bridge.format(label=label, vlan=nic.vlan or "")
        address = self._guarded_address(nic)
        return Interface(
            nic_uuid=nic.uuid,
            mac_address=nic.mac_address,
            kind={"openvswitch": "bridge", "libvirt": "network"}.get(kind, kind),
            source=None if kind == "user" else source,
            vlan=nic.vlan if kind == "openvswitch" else None,
            mtu=None if kind == "user" else nic.mtu,
            address=address,
            filter_name=named or (None if address is None else GUARD),
            network_uuid=nic.network_uuid,
            ip_address=nic.ip_address,
        )

    def ensure_leases(self, call: HostCall, guest: GuestSpec) -> None:
        """Add fixed DHCP leases for the addresses of a guest's NICs to the networks of libvirt."""
        with call.failing("network"):
            for nic in guest.nics:
                ensure_lease(call.connection, self.interface(nic, None))

    def _guarded_address(self, nic: NicSpec) -> str | None:
        """Return the only IP address from which a NIC may send, or None if the NIC may use any address."""
        is_guarded = self.can_filter and self._calls.options.anti_spoofing and _is_ipv4(nic.ip_address)
        return nic.ip_address if is_guarded else None


def _is_ipv4(address: str | None) -> bool:
    return address is not None and ipaddress.ip_address(address).version == 4
