"""Adding NICs to VMs and removing them: addresses and rows, for calls and for jobs.

Networks and address ranges are locked before the VM (ADR 5).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from bulkdeploy.domain.deployments.deployment import NetworkFacts
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.networks.addresses import GENERATED_MACS
from bulkdeploy.domain.networks.guest_networks import GuestType
from bulkdeploy.store.deployments.deployment_facts import names_in_use
from bulkdeploy.store.ledger.addresses import (
    Address,
    take_addresses,
    take_mac_addresses,
    take_named_address,
    will_be_generated,
)
from bulkdeploy.store.networks import nics as store
from bulkdeploy.store.networks.network_changes import keep_networks
from bulkdeploy.store.virtual_machines.guests import lock_vm

NO_MAC = "00:00:00:00:00:00"
MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")


@dataclass(frozen=True, slots=True)
class AddedNic:
    """A NIC that was inserted, and the locked row of its VM."""

    id: int
    uuid: UUID
    vm: Row[Any]


def add_nic(
    connection: Connection, vm_id: int, network: NetworkFacts, ip_address: str | None, mac: str | None
) -> AddedNic:
    """Add a NIC to a VM with the requested IP and MAC address, or with free ones.

    Raises:
        InvalidParameter: the VM is already in the network, its name or the MAC address is already used there, or
            the IP address is malformed or already used.
        InsufficientAddresses: the network has no free address.
        TransactionConflict: a concurrent transaction changed the VM or the network; the whole transaction must be
            repeated.
    """
    keep_networks(connection, [network.id])
    address = take_address(connection, network, ip_address)
    vm = lock_vm(connection, vm_id)
    there = store.live_nics(connection, vm_id)
    if any(nic.network_id == network.id for nic in there):
        raise InvalidParameter("networkid", network.name, f"VM {vm.uuid} has a nic in this network already")
    if names_in_use(connection, [vm.name], [network.id]):
        raise InvalidParameter("networkid", network.name, f"another VM of this network has the name {vm.name}")
    chosen = take_mac_addresses(connection, 1)[0] if mac is None else checked_mac(connection, "macaddress", mac)
    taken = {nic.device_id for nic in there}
    device_id = next(number for number in range(len(there) + 1) if number not in taken)
    made = store.insert_nic(
        connection,
        vm_id,
        network.id,
        address,
        chosen,
        device_id,
        default=not there,
        has_requested_ip=ip_address is not None,
        has_requested_mac=mac is not None,
    )
    return AddedNic(made.id, made.uuid, vm)


def remove_nic(connection: Connection, vm_id: int, nic: EntityRef) -> Row[Any]:
    """Remove a NIC that the guest does not have, release its address, and return the locked row of the VM.

    Raises:
        InvalidParameter: the VM does not have this NIC, or it is the default NIC.
    """
    store.lock_ranges_of(connection, nic.id)
    vm = lock_vm(connection, vm_id)
    check_removable(store.live_nics(connection, vm_id), vm.uuid, nic)
    store.remove_nic(connection, nic.id)
    return vm


def undo_nic(connection: Connection, nic_id: int) -> None:
    """Remove a NIC that was added but that no guest has, and release its address."""
    store.lock_ranges_of(connection, nic_id)
    store.remove_nic(connection, nic_id)


def check_removable(nics: Sequence[Row[Any]], vm_uuid: UUID, nic: EntityRef) -> None:
    """Check that the NIC belongs to the VM and may be removed.

    Raises:
        InvalidParameter: the VM does not have this NIC, or it is the default NIC.
    """
    if nic_of(nics, vm_uuid, nic).is_default:
        rule = "it is the VM's default nic; choose another one with updateDefaultNicForVirtualMachine first"
        raise InvalidParameter("nicid", str(nic.uuid), rule)


def nic_of(nics: Sequence[Row[Any]], vm_uuid: UUID, nic: EntityRef) -> Row[Any]:
    """Return the row of a VM's NIC, out of ``nics``.

    Raises:
        InvalidParameter: the VM does not have this NIC.
    """
    for found in nics:
        if found.id == nic.id:
            return found
    raise InvalidParameter("nicid", str(nic.uuid), f"VM {vm_uuid} has no such nic")


def checked_mac(connection: Connection, parameter: str, mac: str) -> str:
    """Check a MAC address for a new NIC, and return it in lower case. Errors name ``parameter``.

    Raises:
        InvalidParameter: the address is malformed, is a multicast or zero address, is used by another NIC, or will
            be generated for another NIC.
    """
    if not MAC.fullmatch(mac.lower()) or mac == NO_MAC:
        raise InvalidParameter(parameter, mac, "it must be a unicast MAC address, such as 02:00:5e:10:00:01")
    if will_be_generated(connection, mac.lower()):
        begin = f"addresses that begin with {GENERATED_MACS}"
        rule = f"{begin} are generated for nics: it must begin differently, or be an address that was generated"
        raise InvalidParameter(parameter, mac, rule)
    if store.mac_in_use(connection, mac.lower()):
        raise InvalidParameter(parameter, mac, "another nic has it")
    return mac.lower()


def take_address(
    connection: Connection,
    network: NetworkFacts,
    ip_address: str | None,
    pod_id: int | None = None,
    *,
    parameter: str = "ipaddress",
) -> Address | None:
    """Assign the requested address, or a free one for the pod. Returns None if the network has no addresses.

    Raises:
        InvalidParameter: the address is malformed or in use, or the network has no addresses.
        InsufficientAddresses: the network has no free address.
    """
    if network.guest_type == GuestType.L2:
        if ip_address is not None:
            raise InvalidParameter(parameter, ip_address, "an L2 network has no addresses")
        return None
    if ip_address is None:
        return take_addresses(connection, network.id, network.name, [pod_id])[0]
    try:
        IPv4Address(ip_address)
    except ValueError:
        raise InvalidParameter(parameter, ip_address, "it must be an IPv4 address such as 10.1.0.17") from None
    named = take_named_address(connection, network.id, ip_address)
    if named is None:
        raise InvalidParameter(
            parameter, ip_address, f"it is in use, or outside the ranges of network {network.name}"
        )
    return named
