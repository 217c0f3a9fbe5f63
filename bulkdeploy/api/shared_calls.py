"""Calls that arrive while a similar call is being committed, and are then handled in one transaction (ADR 62)."""

from collections.abc import Hashable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Sharing
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.services.system import System
from bulkdeploy.store.database.shared_transaction import MustRunAlone, SharedTransaction
from bulkdeploy.store.rows.listing import read_all_rows


@dataclass(frozen=True, slots=True)
class _SharingCall:
    """A call with the context of its thread, which has its request id and trace."""

    call: Call
    sharing: Sharing
    context: Context


class SharedCalls:
    """The calls of one process that can share a transaction.

    Threads may share the object.

    The calls' commands declare a ``Sharing``.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._transactions: dict[Hashable, SharedTransaction[_SharingCall, Any]] = {}

    def takes(self, call: Call) -> bool:
        """Return whether the call may share a transaction with other calls."""
        sharing = call.command.sharing
        return sharing is not None and sharing.by(call) is not None

    def answer(self, call: Call) -> Any:
        """Handle a call, together with others that wait for the same transaction.

        Returns the handler's result after the commit.
        """
        sharing = call.command.sharing
        if sharing is None:
            raise TypeError(f"calls of {call.command.name} cannot share a transaction")
        key = (sharing.work, sharing.by(call))
        transaction = self._transactions.get(key)
        if transaction is None:
            transaction = self._transactions.setdefault(key, SharedTransaction(self._system.engine, self._handle))
        return transaction.run(_SharingCall(call, sharing, copy_context()))

    def waiting(self) -> int:
        """Return the number of calls that wait for a transaction."""
        return sum(transaction.waiting for transaction in self._transactions.values())

    def _handle(self, connection: Connection, entries: Sequence[_SharingCall]) -> Sequence[Any]:
        """Return the results of calls that share a transaction, in their order.

        Raises:
            MustRunAlone: some of several calls fail; the error has their numbers.
            BulkDeployError: the only call fails.
        """
        calls = [replace(entry.call, connection=connection) for entry in entries]
        requests, refused = [], []
        for number, (entry, call) in enumerate(zip(entries, calls, strict=True)):
            try:
                requests.append(entry.context.run(entry.sharing.request, call))
            except BulkDeployError:
                if len(entries) == 1:
                    raise
                refused.append(number)
        if refused:
            raise MustRunAlone(refused)
        results = entries[0].sharing.work(connection, self._system, requests)
        return [
            read_all_rows(entry.sharing.answer(call, result))
            for entry, call, result in zip(entries, calls, results, strict=True)
        ]
