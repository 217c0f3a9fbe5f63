"""The hypervisor of the example: an SQLite file in which guests are rows. What is written there runs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

TABLES = (
    "CREATE TABLE IF NOT EXISTS guests (uuid PRIMARY KEY, host, cores INT, mhz INT, mib INT)",
    "CREATE TABLE IF NOT EXISTS volumes (uuid PRIMARY KEY, pool, bytes INT, guest)",
)


class NotebookError(Exception):
    """The notebook can not be read or written now, or a volume is in use."""


class Page:
    """An open notebook: all that is done with it is done at once, or not at all."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def guests(self, uuid: str = "%") -> list[tuple[str, str, int, int, int]]:
        """All guests, or the one with this uuid."""
        return self._request("SELECT * FROM guests WHERE uuid LIKE ?", uuid)

    def volumes(self, guest: str = "%") -> list[tuple[str, str, int]]:
        """All volumes, or those of a guest: uuid, pool, bytes."""
        return self._request("SELECT uuid, pool, bytes FROM volumes WHERE guest LIKE ?", guest)

    def run_guest(self, *row: object) -> None:
        """Let a guest run: uuid, host, cores, MHz, MiB."""
        self._request("INSERT INTO guests VALUES (?, ?, ?, ?, ?)", *row)

    def make_volume(self, *row: object) -> None:
        """Make a volume, or let one that is smaller grow: uuid, pool, bytes, guest."""
        self._request("INSERT OR IGNORE INTO volumes VALUES (?, ?, ?, ?)", *row)
        self._request(
            "UPDATE volumes SET bytes = max(bytes, ?3) WHERE uuid = ?1 AND pool = ?2 AND guest = ?4", *row
        )

    def end_guest(self, uuid: str) -> None:
        """Let a guest no longer run."""
        self._request("DELETE FROM guests WHERE uuid = ?", uuid)

    def erase_volume(self, uuid: str) -> None:
        """Erase a volume that no running guest has."""
        if self._request("SELECT 1 FROM volumes v JOIN guests g ON g.uuid = v.guest WHERE v.uuid = ?", uuid):
            raise NotebookError(f"volume {uuid} is in use")
        self._request("DELETE FROM volumes WHERE uuid = ?", uuid)

    def _request(self, statement: str, *values: object) -> list[tuple]:
        return self._connection.execute(statement, values).fetchall()


@contextmanager
def open_notebook(path: Path, timeout_s: float = 60) -> Iterator[Page]:
    """Open the notebook; who comes second waits."""
    try:
        with closing(sqlite3.connect(path, timeout_s, isolation_level=None)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            for table in TABLES:
                connection.execute(table)
            yield Page(connection)
    except sqlite3.Error as error:
        raise NotebookError(str(error)) from error
