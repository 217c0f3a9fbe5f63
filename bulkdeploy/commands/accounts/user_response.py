"""The user object, as lists of users and of accounts answer it."""

from bulkdeploy.declare.response_fields import flag, moment, number, text
from bulkdeploy.declare.responses import Response

USER = Response(
    "user",
    (
        text("id", "the user"),
        text("username", "the name to log in by"),
        text("firstname", "the first name"),
        text("lastname", "the last name"),
        text("email", "the e-mail address"),
        text("timezone", "the time zone"),
        text("state", "enabled, disabled or locked"),
        text("accountid", "the account"),
        text("account", "the account's name"),
        number("accounttype", "the account's type: 0 user, 1 root admin, 2 domain admin, 3 resource admin"),
        text("domainid", "the account's domain"),
        text("domain", "the domain's name"),
        text("roleid", "the account's role"),
        text("rolename", "the role's name"),
        text("roletype", "the role's type"),
        text("apikey", "the user's newest API key"),
        flag("isdefault", "whether the user came with the installation"),
        flag("iscallerchilddomain", "whether the user's domain is below the caller's"),
        moment("created", "when the user was made"),
    ),
)
