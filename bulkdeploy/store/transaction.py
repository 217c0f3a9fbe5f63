"""The state of a transaction of ``store.database.engine.run_transaction``, stored with its connection."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlalchemy import Connection, Engine

Action: TypeAlias = Callable[[Engine], None]
"""An action after a commit; it gets the engine, for a transaction of its own."""

OPTION = "bulkdeploy_transaction"
"""The connection's execution option that holds the state."""


@dataclass(slots=True)
class Transaction:
    """The state of one attempt of a transaction of ``run_transaction``.

    Attributes:
        lock_tries: the number of earlier attempts that waited too long for a lock.
        answers: results of calls to the outside, by key, which an earlier attempt requested.
        actions: the actions after the commit, in their order.
        turn_timeout: the ``lock_timeout`` after the first advisory lock, for a transaction that makes other calls
            of its process wait (ADR 62). None keeps the session's timeout. All of these calls need the locks of
            ``take_lock``, which therefore have no timeout. Hosts have a timeout of their own.
    """

    lock_tries: int = 0
    answers: dict[Hashable, object] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    turn_timeout: str | None = None


def attach(connection: Connection, transaction: Transaction) -> Connection:
    """Return the connection with this state."""
    return connection.execution_options(**{OPTION: transaction})


def find_transaction(connection: Connection) -> Transaction | None:
    """Return the state of the connection's transaction.

    Returns None if ``run_transaction`` did not open the transaction.
    """
    found: Transaction | None = connection.get_execution_options().get(OPTION)
    return found


def transaction_of(connection: Connection) -> Transaction:
    """Return the state of the transaction of ``run_transaction`` on this connection.

    Raises:
        KeyError: ``run_transaction`` did not open the connection's transaction.
    """
    found: Transaction = connection.get_execution_options()[OPTION]
    return found
