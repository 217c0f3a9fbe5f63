"""Parameters that name the owner of a new object, declared once (cloudstack-protocol.md 1.8)."""

from bulkdeploy.declare.parameters import Parameter, string, uuid
from bulkdeploy.domain.entities import Entity

FOR_OWNER: tuple[Parameter, ...] = (
    string("account", "the account that owns the object, in the domain domainid; default: the caller's"),
    uuid("domainid", Entity.DOMAIN, "the domain of the account"),
    uuid("projectid", Entity.PROJECT, "the project that owns the object, instead of an account"),
)
"""``commands.ownership.named_owner`` reads them."""
