"""The parameters and response fields of rules, for roles of accounts and of projects."""

from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response
from bulkdeploy.declare.value_rules import API_PATTERN

PERMISSIONS = ("allow", "deny")

RULE = Response(
    "rolepermission",
    (
        text("id", "the rule"),
        text("rule", "an API's name, * standing for any letters"),
        text("permission", "allow or deny"),
        text("description", "its description"),
        text("roleid", "the role"),
        text("rolename", "the role's name"),
    ),
)

RULE_PARAMETERS = (
    string("rule", "an API's name, * standing for any letters", required=True, rule=API_PATTERN),
    string("permission", "allow or deny", required=True, choices=PERMISSIONS),
    string("description", "its description"),
)
