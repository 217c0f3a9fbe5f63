"""Simulated hypervisors under watch: every start is noted from begin to end, and some starts kill their process.

Worker processes load it as any driver from outside the tree is loaded; ``install`` makes it look installed.
"""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg_pool import ConnectionPool

from bulkdeploy.drivers.simulator import SimulatorDriver

NAME = "watched"
URL = "BULKDEPLOY_SIMULATOR_DATABASE_URL"
TABLES = (
    """CREATE TABLE IF NOT EXISTS watched_calls (
        id bigserial, host uuid, vm uuid, pid integer,
        began timestamptz DEFAULT clock_timestamp(), ended timestamptz
    )""",
    "CREATE TABLE IF NOT EXISTS deadly_vms (vm uuid, call text)",
    "TRUNCATE watched_calls, deadly_vms",
)


class WatchedDriver:
    """The simulator's driver, watched."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        del options
        self._driver = SimulatorDriver(os.environ[URL])
        self._notes = ConnectionPool(
            os.environ[URL], min_size=1, max_size=4, kwargs={"autocommit": True}, open=True
        )

    def ensure_running(self, host: Any, guest: Any, **named: Any) -> None:
        """Note the call, and die here if the VM is deadly."""
        self._die_if("start", guest.uuid)
        with self._notes.connection() as connection:
            row = connection.execute(
                "INSERT INTO watched_calls (host, vm, pid) VALUES (%s, %s, %s) RETURNING id",
                [host.uuid, guest.uuid, os.getpid()],
            ).fetchone()
        assert row is not None
        try:
            self._driver.ensure_running(host, guest, **named)
        finally:
            with self._notes.connection() as connection:
                connection.execute("UPDATE watched_calls SET ended = clock_timestamp() WHERE id = %s", row)

    def ensure_absent(self, host: Any, guest_uuid: UUID, *volumes: Any, **named: Any) -> None:
        """Die here if the VM is deadly to remove, too."""
        self._die_if("remove", guest_uuid)
        self._driver.ensure_absent(host, guest_uuid, *volumes, **named)

    def close(self) -> None:
        """Close the connections."""
        self._notes.close()
        self._driver.close()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the simulator's."""
        return getattr(self._driver, name)

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
        f"[bulkdeploy.drivers]\n{NAME} = tests.support.watched_driver:WatchedDriver\n"
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
