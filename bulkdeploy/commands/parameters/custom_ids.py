"""Ids that root admins choose for created objects: ``customid``, and ``customjobid`` for the job.

A caller that never heard the answer finds what it made by them. CloudStack's rules and texts: UUIDManagerImpl.
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
    """Return the id that a call chooses for the new entity, or None if the service generates the id.

    Only root admins may choose an id.

    Raises:
        PermissionDenied: the caller is no root admin.
        InvalidParameter: it is no uuid in lower case, or something has it or had it.
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
