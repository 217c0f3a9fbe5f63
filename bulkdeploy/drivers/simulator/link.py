"""Connections to the simulator's database, with retries after broken connections."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import LiteralString, TypeVar
from uuid import UUID

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.simulator.database import conninfo

T = TypeVar("T")

PAGE_ROWS = 5000
"""The number of rows that lists read at a time. No connection is held between pages."""

STATEMENT_TIMEOUT_MS = 30_000
"""The time limit of a statement in milliseconds. After that the call fails and is rolled back."""

CONNECTION_WAIT_S = 10.0
"""The longest time that a call waits for a connection, in seconds.

After this time, or after the call's own time limit, the call fails without any effect.
"""

RECONNECT_S = 5.0
"""The time for which a connection attempt is repeated, in seconds. The next call starts a new attempt."""

DEADLOCK = "40P01"


class SimulatorLink:
    """A small pool of connections that many threads share.

    Args:
        url: the ``postgresql://`` URL of the simulator's database.
        pool_size: the largest number of connections.
        durable: whether a commit waits until its data would survive a power failure.
    """

    def __init__(self, url: str, *, pool_size: int, durable: bool) -> None:
        options = f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c synchronous_commit={'on' if durable else 'off'}"
        self._pool = ConnectionPool(
            conninfo(url),
            min_size=1,
            max_size=pool_size,
            kwargs={
                "autocommit": True,
                "prepare_threshold": 0,
                "application_name": "bulkdeploy-simulator",
                "options": options,
            },
            name="simulator",
            reconnect_timeout=RECONNECT_S,
            open=True,
        )

    def request(
        self, step: str, host: str, work: Callable[[Connection], T], *, patience_s: float = CONNECTION_WAIT_S
    ) -> T:
        """Run ``work`` with a connection, and return its result.

        Repeat it after a lost connection or a deadlock.

        A repetition is harmless, because every request of the driver is idempotent or only reads.

        Raises:
            DriverError: the database rejected the request (``step``), or does not answer (``connect``).
        """
        wait_s = min(patience_s, CONNECTION_WAIT_S)
        for is_last in (False, False, True):
            try:
                with self._pool.connection(timeout=wait_s) as connection:
                    return work(connection)
            except PoolTimeout as error:
                reason = f"no connection to the simulator's database within {wait_s:g} s"
                raise DriverError("connect", host, reason, transient=True, unanswered=True) from error
            except psycopg.OperationalError as error:
                if is_last or self._pool.closed:
                    raise DriverError("connect", host, str(error), transient=True, unanswered=True) from error
                if error.sqlstate != DEADLOCK:
                    self._pool.check()  # discard the dead connections of a restarted server
            except psycopg.Error as error:
                raise DriverError(step, host, str(error), transient=False) from error
        raise AssertionError("the last attempt returns or raises")

    def pages(self, query: LiteralString) -> Iterator[TupleRow]:
        """Yield all rows of a query, read in pages.

        The first column of the query is a uuid. Its parameters are the uuid after which a page begins and the
        number of rows.
        """
        last = UUID(int=0)
        while True:
            page = self.request("list", ANY_HOST, partial(_page, query, last))
            yield from page
            if len(page) < PAGE_ROWS:
                return
            last = page[-1][0]

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def _page(query: LiteralString, after: UUID, connection: Connection) -> list[TupleRow]:
    return connection.execute(query, [after, PAGE_ROWS]).fetchall()
