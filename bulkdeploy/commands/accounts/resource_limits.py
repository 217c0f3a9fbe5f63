"""listResourceLimits and updateResourceLimit."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_TAGGED_LIMITS
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, Values
from bulkdeploy.declare.parameters import boolean, integer, long, string, uuid
from bulkdeploy.declare.response_fields import OWNER_FIELDS, large_number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import LIMIT, size_in
from bulkdeploy.domain.accounts.accounts import ADMINS, Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.services.accounts import resource_limits
from bulkdeploy.services.accounts.resource_limits import NewLimit
from bulkdeploy.services.system import System
from bulkdeploy.store.rows.listing import Page, cut_page

RESOURCE_LIMIT = Response(
    "resourcelimit",
    (
        *OWNER_FIELDS,
        text("resourcetype", "the resource's number"),
        text("resourcetypename", "the resource's name, such as user_vm"),
        large_number("max", "the limit: a number of objects, MiB of memory or GiB of storage; -1: no limit"),
    ),
)

TYPES = tuple(kind.wire_name for kind in ResourceType)

HOLDER = (
    string("account", "the account; domainid names its domain"),
    uuid("domainid", Entity.DOMAIN, "the domain, if no account is given"),
    uuid("projectid", Entity.PROJECT, "the project"),
)


def list_resource_limits(call: Call) -> Page:
    """Return the effective limits of an account, a project or a domain.

    Raises:
        InvalidParameter: the account or project does not exist.
        PermissionDenied: the account, project or domain is outside the caller's reach.
    """
    rows = resource_limits.list_resource_limits(
        call.connection, call.caller, resource_limits.holder_parameters(call.arguments)
    )
    number, name = call.arguments.get("resourcetype"), call.text("resourcetypename")
    keyword = (call.text("keyword") or "").lower()
    chosen = [
        row
        for row in rows
        if (number is None or row["resourcetype"] == str(number))
        and (name is None or row["resourcetypename"] == name.lower())
        and keyword in row["resourcetypename"]
    ]
    return cut_page(chosen, paging(call))


def update_resource_limit(call: Call) -> Mapping[str, Any]:
    """Set one resource limit, and return the limit.

    If ``max`` is not given, the resource becomes unlimited.

    Raises:
        InvalidCombination, InvalidParameter: the parameters name no account, project or domain.
        PermissionDenied: the account, project or domain is outside the caller's reach.
    """
    limit = resource_limits.limit_of_call(call.arguments)
    (row,) = resource_limits.set_resource_limits(call.connection, call.caller, [limit])
    return row


UPDATE = Command(
    name="updateResourceLimit",
    description="Sets a limit of an account, a project or a domain",
    handler=update_resource_limit,
    shape=Shape.OBJECT,
    response=RESOURCE_LIMIT,
    roles=ADMINS,
    changes_state=True,
    errors=(PermissionDenied,),
    parameters=(
        integer("resourcetype", "the number of the resource type", required=True),
        long("max", "the limit: a number of objects, MiB of memory or GiB of storage; -1: no limit"),
        *HOLDER,
    ),
    unsupported={"tag": NO_TAGGED_LIMITS},
)

COMMANDS = (
    Command(
        name="listResourceLimits",
        description="Lists the effective limits of an account, a project or a domain",
        handler=list_resource_limits,
        shape=Shape.LIST,
        response=RESOURCE_LIMIT,
        errors=(PermissionDenied,),
        parameters=(
            integer("resourcetype", "only the limit of the resource type with this number"),
            string(
                "resourcetypename",
                "only the limit of the resource type with this name",
                choices=TYPES,
            ),
            *HOLDER,
            boolean(
                "listall",
                "accepted but ignored: the response always contains the limits of the named account or domain",
            ),
            boolean(
                "isrecursive",
                "accepted but ignored: the response always contains the limits of the named account or domain",
            ),
            *PAGING,
        ),
        unsupported={"id": "limits have no ids; use resourcetype", "tag": NO_TAGGED_LIMITS},
    ),
    UPDATE,
)


def prepare_limits(connection: Connection, system: System, batch: Sequence[Values]) -> Sequence[NewLimit]:
    """Return the limits of a zone file, in the units in which resources are counted."""
    del connection, system
    return [resource_limits.limit_of_entry(given) for given in batch]


def set_limits(connection: Connection, caller: Caller, batch: Sequence[NewLimit]) -> Sequence[EntityRef]:
    """Set the limits of a zone file. Returns no entities, because limits have no ids."""
    resource_limits.set_resource_limits(connection, caller, batch)
    return ()


def _whose(values: Values) -> Hashable:
    """Return the key of a limit: its resource type and its project, or else its domain and account."""
    if values.get("projectid") is not None:
        return values["resourcetype"], values["projectid"]
    return values["resourcetype"], values.get("domainid"), (values.get("account") or "").lower()


def _in_bytes(amount: str) -> object:
    """Return a limit as bytes, so that equal sizes with different units compare equal.

    Other limits are unchanged.
    """
    size = size_in(amount, 1)
    return amount if size is None else size


NOUNS = (
    Noun(
        section="limits",
        create=replace(
            UPDATE,
            parameters=(
                string("resourcetype", "the name of the resource type", required=True, choices=TYPES),
                string(
                    "max",
                    "the limit, or unlimited; sizes of memory and storage have units",
                    required=True,
                    rule=LIMIT,
                ),
                *HOLDER,
            ),
        ),
        create_many=set_limits,
        prepare=prepare_limits,
        read=resource_limits.read_resource_limits,
        key=_whose,
        pairs=("resourcetype", "max"),
        compare={"max": _in_bytes},
        exports=lambda row: "projectid" not in row,
        after=("accounts", "configuration"),
    ),
)
