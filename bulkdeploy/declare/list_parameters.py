"""Parameters that many list commands have, declared once (cloudstack-protocol.md 1.8).

``PAGING`` belongs to every list command, ``OWNER`` to lists of objects that accounts own, and ``PROJECT`` to those
of these lists whose objects projects may own, too.
"""

from collections.abc import Iterable

from bulkdeploy.declare.parameters import Parameter, boolean, integer, string, uuid
from bulkdeploy.domain.entities import Entity

PAGING: tuple[Parameter, ...] = (
    integer("page", "the number of the page, starting at 1; requires pagesize"),
    integer("pagesize", "the maximum number of rows of a page, with page; -1 without page: all rows"),
    string("keyword", "only objects with this text in their name or description"),
)

OWNER: tuple[Parameter, ...] = (
    string("account", "only objects of this account; domainid names the domain of the account"),
    uuid("domainid", Entity.DOMAIN, "only objects of this domain"),
    boolean("isrecursive", "with domainid, true: also objects of the domains below; default: false"),
    boolean("listall", "true: all objects that the caller may see, not only those of the caller's account"),
)

COUNT_ONLY: Parameter = boolean(
    "retrieveonlyresourcecount", "true: return only the number of matching objects, without the objects"
)
SHOW_ICON: Parameter = boolean("showicon", "accepted but ignored: no object has an icon")


def sort_by(fields: Iterable[str]) -> Parameter:
    """Declare ``sortby``, which sorts the whole list by one field before it is cut into pages."""
    choices = tuple(word for field in fields for word in (field, f"-{field}"))
    return string(
        "sortby",
        "the field by which the list is sorted, descending with a minus before it; default: by age",
        choices=choices,
    )


PROJECT: tuple[Parameter, ...] = (
    uuid("projectid", Entity.PROJECT, "only objects of this project; -1: of all projects of the caller"),
)
