"""The response fields of commands for accounts and users."""

from bulkdeploy.commands.constant_fields import OF_USERS
from bulkdeploy.declare.response_fields import flag, fraction, large_number, moment, number, text
from bulkdeploy.declare.responses import Field, Response

USER = Response(
    "user",
    (
        text("id", "the user"),
        text("username", "the login name"),
        text("firstname", "the first name"),
        text("lastname", "the last name"),
        text("email", "the e-mail address"),
        text("timezone", "the time zone"),
        text("state", "the state: enabled, disabled or locked"),
        text("accountid", "the account"),
        text("account", "the name of the account"),
        number("accounttype", "the account's type: 0 user, 1 root admin, 2 domain admin, 3 resource admin"),
        text("domainid", "the account's domain"),
        text("domain", "the domain's name"),
        text("roleid", "the account's role"),
        text("rolename", "the role's name"),
        text("roletype", "the role's type"),
        text("apikey", "the user's newest API key"),
        flag("isdefault", "whether the installation created the user"),
        flag("iscallerchilddomain", "whether the user's domain is below the caller's domain"),
        moment("created", "when the user was created"),
        *OF_USERS,
    ),
)

COUNTED = {
    "vm": "VMs",
    "volume": "volumes",
    "cpu": "CPU cores",
    "memory": "MiB of memory",
    "primarystorage": "GiB of primary storage",
    "secondarystorage": "GiB of secondary storage",
    "ip": "public addresses",
    "snapshot": "snapshots",
    "vpc": "VPCs",
}
ACCOUNT_NOUNS = {**COUNTED, "network": "networks", "template": "templates"}


def counter_fields(nouns: dict[str, str]) -> tuple[Field, ...]:
    """Return the fields ``<noun>limit``, ``<noun>total`` and ``<noun>available`` of each noun.

    ``nouns`` maps the nouns to their descriptions. Limits are texts, because they can be Unlimited.
    """
    fields: list[Field] = []
    for noun, meaning in nouns.items():
        total = fraction if noun == "secondarystorage" else large_number
        fields += (
            text(f"{noun}limit", f"the maximum number of {meaning}, or Unlimited"),
            total(f"{noun}total", f"the number of {meaning} that are in use"),
            text(f"{noun}available", f"the number of {meaning} that remain until the limit, or Unlimited"),
        )
    return tuple(fields)


DOMAIN_COUNTERS = counter_fields({**ACCOUNT_NOUNS, "project": "projects"})

ACCOUNT_COUNTERS = (
    *counter_fields(ACCOUNT_NOUNS),
    number("vmrunning", "the number of running VMs"),
    number("vmstopped", "the number of VMs that are not running"),
)
