"""Simulated hypervisors under watch: every start is noted from begin to end, and some starts kill their process.

Worker processes load it as any driver from outside the tree is loaded; ``install`` makes it look installed.
"""

import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import psycopg
from psycopg_pool import ConnectionPool

from bulkdeploy.drivers.batches import Answer, GuestCall, RemoveCall, StartCall
from bulkdeploy.drivers.simulator.driver import SimulatorDriver
from bulkdeploy.drivers.simulator.options import SimulatorOptions

NAME = "watched"
TABLES = (
    """CREATE TABLE IF NOT EXISTS watched_calls (
        id bigserial, host uuid, vm uuid, pid integer,
        began timestamptz DEFAULT clock_timestamp(), ended timestamptz
    )""",
    "CREATE TABLE IF NOT EXISTS deadly_vms (vm uuid, call text)",
    "TRUNCATE watched_calls, deadly_vms",
)


class WatchedDriver(SimulatorDriver):
    """The simulator's driver, watched."""

    _notes: ConnectionPool

    @classmethod
    def from_options(cls, options: SimulatorOptions) -> Self:
        """Make it, with connections of its own for what is noted."""
        made = super().from_options(options)
        url = options.url.get_secret_value()
        made._notes = ConnectionPool(url, min_size=1, max_size=4, kwargs={"autocommit": True}, open=True)
        return made

    def begin(self, calls: Sequence[GuestCall], *, timeout_s: float) -> Sequence[Answer]:
        """Note each start from its begin to its end, and die here if a VM is deadly to start or to remove."""
        for call in calls:
            if isinstance(call, StartCall | RemoveCall):
                self._die_if("start" if isinstance(call, StartCall) else "remove", call.guest_uuid)
        numbers = [self._note(call) if isinstance(call, StartCall) else None for call in calls]
        answers = super().begin(calls, timeout_s=timeout_s)
        return [
            answer if number is None else partial(self._end, number, answer)
            for number, answer in zip(numbers, answers, strict=True)
        ]

    def close(self) -> None:
        """Close the connections."""
        self._notes.close()
        super().close()

    def _note(self, call: StartCall) -> int:
        with self._notes.connection() as connection:
            row = connection.execute(
                "INSERT INTO watched_calls (host, vm, pid) VALUES (%s, %s, %s) RETURNING id",
                [call.host.uuid, call.guest.uuid, os.getpid()],
            ).fetchone()
        assert row is not None
        return int(row[0])

    def _end(self, number: int, answer: Answer) -> None:
        try:
            answer()
        finally:
            with self._notes.connection() as connection:
                connection.execute("UPDATE watched_calls SET ended = clock_timestamp() WHERE id = %s", [number])

    def _die_if(self, call: str, vm: UUID) -> None:
        with self._notes.connection() as connection:
            found = connection.execute("SELECT FROM deadly_vms WHERE vm = %s AND call = %s", [vm, call]).fetchone()
        if found is not None:
            os.kill(os.getpid(), signal.SIGKILL)


def install(folder: Path, setenv: Callable[[str, str], None], control: "psycopg.Connection[Any]") -> dict[str, str]:
    """Let programs started from now on find the driver; the setting ``drivers`` that names it."""
    metadata = folder / "watched_driver-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: watched-driver\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[bulkdeploy.drivers]\n{NAME} = tests.support.hypervisors.watched_driver:WatchedDriver\n"
    )
    setenv("PYTHONPATH", str(folder))
    for statement in TABLES:
        control.execute(statement)
    return {"default": NAME}


def most_at_once(control: "psycopg.Connection[Any]") -> dict[UUID, int]:
    """By host, how many starts were under way at the same time at most."""
    rows = control.execute(
        "SELECT host, max(at_once) FROM (SELECT c.host, count(*) AS at_once FROM watched_calls c"
        " JOIN watched_calls o ON o.host = c.host AND o.began <= c.began AND (o.ended > c.began OR o.ended IS NULL)"
        " GROUP BY c.host, c.id) AS counts GROUP BY host"
    ).fetchall()
    return dict(rows)
