"""assignVirtualMachine: the assignment of a VM to another owner."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import string, uuid, uuids
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidCombination, PermissionDenied, ResourceLimitExceeded
from bulkdeploy.services.ownership import NamedOwner
from bulkdeploy.services.virtual_machines import virtual_machine_assignment


def assign_virtual_machine(call: Call) -> Mapping[str, Any]:
    """Assign a stopped VM to another account or project, and return the VM.

    Raises:
        InvalidCombination: neither an account nor a project is named.
    """
    named = NamedOwner(call.text("account"), call.ref_id("domainid"), call.ref_id("projectid"))
    if named == NamedOwner():
        raise InvalidCombination(("account", "projectid"), "account and domainid, or projectid, must be given")
    return virtual_machine_assignment.assign_virtual_machine(
        call.connection,
        call.caller,
        call.arguments["virtualmachineid"],
        named,
        call.arguments.get("securitygroupids"),
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        name="assignVirtualMachine",
        description="Assigns a stopped virtual machine and its volumes to another account. Its nics are unchanged.",
        handler=assign_virtual_machine,
        shape=Shape.OBJECT,
        response=VIRTUAL_MACHINE,
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN, RoleType.DOMAIN_ADMIN}),
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=(
            uuid("virtualmachineid", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            string("account", "the name of the account that will own the VM; requires domainid"),
            uuid("domainid", Entity.DOMAIN, "the domain of the account"),
            uuid("projectid", Entity.PROJECT, "the project that will own the VM; used instead of account"),
            uuids(
                "securitygroupids",
                Entity.SECURITY_GROUP,
                "security groups of the new owner; if left out, the new owner's group named default",
            ),
        ),
        unsupported={
            "networkids": "a VM keeps its nics; use addNicToVirtualMachine and removeNicFromVirtualMachine instead"
        },
    ),
)
