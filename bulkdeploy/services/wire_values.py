"""Values of calls that are held to the same rules as those of inventory files."""

from collections.abc import Iterable
from typing import TypeVar

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.services.inventory.inventory_catalog import TAGS
from bulkdeploy.services.inventory.inventory_document import Items, Refused, Scalar, Value

T = TypeVar("T")


def checked(parameter: str, written: str, value: Value[T]) -> T:
    """The value of a parameter.

    Raises:
        InvalidParameter: it breaks the rule.
    """
    try:
        return value.read(Scalar(0, written))
    except Refused as refused:
        raise InvalidParameter(parameter, written, refused.rule.partition(", not ")[0]) from refused


def checked_tags(parameter: str, written: Iterable[str]) -> list[str]:
    """Tags of hosts, pools and offerings, trimmed; an empty text means none.

    Raises:
        InvalidParameter: one breaks the rule of tags, or stands there twice.
    """
    tags = [tag.strip() for tag in written if tag.strip()]
    try:
        return list(TAGS.read(Items(0, [Scalar(0, tag) for tag in tags])))
    except Refused as refused:
        raise InvalidParameter(parameter, ",".join(tags), refused.rule) from refused
