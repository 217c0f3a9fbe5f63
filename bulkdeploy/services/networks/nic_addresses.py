"""Secondary addresses of NICs, and changes of primary addresses. Only rows change; no hypervisor is called."""

from collections.abc import Collection
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.deployments.deployment import NetworkFacts
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState, one_of
from bulkdeploy.provisioning.kinds.networks.add_nic import ADD_NIC
from bulkdeploy.scheduling.nics import take_address
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.networks.nics import finished_nic_job, vm_of
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.deployments import deployment_facts as facts
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.ledger.addresses import Address, lock_ranges
from bulkdeploy.store.networks import nics
from bulkdeploy.store.networks import secondary_ips as store
from bulkdeploy.store.networks.network_changes import keep_networks
from bulkdeploy.store.virtual_machines.guests import lock_vm

COMMANDS = "org.apache.cloudstack.api.command.user.vm"
MOST = "vm.network.nic.max.secondary.ipaddresses"


def add_ip(connection: Connection, caller: Caller, nic: EntityRef, ip_address: str | None) -> JobTicket:
    """Add a secondary IP address to a NIC; the job's result is the secondary address.

    If no address is requested, a free address of the network is used.

    Raises:
        InvalidParameter: the VM's state does not allow the operation, the NIC was removed or has the maximum number
            of addresses, its network has no addresses, or the address is malformed or in use.
        PermissionDenied: the caller may not access the VM.
        InsufficientAddresses: the network has no free address.
    """
    held, vm, owner, network = _lock(connection, caller, "nicid", nic, nic.id, ADD_NIC.states)
    most, used = read_configuration(connection).number(MOST), store.count_secondary_ips(connection, nic.id)
    if used >= most:
        rule = f"Allocating guest ip for nic failed: it has {used} secondary addresses, and {MOST} is {most}"
        raise InvalidParameter("nicid", str(nic.uuid), rule)
    address = _take(connection, vm, network, nic, ip_address)
    made = store.insert_secondary_ip(connection, held, address)
    text = f"gave nic {nic.uuid} of Vm {vm.name} the secondary address {address.ip}"
    instance = Instance("NicSecondaryIp", made.id, made.uuid)
    record_event(connection, caller, EventType.NIC_SECONDARY_IP_ASSIGN, text, instance, owner)
    row = {
        "id": made.uuid,
        "ipaddress": address.ip,
        "nicid": nic.uuid,
        "networkid": network.uuid,
        "virtualmachineid": vm.uuid,
    }
    cmd = f"{COMMANDS}.AddIpToVmNicCmd"
    return done_with_object(connection, caller, cmd, "nicsecondaryip", row, instance, created=True)


def remove_ip(connection: Connection, caller: Caller, ip: EntityRef) -> JobTicket:
    """Remove a secondary IP address from its NIC and release it. The job's result is only a success.

    Raises:
        InvalidParameter: the address was removed, or the VM's state does not allow the operation.
        PermissionDenied: the caller may not access the VM.
    """
    seen = store.read_secondary_ip(connection, ip.id)
    if seen is None:
        raise InvalidParameter("id", str(ip.uuid), "the secondary address was removed")
    _, vm, owner, _ = _lock(connection, caller, "id", ip, seen.nic_id, ADD_NIC.states)
    if store.read_secondary_ip(connection, ip.id) is None:
        raise InvalidParameter("id", str(ip.uuid), "the secondary address was removed")
    store.delete_secondary_ip(connection, seen)
    text = f"took the secondary address {seen.ip_address} from Vm {vm.name}"
    instance = Instance("NicSecondaryIp", ip.id, ip.uuid)
    record_event(connection, caller, EventType.NIC_SECONDARY_IP_UNASSIGN, text, instance, owner)
    return done_with_success(connection, caller, f"{COMMANDS}.RemoveIpFromVmNicCmd", instance)


def change_ip(connection: Connection, caller: Caller, nic: EntityRef, ip_address: str | None) -> JobTicket:
    """Change the primary IP address of a NIC of a stopped VM; the job's result is the VM.

    The guest uses the new address from its next start.

    Raises:
        InvalidParameter, PermissionDenied, InsufficientAddresses: under the same conditions as ``add_ip``; or the
        VM is not Stopped.
    """
    held, vm, _, network = _lock(connection, caller, "nicid", nic, nic.id, {VmState.STOPPED})
    address = _take(connection, vm, network, nic, ip_address)
    store.change_address(connection, held, address, is_requested=ip_address is not None)
    text = f"gave nic {nic.uuid} of Vm {vm.name} the address {address.ip}"
    of_vm = EntityRef(Entity.VIRTUAL_MACHINE, vm.id, vm.uuid, vm.name)
    return finished_nic_job(connection, caller, of_vm, EventType.NIC_UPDATE, f"{COMMANDS}.UpdateVmNicIpCmd", text)


def _lock(
    connection: Connection,
    caller: Caller,
    parameter: str,
    named: EntityRef,
    nic_id: int,
    states: Collection[StrEnum],
) -> tuple[Row[Any], Row[Any], Owner, NetworkFacts]:
    """Lock a VM, and all addresses of the network of its NIC.

    Return the NIC, the VM's row, its owner and the network.
    """
    seen = store.read_nic(connection, nic_id)
    if seen is None:
        raise InvalidParameter(parameter, str(named.uuid), "the nic was removed")
    vm = nics.read_vm(connection, seen.vm_id)
    _, owner = vm_of(connection, caller, EntityRef(Entity.VIRTUAL_MACHINE, vm.id, vm.uuid, vm.name))
    keep_networks(connection, [seen.network_id])
    lock_ranges(connection, [seen.network_id])
    row = lock_vm(connection, seen.vm_id)
    if row.account_id != vm.account_id:
        raise TransactionConflict
    if row.removed or row.has_job or row.state not in states:
        state = "expunged" if row.removed else "worked on by a job" if row.has_job else row.state
        rule = f"its virtual machine is {state}; it must be {one_of(states)}"
        raise InvalidParameter(parameter, str(named.uuid), rule)
    held = store.read_nic(connection, nic_id)
    if held is None:
        raise InvalidParameter(parameter, str(named.uuid), "the nic was removed")
    (network,) = facts.read_networks(connection, ids=[seen.network_id])
    return held, row, owner, network


def _take(
    connection: Connection, vm: Row[Any], network: NetworkFacts, nic: EntityRef, ip_address: str | None
) -> Address:
    address = take_address(connection, network, ip_address, vm.pod_id)
    if address is None:
        raise InvalidParameter(
            "nicid", str(nic.uuid), "the network of the NIC is an L2 network, which has no addresses"
        )
    return address
