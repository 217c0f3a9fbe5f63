"""Parameters that many list commands share, declared once (cloudstack-protocol.md 1.8).

``PAGING`` belongs to every list command, ``OWNER`` to lists of things that accounts own and
``PROJECT`` to those of them that projects may own too.
"""

from collections.abc import Iterable

from bulkdeploy.declare.parameters import Parameter, boolean, integer, string, uuid
from bulkdeploy.domain.entities import Entity

PAGING: tuple[Parameter, ...] = (
    integer("page", "which page of pagesize rows to answer, counted from 1"),
    integer("pagesize", "rows of one page; -1, without page, answers all rows"),
    string("keyword", "answer only what has this text in its name or description"),
)

OWNER: tuple[Parameter, ...] = (
    string("account", "answer only what this account owns; domainid says whose account it is"),
    uuid("domainid", Entity.DOMAIN, "answer only what belongs to this domain"),
    boolean("isrecursive", "with domainid: the domains below it, too"),
    boolean("listall", "answer everything the caller may see, not only what the caller's account owns"),
)

COUNT_ONLY: Parameter = boolean("retrieveonlyresourcecount", "answer the count and no rows")
SHOW_ICON: Parameter = boolean("showicon", "accepted and without effect: nothing here has an icon")


def sort_by(fields: Iterable[str]) -> Parameter:
    """``sortby``: the whole list ordered by one field before it is cut into pages."""
    choices = tuple(word for field in fields for word in (field, f"-{field}"))
    return string("sortby", "order by this field, downwards with a minus before it; else by age", choices=choices)


PROJECT: tuple[Parameter, ...] = (
    uuid("projectid", Entity.PROJECT, "answer only what this project owns; -1: all projects of the caller"),
)
