"""listUserData, registerUserData, deleteUserData."""

import re
from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import named_owner, visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import OWNER, PAGING, PROJECT
from bulkdeploy.declare.noun import Noun
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS, OWNER_FIELDS, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME, ValueRule
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse
from bulkdeploy.services.deployments import registered_user_data
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.services.ownership import as_found_by_id
from bulkdeploy.store.accounts.owned_entities import owned_reader
from bulkdeploy.store.accounts.owner_keys import owned_key
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.virtual_machines import user_data

USER_DATA = Response(
    "userdata",
    (
        text("id", "the registered user data"),
        text("name", "the name of the user data"),
        text("userdata", "the user data, in base64"),
        text("params", "the names of the variables in the user data, separated by commas"),
        text("accountid", "the id of the account that owns the object; absent if a project owns it"),
        *OWNER_FIELDS,
        HAS_ANNOTATIONS,
    ),
)


def list_user_data(call: Call) -> Page:
    """Return the registered user data of the visible accounts.

    Raises:
        PermissionDenied: an owner parameter names an account outside the caller's reach.
    """
    return user_data.list_user_data(call.connection, visible(call), call.arguments, paging(call))


def register_user_data(call: Call) -> Mapping[str, Any]:
    """Register user data under a name, and return the registered user data."""
    (ref,) = registered_user_data.register_user_data(
        call.connection, call.caller, [call.arguments], method=call.method
    )
    seen = as_found_by_id(call.connection, call.caller)
    return only_row(user_data.list_user_data(call.connection, seen, {"id": ref}, ONE))


def delete_user_data(call: Call) -> None:
    """Delete registered user data. Existing VMs keep their copy."""
    registered_user_data.delete_user_data(call.connection, call.caller, [call.arguments["id"]], named_owner(call))


VARIABLES = ValueRule(
    "must be names separated by commas, without spaces",
    lambda written: written if re.fullmatch(r"[^,\s]+(,[^,\s]+)*", written) else None,
)

REGISTER = Command(
    name="registerUserData",
    authorized=EVERY_ROLE,
    description="Registers user data under a name",
    handler=register_user_data,
    shape=Shape.OBJECT,
    response=USER_DATA,
    errors=(PermissionDenied,),
    changes_state=True,
    parameters=(
        string(
            "name", "the name, unique among the objects of this type that the owner has", required=True, rule=NAME
        ),
        string(
            "userdata",
            "the user data in base64, with at most as many characters as the setting vm.userdata.max.length allows",
            required=True,
            length=1048576,
        ),
        string(
            "params",
            "the names of the variables in the user data, separated by commas",
            rule=VARIABLES,
            clearable=True,
        ),
        *FOR_OWNER,
    ),
)

COMMANDS = (
    Command(
        name="listUserData",
        authorized=EVERY_ROLE,
        description="Lists registered user data",
        handler=list_user_data,
        shape=Shape.LIST,
        response=USER_DATA,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.USER_DATA, "only this user data"),
            string("name", "only user data of this name"),
            *OWNER,
            *PROJECT,
            *PAGING,
        ),
    ),
    REGISTER,
    Command(
        name="deleteUserData",
        authorized=EVERY_ROLE,
        description="Deletes registered user data. Existing VMs keep their copy.",
        handler=delete_user_data,
        shape=Shape.SUCCESS,
        errors=(PermissionDenied, ResourceInUse),
        changes_state=True,
        parameters=(uuid("id", Entity.USER_DATA, "the user data", required=True), *FOR_OWNER),
    ),
)

NOUNS = (
    Noun(
        section="userdata",
        entity=Entity.USER_DATA,
        create=REGISTER,
        create_many=registered_user_data.register_user_data,
        update=REGISTER,
        update_many=registered_user_data.replace_user_data,
        read=owned_reader(Entity.USER_DATA, user_data.FIELDS),
        key=owned_key,
        secrets=("userdata",),
        compare={"account": str.lower, "userdata": lambda text: text.rstrip().rstrip("=")},
    ),
)
