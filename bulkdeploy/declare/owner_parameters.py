"""Parameters that say for whom a call makes something, declared once (cloudstack-protocol.md 1.8)."""

from bulkdeploy.declare.parameters import Parameter, string, uuid
from bulkdeploy.domain.entities import Entity

FOR_OWNER: tuple[Parameter, ...] = (
    string("account", "the account that it belongs to, the caller's if not given; domainid says whose it is"),
    uuid("domainid", Entity.DOMAIN, "the domain of the account"),
    uuid("projectid", Entity.PROJECT, "the project that it belongs to, instead of an account"),
)
"""``commands.ownership.named_owner`` reads them."""
