"""Connections to the simulator's database, and the retries of calls whose connection broke."""

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
"""Rows that the lists fetch at a time; between pages no connection is held."""

STATEMENT_TIMEOUT_MS = 30_000
"""After this long in the database a call has failed; it is rolled back."""

CONNECTION_WAIT_S = 10.0
"""A call that gets no connection within this, or its own patience, has failed: nothing was asked."""

RECONNECT_S = 5.0
"""A connection attempt is repeated for this long, then given up; the next call starts a new one."""

DEADLOCK = "40P01"


class SimulatorLink:
    """A few connections that many threads share.

    Args:
        url: ``postgresql://`` URL of the simulator's database.
        pool_size: most connections held.
        durable: wait until what was committed would survive a power cut.
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
        """Run ``work`` with a connection, and repeat it after a lost connection or a deadlock.

        A repetition is harmless, because every request of the driver is idempotent or only reads.

        Raises:
            DriverError: in ``step``, or in ``connect`` where the database does not answer.
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
                    self._pool.check()  # a restarted server leaves dead connections behind
            except psycopg.Error as error:
                raise DriverError(step, host, str(error), transient=False) from error
        raise AssertionError("the last attempt returns or raises")

    def pages(self, query: LiteralString) -> Iterator[TupleRow]:
        """Yield all rows of a query that takes the uuid to begin after and how many rows.

        Its first column is a uuid.
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
