"""Changes of VMs by users: names, flags, details, groups, keys and user data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.deployments.deployment import DeployRequest
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines.device_parameters import VARIANT, is_device_parameter
from bulkdeploy.domain.virtual_machines.firmware import UEFI
from bulkdeploy.domain.virtual_machines.virtual_machines import GONE, VmState
from bulkdeploy.drivers.abilities.starts import GuestPasswords
from bulkdeploy.services.abilities import has_ability
from bulkdeploy.services.deployments.deployment_groups import check_affinity_groups, check_key_pairs
from bulkdeploy.services.deployments.deployment_names import require_host_name
from bulkdeploy.services.deployments.deployment_networks import requested_security_groups
from bulkdeploy.services.deployments.registered_user_data import registered_content
from bulkdeploy.services.deployments.user_data import check_user_data
from bulkdeploy.services.given_details import check_ha_priority, check_no_extra_config
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import NamedOwner, require_access, require_same_owner
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.guest_passwords import with_password
from bulkdeploy.services.virtual_machines.leases import changed_lease
from bulkdeploy.services.virtual_machines.virtual_machine_changes import (
    Change,
    changing,
    shown,
    vm_reference,
)
from bulkdeploy.services.virtual_machines.virtual_machine_sizes import SIZE_DETAILS
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.deployments.deployment_facts import names_in_use, read_networks
from bulkdeploy.store.deployments.deployment_rows import ensure_instance_group
from bulkdeploy.store.ledger.placed_vms import lock_affinity_groups
from bulkdeploy.store.networks.nics import reserve_name
from bulkdeploy.store.virtual_machines import virtual_machine_changes as rows

STOPPED = frozenset({VmState.STOPPED})

UPDATE = Change(EventType.VM_UPDATE, "update")
RESET_SSH_KEY = Change(EventType.VM_RESET_SSH_KEY, "reset the SSH key of", STOPPED)
RESET_USER_DATA = Change(EventType.VM_RESET_USER_DATA, "reset the user data of", STOPPED)
UPDATE_AFFINITY_GROUPS = Change(EventType.VM_AFFINITY_GROUP_UPDATE, "change the affinity groups of", STOPPED)

COMMANDS = "org.apache.cloudstack.api.command.user"
ADMIN_COMMANDS = "org.apache.cloudstack.api.command.admin"


@dataclass(frozen=True, slots=True)
class GivenUserData:
    """The user data of a call: a text, or the id of registered user data. ``method`` is GET or POST."""

    text: str | None
    registered: EntityRef | None
    method: str

    def content(self, connection: Connection, caller: Caller) -> str | None:
        """Return the user data in base64.

        The result is empty if the call removes the user data, and None if the call does not change it.

        Raises:
            InvalidCombination: both a text and registered user data are given.
            InvalidParameter: the text violates a rule of user data, or the registered user data was deleted.
            PermissionDenied: the caller may not use the registered user data.
        """
        if self.text is not None and self.registered is not None:
            raise InvalidCombination(("userdata", "userdataid"), "userdata and userdataid cannot be given together")
        if self.text == "":
            return ""
        if self.text is not None:
            most = read_configuration(connection).number("vm.userdata.max.length")
            return check_user_data(self.text, method=self.method, most=most)
        if self.registered is None:
            return None
        return registered_content(connection, caller, self.registered)


@dataclass(frozen=True, slots=True)
class VmUpdate:
    """The changes of updateVirtualMachine.

    Values that are None do not change. ``columns`` are written unchanged.
    """

    name: str | None = None
    display_name: str | None = None
    group: str | None = None
    columns: Mapping[str, bool | int] | None = None
    details: Mapping[str, str] | None = None
    forget_details: bool = False
    user_data: GivenUserData | None = None
    security_group_ids: tuple[EntityRef, ...] | None = None
    security_group_names: tuple[str, ...] | None = None
    lease_days: int | None = None
    lease_action: str | None = None


def update_virtual_machine(
    connection: Connection, caller: Caller, vm: EntityRef, given: VmUpdate
) -> Mapping[str, Any]:
    """Change the given fields of a VM, and return the VM.

    New names and user data reach the guest at its next start.

    Raises:
        PermissionDenied: the caller may not access the VM, or the VM's owner may not use a group.
        InvalidParameter, InvalidCombination: a value violates a rule. In this case nothing is changed.
    """
    with changing(connection, caller, vm, UPDATE) as (row, owner):
        values: dict[str, Any] = dict(given.columns or {})
        if given.name is not None:
            _take_name(connection, row, given.name)
            values["name"] = given.name
        if given.display_name is not None:
            values["display_name"] = given.display_name
        if given.group is not None:
            values["group_id"] = ensure_instance_group(connection, owner, given.group or None)
        details = new_details(caller, row, given)
        if details is not None:
            values["details"] = details
        content = None if given.user_data is None else given.user_data.content(connection, caller)
        if content is not None:
            values["user_data"] = content
        if given.security_group_ids is not None or given.security_group_names is not None:
            _change_security_groups(connection, row, owner, given)
        values.update(changed_lease(connection, row, given.lease_days, given.lease_action))
        rows.update_vm(connection, vm.id, values)
        return shown(connection, vm)


def _take_name(connection: Connection, row: Row[Any], name: str) -> None:
    require_host_name("name", name)
    if name.lower() == row.name.lower():
        return
    if names_in_use(connection, [name], rows.network_ids_of(connection, row.id)):
        raise InvalidParameter("name", name, "another virtual machine in the network's domain has this host name")
    if row.state not in GONE:
        reserve_name(connection, row.id, name)


def new_details(caller: Caller, row: Row[Any], given: VmUpdate) -> dict[str, str] | None:
    """Return the complete new details of a VM, or None if nothing changes.

    The given details replace all details of the VM, except details that only deploy calls set.

    Raises:
        InvalidCombination, InvalidParameter: the details violate a rule.
        PermissionDenied: only root admins may set one of them.
    """
    if given.details is None and not given.forget_details:
        return None
    if given.details is not None and given.forget_details:
        raise InvalidCombination(
            ("details", "cleanupdetails"), "details and cleanupdetails cannot be given together"
        )
    check_no_extra_config(given.details or {}, "details")
    check_ha_priority(caller, given.details or {}, "details")
    kept = {name: value for name, value in row.details.items() if _is_of_deployment(name)}
    for name, value in (given.details or {}).items():
        if name in SIZE_DETAILS and kept.get(name) != value:
            rule = "sizes are changed with the service offering: changeServiceForVirtualMachine"
            raise InvalidParameter(f"details[0].{name}", value, rule)
        if _is_of_deployment(name) and kept.get(name) != value:
            raise InvalidParameter(
                f"details[0].{name}", value, "the value is set when the VM is deployed and cannot be changed"
            )
    return {**kept, **(given.details or {})}


def _is_of_deployment(name: str) -> bool:
    return name in SIZE_DETAILS or name in (VARIANT, UEFI) or is_device_parameter(name)


def _change_security_groups(connection: Connection, row: Row[Any], owner: Owner, given: VmUpdate) -> None:
    """Change the security groups of a stopped VM.

    Running VMs are rejected, because their hosts already enforce the rules.
    """
    parameter = "securitygroupids" if given.security_group_names is None else "securitygroupnames"
    if row.has_job or row.state != VmState.STOPPED:
        raise InvalidParameter("id", str(row.uuid), f"{parameter} can be changed only while it is Stopped")
    networks = read_networks(connection, ids=rows.network_ids_of(connection, row.id))
    if not any(network.has_security_groups for network in networks):
        raise InvalidParameter(parameter, None, "no network of the virtual machine has security groups")
    ids = None if given.security_group_ids is None else {ref.id: str(ref.uuid) for ref in given.security_group_ids}
    request = DeployRequest.of_existing(
        row,
        security_group_ids=None if ids is None else tuple(ids),
        security_group_names=None if ids else given.security_group_names,
        uuids={"securitygroupids": ids or {}},
    )
    rows.replace_security_groups(connection, row.id, requested_security_groups(connection, request, owner))


def reset_ssh_key(
    connection: Connection, system: System, caller: Caller, vm: EntityRef, names: Sequence[str], named: NamedOwner
) -> JobTicket:
    """Replace the SSH key pairs of a stopped VM. The guest gets the new keys at its next start.

    If the template and the hypervisor support passwords, the VM also gets a new password, as in CloudStack. The
    job's result contains the password.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter: the VM is not stopped, a key pair does not exist, or the VM does not belong to the named
            owner.
    """
    with changing(connection, caller, vm, RESET_SSH_KEY) as (row, owner):
        require_same_owner(connection, caller, named, [owner.account_id], "virtual machine")
        check_key_pairs(connection, names, owner)
        rows.update_vm(connection, row.id, {"key_pairs": list(dict.fromkeys(names))})
        cmd = f"{COMMANDS}.vm.ResetVMSSHKeyCmd"
        is_shown_once = has_ability(system.drivers, row.hypervisor, GuestPasswords)
        if is_shown_once and rows.takes_passwords(connection, row.template_id):
            result = with_password(connection, system.cipher, vm, None)
        else:
            result = shown(connection, vm)
        return done_with_object(connection, caller, cmd, "virtualmachine", result, vm_reference(vm))


def reset_user_data(
    connection: Connection, caller: Caller, vm: EntityRef, given: GivenUserData, named: NamedOwner
) -> Mapping[str, Any]:
    """Replace the user data of a stopped VM, and return the VM. If no user data is given, it is removed.

    Raises:
        PermissionDenied: the caller may not access the VM.
        InvalidParameter, InvalidCombination: the VM is not stopped, or the user data violates a rule.
    """
    with changing(connection, caller, vm, RESET_USER_DATA) as (row, owner):
        require_same_owner(connection, caller, named, [owner.account_id], "virtual machine")
        rows.update_vm(connection, row.id, {"user_data": given.content(connection, caller) or ""})
        return shown(connection, vm)


def update_affinity_groups(
    connection: Connection,
    caller: Caller,
    vm: EntityRef,
    groups: tuple[EntityRef, ...] | None,
    names: tuple[str, ...] | None,
) -> JobTicket:
    """Set the affinity groups of a stopped VM. They apply at the next placement of the VM.

    An empty list removes the VM from all groups. If ids are given, an empty list of names is ignored.

    Raises:
        PermissionDenied: the caller may not access the VM, or the VM's owner may not use a group.
        InvalidParameter: the VM is not stopped, or a group does not exist.
        InvalidCombination: neither ids nor names are given.
    """
    if groups is None and names is None:
        raise InvalidCombination(
            ("affinitygroupids", "affinitygroupnames"), "affinitygroupids or affinitygroupnames must be given"
        )
    with changing(connection, caller, vm, UPDATE_AFFINITY_GROUPS) as (row, owner):
        ids = None if groups is None else {ref.id: str(ref.uuid) for ref in groups}
        request = DeployRequest.of_existing(
            row,
            affinity_group_ids=None if ids is None else tuple(ids),
            affinity_group_names=None if groups else names,
            uuids={"affinitygroupids": ids or {}},
        )
        chosen = [group.id for group in check_affinity_groups(connection, request, owner)]
        lock_affinity_groups(connection, chosen)
        rows.replace_affinity_groups(connection, row.id, chosen)
        cmd = f"{COMMANDS}.affinitygroup.UpdateVMAffinityGroupCmd"
        return done_with_object(connection, caller, cmd, "virtualmachine", shown(connection, vm), vm_reference(vm))


def user_data_of(connection: Connection, caller: Caller, vm: EntityRef) -> Mapping[str, Any]:
    """Return the response fields with the VM's user data.

    Raises:
        PermissionDenied: the caller may not see the VM.
        InvalidParameter: the VM was expunged.
    """
    row = rows.read_vm_row(connection, vm.id)
    require_access(connection, caller, row.account_id, f"virtual machine {vm.uuid}")
    if row.removed is not None:
        raise InvalidParameter("virtualmachineid", str(vm.uuid), "the virtual machine was expunged")
    return {"virtualmachineid": vm.uuid, "userdata": rows.user_data_of(connection, vm.id) or None}
