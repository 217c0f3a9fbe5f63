"""linkUserDataToTemplate: links registered user data to a template or ISO, whose VMs receive it."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.catalog.template_fields import FIELDS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import ExactlyOne, string, uuid
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE
from bulkdeploy.domain.deployments.deployment import UserDataPolicy
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.services.catalog import template_user_data as service
from bulkdeploy.services.catalog.templates import ISO, TEMPLATE, first_row


def link_user_data(call: Call) -> Mapping[str, Any]:
    """Link user data to a template or ISO, or remove the link if no user data is given.

    Return the template or ISO.

    Raises:
        InvalidParameter: the user data, or the template or ISO, was deleted, or no zone has the template or ISO.
    """
    template = call.ref("templateid")
    kind, ref = (ISO, call.arguments["isoid"]) if template is None else (TEMPLATE, template)
    policy = UserDataPolicy(call.text("userdatapolicy") or UserDataPolicy.ALLOW_OVERRIDE)
    service.link_user_data(call.connection, call.caller, kind, ref, call.ref("userdataid"), policy)
    return first_row(call.connection, call.caller, kind, ref, f"{kind.kind.value}id")


COMMANDS = (
    Command(
        name="linkUserDataToTemplate",
        authorized=EVERY_ROLE,
        description="Links registered user data to a template or ISO. New VMs get this user data.",
        handler=link_user_data,
        shape=Shape.OBJECT,
        response=Response("template", FIELDS),
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("templateid", Entity.TEMPLATE, "the template"),
            uuid("isoid", Entity.ISO, "the ISO"),
            uuid("userdataid", Entity.USER_DATA, "the registered user data; if left out, the link is removed"),
            string(
                "userdatapolicy",
                "whether a deploy call may override the user data; default ALLOWOVERRIDE",
                choices=tuple(policy.value for policy in UserDataPolicy),
            ),
        ),
        rules=(ExactlyOne(("templateid", "isoid")),),
    ),
)
