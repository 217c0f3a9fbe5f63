"""The new user of createAccount and createUser, which have the same parameters."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.value_rules import NAME, PASSWORD, TIME_ZONE
from bulkdeploy.services.accounts.users import prepare_users

NEW_USER = (
    string("username", "the login name, unique in the domain", required=True, rule=NAME),
    string("password", "the password in plain text", required=True, rule=PASSWORD),
    string("firstname", "the first name", required=True),
    string("lastname", "the last name", required=True),
    string("email", "the e-mail address", required=True),
    string("timezone", "the time zone, such as Europe/Berlin", rule=TIME_ZONE, clearable=True),
)


def new_user(call: Call) -> Mapping[str, Any]:
    """Return the new user of a call with a hashed password.

    Hashing is slow, so a command calls this as its ``prepare`` step, before its transaction.
    """
    (user,) = prepare_users(call.connection, call.system, [call.arguments])
    return user
