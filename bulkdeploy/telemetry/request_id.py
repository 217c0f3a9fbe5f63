"""The id and the user of the request that a thread works for, which appear in logs and jobs.

They are context variables, because every layer passes them on and none of them uses them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

HEADER = "X-Request-Id"
_WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_CURRENT: ContextVar[str | None] = ContextVar("request_id", default=None)
_USER: ContextVar[int | None] = ContextVar("user_id", default=None)


def current_request() -> str | None:
    """Return the id of the request that this thread works for, or None if it works for no request."""
    return _CURRENT.get()


def current_user() -> int | None:
    """Return the internal id of the user that this thread works for, or None if the user is not known."""
    return _USER.get()


def accepted(given: str | None) -> str:
    """Return the id that the proxy sent, or a new id if it sent none or an invalid one."""
    return given if given is not None and _WELL_FORMED.fullmatch(given) else str(uuid4())


@contextmanager
def working_for(request_id: str | None, user_id: int | None = None) -> Iterator[None]:
    """Attribute the work of this thread inside the block to a request, and to a user if one is given."""
    token, user_token = _CURRENT.set(request_id), _USER.set(user_id)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        _USER.reset(user_token)
