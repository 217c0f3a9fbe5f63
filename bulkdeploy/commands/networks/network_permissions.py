"""createNetworkPermissions, removeNetworkPermissions, resetNetworkPermissions and listNetworkPermissions."""

from collections.abc import Sequence

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import strings, uuid, uuids
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.networks import network_permissions as service
from bulkdeploy.store.rows.listing import Page

PERMISSION = Response(
    "networkpermission",
    (
        text("networkid", "the network"),
        text("account", "an account that may use the network"),
        text("accountid", "the id of the account; for a project, the id of its internal account"),
        text("domainid", "the account's domain"),
        text("domain", "the name of the account's domain"),
        text("projectid", "a project that may use the network"),
        text("project", "the name of the project"),
    ),
)

NETWORK = uuid("networkid", Entity.NETWORK, "the network; it must be owned by an account", required=True)
ACCOUNTS = (
    strings("accounts", "names of accounts in the domain of the network's owner"),
    strings("accountids", "ids of accounts in the domain of the network's owner"),
    uuids("projectids", Entity.PROJECT, "projects in the domain of the network's owner"),
)


def create_permissions(call: Call) -> None:
    """Permit accounts and projects to have VMs in a network."""
    service.create_permissions(call.connection, call.caller, call.arguments["networkid"], *_accounts(call))


def remove_permissions(call: Call) -> None:
    """Remove the permissions of accounts and projects to have VMs in a network."""
    service.remove_permissions(call.connection, call.caller, call.arguments["networkid"], *_accounts(call))


def reset_permissions(call: Call) -> None:
    """Remove the permissions of all accounts and projects to have VMs in a network."""
    service.reset_permissions(call.connection, call.caller, call.arguments["networkid"])


def list_permissions(call: Call) -> Page:
    """Return the permissions to use a network.

    Raises:
        PermissionDenied: the caller may not act for the owner of the network.
    """
    network = call.arguments["networkid"]
    rows = service.list_permissions(call.connection, call.caller, network)
    return Page(rows, len(rows))


def _accounts(call: Call) -> tuple[Sequence[str], Sequence[str], Sequence[EntityRef]]:
    arguments = call.arguments
    return arguments.get("accounts", ()), arguments.get("accountids", ()), arguments.get("projectids", ())


COMMANDS = (
    Command(
        name="createNetworkPermissions",
        description="Allows other accounts of the owner's domain to use a network",
        handler=create_permissions,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(NETWORK, *ACCOUNTS),
    ),
    Command(
        name="removeNetworkPermissions",
        description="Removes permissions for a network. Virtual machines in the network stay.",
        handler=remove_permissions,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(NETWORK, *ACCOUNTS),
    ),
    Command(
        name="resetNetworkPermissions",
        description="Removes all permissions for a network. Virtual machines in the network stay.",
        handler=reset_permissions,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(NETWORK,),
    ),
    Command(
        name="listNetworkPermissions",
        description="Lists the accounts that may have virtual machines in a network of another account",
        handler=list_permissions,
        shape=Shape.LIST,
        response=PERMISSION,
        errors=(PermissionDenied,),
        parameters=(NETWORK,),
    ),
)
