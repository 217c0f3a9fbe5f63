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
        text("rule", "the name of an API; * matches any characters"),
        text("permission", "allow or deny"),
        text("description", "the description of the rule"),
        text("roleid", "the role"),
        text("rolename", "the role's name"),
    ),
)

RULE_PARAMETERS = (
    string("rule", "the name of an API; * matches any characters", required=True, rule=API_PATTERN),
    string("permission", "allow or deny", required=True, choices=PERMISSIONS),
    string("description", "the description of the rule"),
)
