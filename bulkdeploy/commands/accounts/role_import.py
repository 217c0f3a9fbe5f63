"""importRole: a role with all its rules in one call."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bulkdeploy.commands.accounts.roles import CREATE, RULE_PARAMETERS, with_rules
from bulkdeploy.commands.call import Call
from bulkdeploy.commands.registry import every_api
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import boolean, mapping
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.services.accounts import roles as service
from bulkdeploy.store.accounts import roles


def import_role(call: Call) -> Mapping[str, Any]:
    """Make a role with rules, or give a role of this name these rules if that is forced.

    Raises:
        InvalidParameter: a rule is not valid, or a role has the name and ``forced`` is not given.
    """
    given = with_rules(call.arguments)
    known = roles.find_role(call.connection, call.arguments["name"]) if call.flag("forced") else None
    if known is None:
        (known,) = service.create_roles(call.connection, call.caller, every_api(), [given])
    else:
        service.update_roles(call.connection, call.caller, every_api(), [(known, given)])
    return roles.read_role(call.connection, known.id)


COMMANDS: tuple[Command, ...] = (
    replace(
        CREATE,
        name="importRole",
        description="Makes a role with these rules; with forced, changes a role that has the name",
        handler=import_role,
        errors=(PermissionDenied, ResourceInUse),
        parameters=(
            *(
                replace(one, required=one.name in ("name", "type"))
                for one in CREATE.parameters
                if one.name != "roleid"
            ),
            replace(
                mapping(
                    "rules",
                    "its rules, the first to be asked first: rule, permission and description",
                    tuple((one.name, None) for one in RULE_PARAMETERS),
                ),
                required=True,
            ),
            boolean("forced", "change the role that has the name, if there is one; default false"),
        ),
        rules=(),
    ),
)
