"""Whose things a call shows or makes, from its owner parameters."""

from bulkdeploy.commands.call import Call
from bulkdeploy.services.ownership import NamedOwner, OwnerParameters, named_owner_of, visibility
from bulkdeploy.store.visibility import Visibility


def visible(call: Call) -> Visibility:
    """The visibility that the call's owner parameters, or their absence, ask for.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``services.ownership.visibility``.
    """
    requested = OwnerParameters(
        account=call.text("account"),
        domain=call.ref("domainid"),
        project=call.ref("projectid"),
        is_recursive=call.flag("isrecursive"),
        list_all=call.flag("listall"),
        by_id="id" in call.arguments or "ids" in call.arguments,
    )
    return visibility(call.connection, call.caller, requested)


def named_owner(call: Call) -> NamedOwner:
    """Whom the call makes something for, unchecked: ``declare.owner_parameters``."""
    return named_owner_of(call.arguments)
