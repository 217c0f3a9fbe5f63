"""The user that createAccount and createUser make, from the same parameters."""

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.parameters import string
from bulkdeploy.services.users import NewUser

NEW_USER = (
    string("username", "the name to log in by; no other user of the domain has it", required=True),
    string("password", "the password, as it is", required=True),
    string("firstname", "the first name", required=True),
    string("lastname", "the last name", required=True),
    string("email", "the e-mail address", required=True),
    string("timezone", "the time zone, such as Europe/Berlin"),
)


def new_user(call: Call) -> NewUser:
    """The user that a call wants made."""
    names = ("username", "password", "firstname", "lastname", "email")
    return NewUser(**{name: call.arguments[name] for name in names}, timezone=call.text("timezone"))
