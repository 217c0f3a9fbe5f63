"""Watches in all tests that transactions take locks in the order of ``store.locks``."""

import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Engine, event

from bulkdeploy.store.locks import Lock

ADVISORY = re.compile(r"pg_advisory_xact_lock")
ROWS = re.compile(r"\bFOR (?:NO KEY )?(?:UPDATE|SHARE)\b(?: OF (\w+))?(?! SKIP LOCKED)")
WORDS = re.compile(r"\(|\)|\bFROM\s+(\w+)", re.IGNORECASE)
BY_VALUE = {lock.value: lock for lock in Lock}
HELD, SAVED = "locks_held", "locks_saved"


class LockOrder(AssertionError):
    """A transaction took a lock that comes before one that it held."""


def watch_lock_order() -> None:
    """From now on a statement that breaks the order raises LockOrder, on every engine of this process.

    Loads of zone files wait for each other, and then take locks in the order of their sections: they are let be.
    """
    event.listen(Engine, "begin", _begin)
    event.listen(Engine, "savepoint", _save)
    event.listen(Engine, "rollback_savepoint", _restore)
    event.listen(Engine, "release_savepoint", _keep)
    event.listen(Engine, "before_cursor_execute", _check)


def _begin(connection: Connection) -> None:
    connection.info[HELD], connection.info[SAVED] = [], []


def _save(connection: Connection, *_: object) -> None:
    connection.info[SAVED].append(list(connection.info[HELD]))


def _restore(connection: Connection, *_: object) -> None:
    """What was locked since the savepoint is free again."""
    connection.info[HELD] = connection.info[SAVED].pop()


def _keep(connection: Connection, *_: object) -> None:
    connection.info[SAVED].pop()


def _check(connection: Connection, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
    if cursor.connection.autocommit:
        return
    held: list[Lock] = connection.info.setdefault(HELD, [])
    for lock in locks_of(statement, parameters):
        if lock in held:
            continue
        later = [one for one in held if one.rank > lock.rank]
        if later and Lock.ZONE_FILE not in held:
            raise LockOrder(f"{lock.name} is taken while {later[0].name} is held: {statement}")
        held.append(lock)


def locks_of(statement: str, parameters: Any) -> Iterator[Lock]:
    """The locks that a statement waits for."""
    if ADVISORY.search(statement) and isinstance(parameters, dict) and parameters.get("space") in BY_VALUE:
        yield BY_VALUE[parameters["space"]]
    for found in ROWS.finditer(statement):
        table = _table(statement, found.start(), found[1])
        if table in BY_VALUE:
            yield BY_VALUE[table]


def _table(statement: str, end: int, alias: str | None) -> str | None:
    """The table whose rows a locking clause at ``end`` locks: the one of this alias, or the first of its FROM."""
    if alias is not None:
        named = re.search(rf"\b(\w+)(?: AS)? {alias}\b", statement)
        return alias if named is None or named[1].upper() in ("FROM", "JOIN") else named[1]
    tables: list[str | None] = [None]
    for word in WORDS.finditer(statement, 0, end):
        if word[0] == "(":
            tables.append(None)
        elif word[0] == ")":
            tables.pop()
        else:
            tables[-1] = word[1]
    return tables[-1]
