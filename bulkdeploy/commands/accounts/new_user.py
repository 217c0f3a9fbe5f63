"""The user that createAccount and createUser make, from the same parameters."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.parameters import string
from bulkdeploy.services.accounts.users import NewUser, prepare_user

NEW_USER = (
    string("username", "the name to log in by; no other user of the domain has it", required=True),
    string("password", "the password, as it is", required=True),
    string("firstname", "the first name", required=True),
    string("lastname", "the last name", required=True),
    string("email", "the e-mail address", required=True),
    string("timezone", "the time zone, such as Europe/Berlin"),
)


def new_user(call: Call) -> Mapping[str, Any]:
    """The columns of the user that a call wants made; hashing its password takes its time: for ``prepare``.

    Raises:
        InvalidParameter: a name that is not possible, a blank password, an unknown time zone.
    """
    names = ("username", "password", "firstname", "lastname", "email")
    return prepare_user(NewUser(**{name: call.arguments[name] for name in names}, timezone=call.text("timezone")))
