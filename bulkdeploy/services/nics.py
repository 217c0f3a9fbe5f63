"""Nics added to virtual machines, taken away, and made the default (reference section 8.16).

Rows only: a running guest gets its new nics when it is started the next time.
"""

import re
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller, Owner
from bulkdeploy.domain.deployment import NetworkFacts
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.guest_networks import GuestType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.services.deployment_networks import is_usable
from bulkdeploy.services.done_jobs import done_with_object
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.store import deployment_facts as facts
from bulkdeploy.store import nics as store
from bulkdeploy.store.addresses import Address, take_addresses, take_mac_addresses, take_named_address
from bulkdeploy.store.done_jobs import Instance
from bulkdeploy.store.engine import run_transaction
from bulkdeploy.store.events import record_event
from bulkdeploy.store.guests import lock_vm
from bulkdeploy.store.network_changes import keep_networks
from bulkdeploy.store.virtual_machines import virtual_machine_rows

COMMANDS = "org.apache.cloudstack.api.command.admin.vm"
MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")
SETTLED = frozenset({VmState.RUNNING, VmState.STOPPED})


def add_nic(
    system: System, caller: Caller, vm: EntityRef, network: EntityRef, ip_address: str | None, mac: str | None
) -> JobTicket:
    """Give a VM one more nic; the job's result is the VM.

    Raises:
        InvalidParameter: the VM is in no state for it or in the network already, the network is not for it,
            or the address or MAC address is malformed or in use.
        PermissionDenied: the VM is not the caller's, or its owner may not use the network.
        InsufficientAddresses: the network has no address left.
    """
    if mac is not None and not MAC.fullmatch(mac.lower()):
        raise InvalidParameter("macaddress", mac, "it should be one nic's MAC address, such as 02:00:5e:10:00:01")

    def change(connection: Connection, row: Row[Any], address: Address | None) -> str:
        there = store.live_nics(connection, vm.id)
        if any(nic.network_id == network.id for nic in there):
            raise InvalidParameter("networkid", network.name, f"VM {vm.uuid} has a nic in this network already")
        if mac is not None and store.mac_in_use(connection, mac.lower()):
            raise InvalidParameter("macaddress", mac, "another nic has it")
        chosen = take_mac_addresses(connection, 1)[0] if mac is None else mac.lower()
        taken = {nic.device_id for nic in there}
        device_id = next(number for number in range(len(there) + 1) if number not in taken)
        store.insert_nic(connection, vm.id, network.id, address, chosen, device_id, default=not there)
        return f"added a nic in network {network.name} to Vm {row.name}"

    def work(connection: Connection) -> JobTicket:
        row, owner = _vm(connection, caller, vm)
        found = _network(connection, row, owner, network)
        keep_networks(connection, [network.id])
        address = _address(connection, found, ip_address)
        return _changed(
            connection,
            caller,
            vm,
            "AddNicToVM",
            EventType.NIC_CREATE,
            lambda vm_row: change(connection, vm_row, address),
        )

    return run_transaction(system.engine, work)


def remove_nic(system: System, caller: Caller, vm: EntityRef, nic: EntityRef) -> JobTicket:
    """Take a nic from a VM, and give its address back; the job's result is the VM.

    Raises:
        InvalidParameter: the VM is in no state for it or has no such nic, or it is the default one.
        PermissionDenied: the VM is not the caller's.
    """

    def work(connection: Connection) -> JobTicket:
        _vm(connection, caller, vm)
        store.lock_range_of(connection, nic.id)

        def change(row: Row[Any]) -> str:
            found = _nic_of(store.live_nics(connection, vm.id), vm, nic)
            if found.is_default:
                raise InvalidParameter(
                    "nicid",
                    str(nic.uuid),
                    "it is the VM's default nic; updateDefaultNicForVirtualMachine makes another",
                )
            store.remove_nic(connection, nic.id)
            return f"took nic {nic.uuid} from Vm {row.name}"

        return _changed(connection, caller, vm, "RemoveNicFromVM", EventType.NIC_DELETE, change)

    return run_transaction(system.engine, work)


def make_default_nic(system: System, caller: Caller, vm: EntityRef, nic: EntityRef) -> JobTicket:
    """Make one of a VM's nics the default one; the job's result is the VM.

    Raises:
        InvalidParameter: the VM is in no state for it or has no such nic, or it is the default one already.
        PermissionDenied: the VM is not the caller's.
    """

    def work(connection: Connection) -> JobTicket:
        _vm(connection, caller, vm)

        def change(row: Row[Any]) -> str:
            found = _nic_of(store.live_nics(connection, vm.id), vm, nic)
            if found.is_default:
                raise InvalidParameter("nicid", str(nic.uuid), "it is the VM's default nic already")
            store.make_default(connection, vm.id, nic.id)
            return f"made nic {nic.uuid} the default one of Vm {row.name}"

        return _changed(connection, caller, vm, "UpdateDefaultNicForVM", EventType.NIC_UPDATE, change)

    return run_transaction(system.engine, work)


def _changed(
    connection: Connection,
    caller: Caller,
    vm: EntityRef,
    command: str,
    event_type: EventType,
    change: Callable[[Row[Any]], str],
) -> JobTicket:
    """Lock the VM, make the change, and write its event and the job that is done."""
    row = lock_vm(connection, vm.id)
    if row.removed or row.has_job or VmState(row.state) not in SETTLED:
        state = "expunged" if row.removed else "worked on by another job" if row.has_job else row.state
        raise InvalidParameter("virtualmachineid", str(vm.uuid), f"it is {state}; it should be Running or Stopped")
    text = change(row)
    about = Instance("VirtualMachine", vm.id, vm.uuid)
    owner = require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")
    record_event(connection, caller, event_type, text, about, owner)
    shown = virtual_machine_rows(connection, [vm.id])[vm.id]
    cmd = (
        f"{COMMANDS}.{command}CmdByAdmin"
        if caller.is_root_admin
        else f"{COMMANDS.replace('.admin.', '.user.')}.{command}Cmd"
    )
    return done_with_object(connection, caller, cmd, "virtualmachine", shown, about)


def _vm(connection: Connection, caller: Caller, vm: EntityRef) -> tuple[Row[Any], Owner]:
    """The VM, not locked yet, and its owner: addresses are locked before VMs."""
    row = store.read_vm(connection, vm.id)
    return row, require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")


def _network(connection: Connection, vm: Row[Any], owner: Owner, network: EntityRef) -> NetworkFacts:
    found = facts.read_networks(connection, ids=[network.id])
    if not found:
        raise InvalidParameter("networkid", str(network.uuid), "the network was deleted")
    if not is_usable(found[0], owner):
        raise PermissionDenied(
            f"Account {owner.account_name} does not have permission to use network {network.uuid}"
        )
    if found[0].is_system or found[0].zone_id != vm.zone_id:
        raise InvalidParameter("networkid", network.name, "it should be a guest network of the VM's zone")
    if found[0].has_security_groups:
        raise InvalidParameter("networkid", network.name, "a VM has one network where security groups are enabled")
    return found[0]


def _address(connection: Connection, network: NetworkFacts, ip_address: str | None) -> Address | None:
    if network.guest_type == GuestType.L2:
        if ip_address is not None:
            raise InvalidParameter("ipaddress", ip_address, "an L2 network has no addresses")
        return None
    if ip_address is None:
        return take_addresses(connection, network.id, network.name, [None])[0]
    try:
        IPv4Address(ip_address)
    except ValueError:
        raise InvalidParameter("ipaddress", ip_address, "it should be an IPv4 address such as 10.1.0.17") from None
    named = take_named_address(connection, network.id, ip_address)
    if named is None:
        raise InvalidParameter(
            "ipaddress", ip_address, f"it is in use, or outside the ranges of network {network.name}"
        )
    return named


def _nic_of(nics: Sequence[Row[Any]], vm: EntityRef, nic: EntityRef) -> Row[Any]:
    for found in nics:
        if found.id == nic.id:
            return found
    raise InvalidParameter("nicid", str(nic.uuid), f"VM {vm.uuid} has no such nic")
