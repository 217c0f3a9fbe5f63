"""listTemplatePermissions and listIsoPermissions: the accounts and projects that may use a template or ISO."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import uuid
from bulkdeploy.declare.response_fields import flag, text, texts
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.services.live_entities import noun
from bulkdeploy.services.ownership import require_access
from bulkdeploy.store.catalog.template_permissions import owner_of, read_sharing

PERMISSION = Response(
    "templatepermission",
    (
        text("id", "the template or ISO"),
        flag("ispublic", "whether all accounts may use the object"),
        text("domainid", "the domain of its owner"),
        texts("account", "the accounts with which the image is shared"),
        texts("projectids", "the projects with which the image is shared"),
    ),
)
"""The response of both commands. CloudStack uses the same response key for templates and ISOs."""


def list_permissions(call: Call) -> Mapping[str, Any]:
    """Return the accounts and projects with which a template or ISO is shared.

    Raises:
        InvalidParameter: the template or ISO was deleted.
        PermissionDenied: the caller may not act for its owner.
    """
    ref = call.arguments["id"]
    require_access(
        call.connection, call.caller, owner_of(call.connection, ref.id), f"{noun(ref.entity)} {ref.uuid}"
    )
    if ref.removed:
        raise InvalidParameter("id", str(ref.uuid), f"the {noun(ref.entity)} was deleted")
    return read_sharing(call.connection, ref)


COMMANDS = tuple(
    Command(
        name=f"list{word}Permissions",
        description=f"Lists the accounts and projects with which {thing} is shared",
        handler=list_permissions,
        shape=Shape.OBJECT,
        response=PERMISSION,
        errors=(PermissionDenied,),
        parameters=(uuid("id", entity, thing, required=True),),
    )
    for word, thing, entity in (("Template", "the template", Entity.TEMPLATE), ("Iso", "the ISO", Entity.ISO))
)
