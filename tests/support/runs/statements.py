"""The statements that SQLAlchemy sends."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, event


@contextmanager
def statements_of(engine: Engine) -> Iterator[list[str]]:
    """The texts of those that are sent meanwhile, in their order; a COPY is none of them."""
    seen: list[str] = []

    def note(*arguments: object) -> None:
        seen.append(str(arguments[2]))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)
