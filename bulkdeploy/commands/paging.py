"""The paging of lists: ``page`` and ``pagesize`` within the limits of the settings.

The handler of every list command calls ``paging(call)`` and passes the result to its store query.
"""

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.list_parameters import COUNT_ONLY
from bulkdeploy.domain.errors import PagingError
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.rows.listing import Paging

EVERYTHING = -1


def paging(call: Call) -> Paging:
    """Return the range of rows that a list call requests.

    Without ``page`` and ``pagesize``, the range is the first ``default.page.size`` rows. If only the count is
    requested (``COUNT_ONLY``), the range is empty.

    Raises:
        PagingError: one of the two is given without the other, the page is below 1, ``pagesize`` is neither
            positive nor -1, ``page`` is given with -1, or ``pagesize`` is larger than ``default.page.size``
            (cloudstack-protocol.md 1.7 and 1.8).
    """
    if call.flag(COUNT_ONLY.name):
        return Paging(limit=0)
    page, size = call.arguments.get("page"), call.arguments.get("pagesize")
    if size == EVERYTHING:
        if page is not None:
            raise PagingError('"page" must not be given when "pagesize" is -1: all rows are returned')
        return Paging(limit=None)
    if page is not None and size is None:
        raise PagingError('"pagesize" parameter is required when "page" is specified')
    if size is not None and page is None:
        raise PagingError('"page" parameter is required when "pagesize" is specified')
    largest = read_configuration(call.connection).number("default.page.size")
    if size is None or page is None:
        return Paging(limit=largest)
    if page < 1:
        raise PagingError(f'"page" is {page}, pages are counted from 1')
    if size < 1:
        raise PagingError(f'"pagesize" is {size}, it must be 1 or more, or -1 for all rows')
    if size > largest:
        raise PagingError(f"Page size can't exceed max allowed page size value: {largest}")
    return Paging(limit=size, offset=(page - 1) * size)
