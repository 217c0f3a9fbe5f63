"""Ids that root admins choose for new objects: ``customid``, and ``customjobid`` for the job.

A caller whose response was lost finds the new object by its id. The rules and texts are CloudStack's:
UUIDManagerImpl.
"""

import re
from uuid import UUID

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.parameters import Parameter, WireType, string
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.store.rows.entities import is_taken

CUSTOM_ID, JOB_ID = "customid", "customjobid"

CUSTOM_ID_PARAMETER = string(
    CUSTOM_ID,
    "the id of the new object: a UUID in lower case that was never used; default: a generated id. Only root "
    "admins may set it",
)
JOB_ID_PARAMETER = Parameter(
    JOB_ID,
    WireType.STRING,
    "the id of the job: a UUID in lower case that was never used; default: a generated id. Only root admins "
    "may set it",
    roles=ROOT_ADMIN_ONLY,
)

UUID_FORMAT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def chosen_id(call: Call, parameter: str, *kinds: Entity) -> str | None:
    """Return the id that a call chooses for a new entity, or None if the service generates the id.

    Raises:
        PermissionDenied: the caller chooses an id and is no root admin.
        InvalidParameter: the id is not a UUID in lower case, or was used before.
    """
    given = call.text(parameter)
    if given is None:
        return None
    if not call.caller.is_root_admin:
        raise PermissionDenied("Please check your permissions, you are not allowed to create/update custom id")
    if not UUID_FORMAT.fullmatch(given):
        raise InvalidParameter(parameter, given[:80], f"UUID: {given[:80]} doesn't follow the UUID format")
    if any(is_taken(call.connection, kind, UUID(given)) for kind in kinds):
        rule = f"UUID: {given} already exists so can't create/update with custom id"
        raise InvalidParameter(parameter, given, rule)
    return given
