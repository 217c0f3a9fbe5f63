"""Operations on the NICs of VMs: add, remove, and make default.

The default NIC is stored only in rows; hypervisors do not know which NIC is the default.
"""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.deployments.deployment import NetworkFacts
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType, class_for
from bulkdeploy.domain.virtual_machines.virtual_machines import one_of
from bulkdeploy.provisioning.kinds.networks.add_nic import ADD_NIC
from bulkdeploy.provisioning.kinds.networks.remove_nic import REMOVE_NIC
from bulkdeploy.scheduling import nics as rows
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import require_access
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.device_changes import is_changed_now
from bulkdeploy.services.virtual_machines.virtual_machines import submit
from bulkdeploy.store.deployments import deployment_facts as facts
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event
from bulkdeploy.store.networks import nics as store
from bulkdeploy.store.virtual_machines.guests import lock_vm
from bulkdeploy.store.virtual_machines.virtual_machines import virtual_machine_rows

OF_VM = "virtualmachineid"
MAKE_DEFAULT_COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.vm.UpdateDefaultNicForVMCmdByAdmin"


def add_nic(
    connection: Connection,
    system: System,
    caller: Caller,
    vm: EntityRef,
    network: EntityRef,
    ip_address: str | None,
    mac: str | None,
) -> JobTicket:
    """Add a NIC to a VM; the job's result is the VM.

    If the VM runs, a job also adds the NIC to the guest.

    Raises:
        InvalidParameter: the VM's state does not allow the operation, the VM is in the network already, the network
            is not available to the VM, or the IP or MAC address is malformed or in use.
        PermissionDenied: the caller may not access the VM, or its owner may not use the network.
        InsufficientAddresses: the network has no free address.
    """
    if mac is not None and not rows.MAC.fullmatch(mac.lower()):
        raise InvalidParameter("macaddress", mac, "it must be a unicast MAC address, such as 02:00:5e:10:00:01")
    wanted = None if mac is None else mac.lower()
    row, owner = vm_of(connection, caller, vm)
    found = _network(connection, row, owner, network)

    def change() -> Row[Any]:
        return rows.add_nic(connection, vm.id, found, ip_address, wanted).vm

    if is_changed_now(connection, ADD_NIC, vm, owner.account_id, change):
        text = f"added a nic in network {network.name} to Vm {row.name}"
        return finished_nic_job(connection, caller, vm, ADD_NIC.event_type, ADD_NIC.command_class, text)
    params = {"network_id": network.id, "ip_address": ip_address, "mac_address": wanted}
    return submit(connection, system, caller, vm, ADD_NIC, params, parameter=OF_VM)


def remove_nic(connection: Connection, system: System, caller: Caller, vm: EntityRef, nic: EntityRef) -> JobTicket:
    """Remove a NIC from a VM; the job's result is the VM.

    If the VM runs, the NIC's address is released only after the guest has lost the NIC.

    Raises:
        InvalidParameter: the VM's state does not allow the operation, the VM does not have the NIC, or it is the
            default NIC.
        PermissionDenied: the caller may not access the VM.
    """
    row, owner = vm_of(connection, caller, vm)
    rows.check_removable(store.live_nics(connection, vm.id), vm.uuid, nic)
    change = partial(rows.remove_nic, connection, vm.id, nic)
    if is_changed_now(connection, REMOVE_NIC, vm, owner.account_id, change):
        text = f"took nic {nic.uuid} from Vm {row.name}"
        return finished_nic_job(connection, caller, vm, REMOVE_NIC.event_type, REMOVE_NIC.command_class, text)
    params = {"nic_id": nic.id, "nic_uuid": str(nic.uuid)}
    return submit(connection, system, caller, vm, REMOVE_NIC, params, parameter=OF_VM)


def make_default_nic(connection: Connection, caller: Caller, vm: EntityRef, nic: EntityRef) -> JobTicket:
    """Make a NIC the default NIC of its VM; the job's result is the VM.

    Raises:
        InvalidParameter: the VM's state does not allow the operation, the VM does not have the NIC, or it is the
            default NIC already.
        PermissionDenied: the caller may not access the VM.
    """
    vm_of(connection, caller, vm)
    row = lock_vm(connection, vm.id)
    if row.removed or row.has_job or row.state not in ADD_NIC.states:
        state = "expunged" if row.removed else "worked on by another job" if row.has_job else row.state
        rule = f"it is {state}; it must be {one_of(ADD_NIC.states)}"
        raise InvalidParameter("virtualmachineid", str(vm.uuid), rule)
    found = rows.nic_of(store.live_nics(connection, vm.id), vm.uuid, nic)
    if found.is_default:
        raise InvalidParameter("nicid", str(nic.uuid), "the NIC is already the VM's default NIC")
    store.make_default(connection, vm.id, nic.id)
    text = f"made nic {nic.uuid} the default one of Vm {row.name}"
    return finished_nic_job(connection, caller, vm, EventType.NIC_UPDATE, MAKE_DEFAULT_COMMAND_CLASS, text)


def finished_nic_job(
    connection: Connection, caller: Caller, vm: EntityRef, event_type: EventType, cmd: str, text: str
) -> JobTicket:
    """Record an event, and return the ticket of a finished job whose result is the VM.

    ``cmd`` is the class name of the command that root admins see.
    """
    about = Instance(InstanceType.VIRTUAL_MACHINE, vm.id, vm.uuid)
    _, owner = vm_of(connection, caller, vm)
    record_event(connection, caller, event_type, text, about, owner)
    shown = virtual_machine_rows(connection, [vm.id])[vm.id]
    cmd = class_for(cmd, is_root_admin=caller.is_root_admin)
    return done_with_object(connection, caller, cmd, "virtualmachine", shown, about)


def vm_of(connection: Connection, caller: Caller, vm: EntityRef) -> tuple[Row[Any], Owner]:
    """Return the row of a VM and its owner without locking it, because addresses must be locked before VMs."""
    row = store.read_vm(connection, vm.id)
    return row, require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")


def _network(connection: Connection, vm: Row[Any], owner: Owner, network: EntityRef) -> NetworkFacts:
    found = facts.read_networks(connection, ids=[network.id])
    if not found:
        raise InvalidParameter("networkid", str(network.uuid), "the network was deleted")
    if not found[0].is_usable_by(owner):
        raise PermissionDenied(
            f"Account {owner.account_name} does not have permission to use network {network.uuid}"
        )
    if found[0].is_system or found[0].zone_id != vm.zone_id:
        raise InvalidParameter("networkid", network.name, "it must be a guest network of the VM's zone")
    if found[0].has_security_groups:
        raise InvalidParameter("networkid", network.name, "a VM has one network where security groups are enabled")
    return found[0]
