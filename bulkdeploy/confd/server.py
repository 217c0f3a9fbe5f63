"""Answers confd queries on UDP, from the newest state of the inventory that could be read.

One thread answers, another reads. What is wrong in a datagram (key, time, form) is met with silence.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import Engine

from bulkdeploy.confd.answers import Directory
from bulkdeploy.confd_message import CLOCK_SECONDS, MOST_BYTES, PROTOCOL, NotSigned, QueryType, Status, pack, unpack
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.whereabouts import serial, whereabouts

log = structlog.get_logger(__name__)

READING_SHARE = 10
"""Pauses between two readings are at least so many times as long as the last reading took."""


class Reader:
    """Keeps ``directory`` new; it stays as it was while the database is away, and is None before the first reading.

    Args:
        engine: where to read.
        servers: see ``Directory``.
        interval_s: pause between two readings.
    """

    def __init__(self, engine: Engine, servers: Sequence[str], *, interval_s: float) -> None:
        self._engine, self._servers, self._interval_s = engine, servers, interval_s
        self._confirmed = False
        self._ended = threading.Event()
        self.directory: Directory | None = None

    def read(self) -> None:
        """Look for changes once.

        A commit is logged a moment before it is visible: only what was read twice with the same serial is whole.
        """
        with read_only(self._engine) as connection:
            now = serial(connection)
        unchanged = self.directory is not None and self.directory.serial == now
        if unchanged and self._confirmed:
            return
        with self._engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            found = whereabouts(connection)
        self.directory, self._confirmed = Directory(now, found, self._servers), unchanged

    def run(self) -> None:
        """Read until ``end``."""
        reachable = True
        while True:
            began = time.monotonic()
            try:
                self.read()
                reachable = True
            except Exception as error:
                if not is_unreachable(error):
                    raise
                if reachable:
                    log.warning("confd_not_read", error=str(error).partition("\n")[0])
                reachable = False
            took = time.monotonic() - began
            if self._ended.wait(max(self._interval_s, took * READING_SHARE)):
                return

    def end(self) -> None:
        """Let ``run`` return soon."""
        self._ended.set()


def reply(
    datagram: bytes, key: bytes, directory: Directory | None, *, now: Callable[[], float] = time.time
) -> bytes | None:
    """The datagram that answers one; None: silence."""
    try:
        message, salt = unpack(datagram, key)
        if directory is None or abs(int(salt) - now()) > CLOCK_SECONDS:
            return None
        if not isinstance(message, dict) or type(message.get("protocol")) is not int:
            return None
        kind, wanted = message.get("type"), message.get("rsalt")
        if message["protocol"] != PROTOCOL or type(kind) is not int or not isinstance(wanted, str):
            return None
        query_type = QueryType(kind)
    except (NotSigned, ValueError, OverflowError):
        return None
    status, answer = directory.answer(query_type, message.get("query"))
    packed = _packed(status, answer, wanted, key, directory)
    if len(packed) > MOST_BYTES:
        text = f"the answer must be at most {MOST_BYTES} bytes, not {len(packed)}"
        packed = _packed(Status.ERROR, text, wanted, key, directory)
    return packed if len(packed) <= MOST_BYTES else None


def _packed(status: Status, answer: object, salt: str, key: bytes, directory: Directory) -> bytes:
    message = {"protocol": PROTOCOL, "status": status, "answer": answer, "serial": directory.serial}
    return pack(message, salt, key)


def serve(bound: socket.socket, key: bytes, reader: Reader, ended: threading.Event) -> None:
    """Answer until ``ended``; the socket has a timeout, after which that is looked at."""
    while not ended.is_set():
        try:
            datagram, sender = bound.recvfrom(MOST_BYTES + 1)
            answer = reply(datagram, key, reader.directory)
            if answer is not None:
                bound.sendto(answer, sender)
        except OSError as error:  # nothing came, or the client is gone
            if not isinstance(error, TimeoutError):
                log.debug("confd_not_sent", error=str(error))
