"""The id of the request that a thread works for: from the proxy through the log to the job and its worker.

A context variable, for it goes along with every layer and none of them acts on it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

HEADER = "X-Request-Id"
_WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_CURRENT: ContextVar[str | None] = ContextVar("request_id", default=None)


def current_request() -> str | None:
    """The id; None: no call is being answered, the program acts by itself."""
    return _CURRENT.get()


def accepted(given: str | None) -> str:
    """The id that the proxy gave, or a new one where it gave none that is an id."""
    return given if given is not None and _WELL_FORMED.fullmatch(given) else str(uuid4())


@contextmanager
def working_for(request_id: str | None) -> Iterator[None]:
    """What is done meanwhile, in this thread, is for that request."""
    token = _CURRENT.set(request_id)
    try:
        yield
    finally:
        _CURRENT.reset(token)
