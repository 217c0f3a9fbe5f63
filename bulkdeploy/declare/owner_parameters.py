"""Parameters that name the owner of a new object, declared once (cloudstack-protocol.md 1.8)."""

from bulkdeploy.declare.parameters import Parameter, string, uuid
from bulkdeploy.domain.entities import Entity

FOR_OWNER: tuple[Parameter, ...] = (
    string(
        "account",
        "the name of the account that owns the object; domainid names its domain. Default: the account of the "
        "caller",
    ),
    uuid("domainid", Entity.DOMAIN, "the domain of the account"),
    uuid("projectid", Entity.PROJECT, "the project that owns the object; used instead of account"),
)
"""``commands.ownership.named_owner`` reads them."""
