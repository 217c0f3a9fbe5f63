"""Whose things a list call shows, from its owner parameters (``declare.list_parameters``)."""

from bulkdeploy.commands.call import Call
from bulkdeploy.services.ownership import OwnerParameters, visibility
from bulkdeploy.store.visibility import Visibility


def visible(call: Call) -> Visibility:
    """The visibility that the call's owner parameters, or their absence, ask for.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``services.ownership.visibility``.
    """
    asked = OwnerParameters(
        account=call.text("account"),
        domain=call.ref("domainid"),
        project=call.ref("projectid"),
        is_recursive=call.flag("isrecursive"),
        list_all=call.flag("listall"),
        by_id="id" in call.arguments or "ids" in call.arguments,
    )
    return visibility(call.connection, call.caller, asked)
