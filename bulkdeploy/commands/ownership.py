"""The owner parameters of calls, which select the owners of listed or created objects."""

from bulkdeploy.commands.call import Call
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.services.owned_entities import named_entity
from bulkdeploy.services.ownership import NamedOwner, OwnerParameters, named_owner_of, visibility
from bulkdeploy.store.rows.visibility import Visibility

IDS = frozenset({"id", "vmsnapshotid"})
"""Parameters of list commands that name one object.

If one is given, an admin does not need ``listall``.

Source: ``buildACLSearchParameters`` of CloudStack, which treats only the single id in this way. ``ids`` is a filter
like others.
"""


def visible(call: Call, *, project_wins: bool = False) -> Visibility:
    """Return the owners whose objects the call lists, according to its owner parameters.

    If ``project_wins`` is true and the call names both a project and an account, the project is used; otherwise
    such a call is rejected.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``services.ownership.visibility``.
    """
    requested = OwnerParameters(
        account=None if project_wins and "projectid" in call.arguments else call.text("account"),
        domain=call.ref("domainid"),
        project=call.ref("projectid"),
        is_recursive=call.flag("isrecursive"),
        list_all=call.flag("listall"),
        by_id=not IDS.isdisjoint(call.arguments),
    )
    return visibility(call.connection, call.caller, requested)


def named_owner(call: Call) -> NamedOwner:
    """Return the owner that the call names, without checking the caller's rights."""
    return named_owner_of(call.arguments)


def by_id_or_name(call: Call, entity: Entity, noun: str, by_id: str = "id", by_name: str = "name") -> EntityRef:
    """Return the entity that a call names by its id, or by its name among the owner's entities.

    ``noun`` describes the entity in error messages, ``by_id`` and ``by_name`` are the names of the parameters.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: as ``services.owned_entities.named_entity``.
    """
    return call.ref(by_id) or named_entity(
        call.connection, call.caller, entity, named_owner(call), call.arguments[by_name], noun, by_name
    )
