"""Commands that change names, flags, groups, keys, user data and sizes of VMs (one file: changes of a row)."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.parameters.lease_parameters import LEASE, LEASE_RULES, lease_of
from bulkdeploy.commands.unsupported import NO_QUALITY_OF_SERVICE
from bulkdeploy.commands.virtual_machines.key_pair_parameters import key_pair_names
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import (
    Exclusive,
    Parameter,
    boolean,
    details_of,
    mapping,
    string,
    strings,
    uuid,
    uuids,
)
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidCombination, PermissionDenied, ResourceLimitExceeded
from bulkdeploy.services.ownership import NamedOwner
from bulkdeploy.services.virtual_machines import virtual_machine_sizes, virtual_machine_updates
from bulkdeploy.services.virtual_machines.virtual_machine_updates import GivenUserData, VmUpdate

FLAGS = {
    "haenable": "ha_enabled",
    "isdynamicallyscalable": "dynamic_scaling",
    "deleteprotection": "delete_protection",
    "displayvm": "display_vm",
}
"""Parameters that are flags, and their columns."""

USER_DATA = Response(
    "virtualmachineuserdata",
    (text("virtualmachineid", "the VM"), text("userdata", "the user data of the VM, in base64")),
)

VM = uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True)

NEW_SIZE: tuple[Parameter, ...] = (
    VM,
    uuid("serviceofferingid", Entity.SERVICE_OFFERING, "the new service offering", required=True),
    mapping("details", "cpuNumber, cpuSpeed (MHz) and memory (MiB) of custom offerings"),
)

OWNER: tuple[Parameter, ...] = (
    string("account", "the name of the account that owns the VM; requires domainid"),
    uuid("domainid", Entity.DOMAIN, "the domain of the account"),
    uuid("projectid", Entity.PROJECT, "the project that owns the VM; used instead of account"),
)

NO_USER_DATA_DETAILS = {"userdatadetails": "values of variables can be set only when a VM is deployed"}
NO_DISK_CHANGES = {
    "miniops": NO_QUALITY_OF_SERVICE,
    "maxiops": NO_QUALITY_OF_SERVICE,
    "shrinkok": "a change of the service offering does not resize root disks",
}


def update_virtual_machine(call: Call) -> Mapping[str, Any]:
    """Change the given fields of a VM, and return the VM."""
    arguments = call.arguments
    columns = {column: arguments[name] for name, column in FLAGS.items() if name in arguments}
    if (os_type := call.ref("ostypeid")) is not None:
        columns["os_type_id"] = os_type.id
    return virtual_machine_updates.update_virtual_machine(
        call.connection,
        call.caller,
        arguments["id"],
        VmUpdate(
            name=call.text("name"),
            display_name=call.text("displayname"),
            group=call.text("group"),
            columns=columns,
            details=None if "details" not in arguments else details_of(arguments["details"]),
            forget_details=call.flag("cleanupdetails"),
            user_data=_user_data(call),
            security_group_ids=arguments.get("securitygroupids"),
            security_group_names=arguments.get("securitygroupnames"),
            **lease_of(arguments),
        ),
    )


def change_service(call: Call) -> Mapping[str, Any]:
    """Change the service offering of a stopped VM, and return the VM."""
    return virtual_machine_sizes.change_service(
        call.connection,
        call.caller,
        call.arguments["id"],
        call.arguments["serviceofferingid"],
        details_of(call.arguments.get("details", ())),
    )


def scale_virtual_machine(call: Call) -> JobTicket:
    """Change the service offering of a stopped or running VM. The result of the job is the VM."""
    return virtual_machine_sizes.scale_virtual_machine(
        call.connection,
        call.system,
        call.caller,
        call.arguments["id"],
        call.arguments["serviceofferingid"],
        details_of(call.arguments.get("details", ())),
        may_move=call.flag("automigrate"),
    )


def reset_ssh_key(call: Call) -> JobTicket:
    """Replace the SSH key pairs of a stopped VM.

    Raises:
        InvalidCombination: no key pair is named.
    """
    names = key_pair_names(call)
    if not names:
        raise InvalidCombination(("keypair", "keypairs"), "keypair or keypairs must be given")
    return virtual_machine_updates.reset_ssh_key(
        call.connection, call.system, call.caller, call.arguments["id"], names, _named_owner(call)
    )


def reset_user_data(call: Call) -> Mapping[str, Any]:
    """Replace the user data of a stopped VM, and return the VM."""
    return virtual_machine_updates.reset_user_data(
        call.connection, call.caller, call.arguments["id"], _user_data(call), _named_owner(call)
    )


def update_affinity_groups(call: Call) -> JobTicket:
    """Replace the affinity groups of a stopped VM."""
    return virtual_machine_updates.update_affinity_groups(
        call.connection,
        call.caller,
        call.arguments["id"],
        call.arguments.get("affinitygroupids"),
        call.arguments.get("affinitygroupnames"),
    )


def get_user_data(call: Call) -> Mapping[str, Any]:
    """Return the user data of a VM."""
    return virtual_machine_updates.user_data_of(call.connection, call.caller, call.arguments["virtualmachineid"])


def _user_data(call: Call) -> GivenUserData:
    return GivenUserData(call.text("userdata"), call.ref("userdataid"), call.method)


def _named_owner(call: Call) -> NamedOwner:
    return NamedOwner(call.text("account"), call.ref_id("domainid"), call.ref_id("projectid"))


UPDATE_VIRTUAL_MACHINE = Command(
    name="updateVirtualMachine",
    description="Changes a virtual machine. Changed names and user data take effect in the guest at its next start",
    handler=update_virtual_machine,
    shape=Shape.OBJECT,
    response=VIRTUAL_MACHINE,
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        VM,
        string("name", "the new host name"),
        string("displayname", "the new display name"),
        string("group", "the instance group; created if it does not exist"),
        boolean("haenable", "whether the VM is started on another host if its host fails"),
        boolean("isdynamicallyscalable", "whether the VM may be scaled while it runs"),
        boolean("deleteprotection", "whether the VM is protected from being destroyed"),
        boolean("displayvm", "whether users can see the VM", roles=ROOT_ADMIN_ONLY),
        uuid("ostypeid", Entity.OS_TYPE, "the new guest OS type of the VM; it replaces that of the template"),
        mapping("details", "the new details of the VM, which replace all present details"),
        boolean("cleanupdetails", "true: delete all details; not with the parameter details"),
        string("userdata", "the new user data, in base64; not with userdataid", length=1048576),
        uuid("userdataid", Entity.USER_DATA, "the id of registered user data; not with userdata", since="4.18"),
        uuids(
            "securitygroupids",
            Entity.SECURITY_GROUP,
            "the new security groups; the VM must be stopped; empty: the group named default",
        ),
        strings(
            "securitygroupnames",
            "the names of the new security groups; the VM must be stopped; empty: the group named default",
        ),
        *LEASE,
    ),
    rules=(
        *LEASE_RULES,
        Exclusive(("securitygroupids", "securitygroupnames")),
        Exclusive(("userdata", "userdataid")),
    ),
    unsupported={
        **NO_USER_DATA_DETAILS,
        "customid": "the id of a VM cannot be changed",
        "dhcpoptionsnetworklist": "networks have no DHCP options",
        "extraconfig": "extra configuration for hypervisors is not supported",
        "instancename": "the name of a VM on the hypervisor cannot be changed",
    },
)

COMMANDS: tuple[Command, ...] = (
    UPDATE_VIRTUAL_MACHINE,
    Command(
        name="changeServiceForVirtualMachine",
        description="Changes the service offering of a stopped virtual machine",
        handler=change_service,
        shape=Shape.OBJECT,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=NEW_SIZE,
        unsupported={**NO_DISK_CHANGES, "automigrate": "volumes cannot be moved between pools"},
    ),
    Command(
        name="scaleVirtualMachine",
        description="Changes the service offering of a virtual machine. A running one can only grow.",
        handler=scale_virtual_machine,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=(
            *NEW_SIZE,
            boolean(
                "automigrate",
                "whether a running VM may be live-migrated to another host if its own host lacks capacity",
            ),
        ),
        unsupported=NO_DISK_CHANGES,
    ),
    Command(
        name="resetSSHKeyForVirtualMachine",
        description="Resets the SSH keys of a stopped virtual machine, and its password if the template"
        " supports passwords",
        handler=reset_ssh_key,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            VM,
            string("keypair", "a key pair of the VM's owner"),
            strings("keypairs", "key pairs of the VM's owner"),
            *OWNER,
        ),
    ),
    Command(
        name="resetUserDataForVirtualMachine",
        description="Resets the user data of a stopped virtual machine. It takes effect at the next start.",
        handler=reset_user_data,
        shape=Shape.OBJECT,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        since="4.18",
        parameters=(
            VM,
            string(
                "userdata",
                "the new user data, in base64. If both this and userdataid are left out, the VM has no user data",
                length=1048576,
            ),
            uuid("userdataid", Entity.USER_DATA, "the id of registered user data; not with userdata"),
            *OWNER,
        ),
        rules=(Exclusive(("userdata", "userdataid")),),
        unsupported=NO_USER_DATA_DETAILS,
    ),
    Command(
        name="getVirtualMachineUserData",
        description="Returns the user data of a virtual machine",
        handler=get_user_data,
        shape=Shape.OBJECT,
        response=USER_DATA,
        errors=(PermissionDenied,),
        parameters=(uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM", required=True),),
    ),
    Command(
        name="updateVMAffinityGroup",
        description="Changes the affinity groups of a stopped virtual machine",
        handler=update_affinity_groups,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        changes_state=True,
        envelope="updatevirtualmachineresponse",
        parameters=(
            VM,
            uuids(
                "affinitygroupids",
                Entity.AFFINITY_GROUP,
                "the new affinity groups of the VM, which replace the present ones; empty: no groups",
            ),
            strings(
                "affinitygroupnames",
                "the names of the new affinity groups of the VM, which replace the present ones; empty: no groups",
            ),
        ),
        rules=(Exclusive(("affinitygroupids", "affinitygroupnames")),),
    ),
)
