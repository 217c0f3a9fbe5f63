"""The server for confd queries over UDP, which answers from the newest inventory that it could read.

One thread answers and another reads the database; if one of them ends, the program ends. A datagram with a wrong
signature, time or format gets no answer. If the inventory could not be read for ``confd_stale_seconds``, the
answers contain their age.
"""

import math
import socket
import threading
import time
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from bulkdeploy.confd.answers import Directory
from bulkdeploy.confd.messages import (
    CLOCK_SECONDS,
    MOST_BYTES,
    PROTOCOL,
    STALE_SECONDS,
    NotSigned,
    QueryType,
    Status,
    pack,
    unpack,
)
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import read_only
from bulkdeploy.store.whereabouts import serial, whereabouts

log = structlog.get_logger(__name__)

READING_SHARE = 10
"""The least ratio of the pause between two readings to the duration of the last reading."""


class Reader:
    """Updates its attribute ``directory`` from the database.

    While the database cannot be read, ``directory`` remains and its age grows. ``directory`` is None before the
    first reading.

    Args:
        engine: the database.
        servers: see ``Directory``.
        interval_s: the seconds between two readings.
    """

    def __init__(self, engine: Engine, servers: Sequence[str], *, interval_s: float) -> None:
        self._engine, self._servers, self._interval_s = engine, servers, interval_s
        self._confirmed = False
        self._current_at = time.monotonic()
        self._ended = threading.Event()
        self.directory: Directory | None = None

    def read(self) -> None:
        """Read the inventory if its serial number has changed.

        A change is counted shortly before it becomes visible. So a changed inventory is read again until two
        readings in succession have the same serial number.
        """
        began = time.monotonic()
        with read_only(self._engine) as connection:
            now = serial(connection)
        unchanged = self.directory is not None and self.directory.serial == now
        if unchanged and self._confirmed:
            self._current_at = began
            return
        with self._engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            found = whereabouts(connection)
        self.directory, self._confirmed = Directory(now, found, self._servers), unchanged
        self._current_at = began

    @property
    def age_s(self) -> float:
        """The seconds since ``directory`` was last known to agree with the database."""
        return time.monotonic() - self._current_at

    def run(self) -> None:
        """Read regularly until ``end`` is called. Database errors are logged, and the next reading is tried."""
        reachable = True
        while True:
            began = time.monotonic()
            try:
                self.read()
                reachable = True
            except Exception as error:
                if not (is_unreachable(error) or isinstance(error, DBAPIError)):
                    raise
                if reachable:
                    log.warning("confd_not_read", error=str(error).partition("\n")[0])
                reachable = False
            took = time.monotonic() - began
            if self._ended.wait(max(self._interval_s, took * READING_SHARE)):
                return

    def end(self) -> None:
        """Make ``run`` return soon."""
        self._ended.set()


def reply(
    datagram: bytes,
    key: bytes,
    directory: Directory | None,
    *,
    now: Callable[[], float] = time.time,
    stale_s: int | None = None,
) -> bytes | None:
    """Return the datagram that answers a query, or None if the query gets no answer.

    A query with a wrong signature, time or format gets no answer, and no query gets one before the inventory was
    read.

    Args:
        datagram: the received datagram.
        key: the key that signs queries and answers.
        directory: the inventory; None if it was not read yet.
        now: returns the present time in seconds since 1970.
        stale_s: the age of ``directory`` in seconds if the answer must contain it, otherwise None.
    """
    try:
        message, salt = unpack(datagram, key)
        if directory is None or abs(int(salt) - now()) > CLOCK_SECONDS:
            return None
        if not isinstance(message, dict) or type(message.get("protocol")) is not int:
            return None
        kind, wanted = message.get("type"), message.get("rsalt")
        if message["protocol"] != PROTOCOL or type(kind) is not int or not isinstance(wanted, str):
            return None
        wanted.encode()  # raises UnicodeEncodeError for a text that cannot be signed
        query_type = QueryType(kind)
    except (NotSigned, ValueError, OverflowError):
        return None
    status, answer = directory.answer(query_type, message.get("query"))
    if stale_s is not None:
        status, answer = Status.ERROR, {STALE_SECONDS: stale_s, "status": status, "answer": answer}
    packed = _packed(status, answer, wanted, key, directory)
    if len(packed) > MOST_BYTES:
        text = (
            f"the answer must be at most {MOST_BYTES} bytes, not {len(packed)}: query a part of the configuration, "
            "such as /instance_uuids/0 or /instances/UUID"
        )
        packed = _packed(Status.ERROR, text, wanted, key, directory)
    return packed if len(packed) <= MOST_BYTES else None


def _packed(status: Status, answer: object, salt: str, key: bytes, directory: Directory) -> bytes:
    message = {"protocol": PROTOCOL, "status": status, "answer": answer, "serial": directory.serial}
    return pack(message, salt, key)


def serve(
    bound: socket.socket, key: bytes, reader: Reader, ended: threading.Event, *, stale_after_s: float = math.inf
) -> None:
    """Answer queries until ``ended`` is set. The socket needs a timeout, after which ``ended`` is checked."""
    while not ended.is_set():
        try:
            datagram, sender = bound.recvfrom(MOST_BYTES + 1)
            age_s = reader.age_s
            stale_s = int(age_s) if age_s > stale_after_s else None
            answer = _reply_whatever_happens(datagram, key, reader.directory, stale_s)
            if answer is not None:
                bound.sendto(answer, sender)
        except OSError as error:  # no datagram came, or the client cannot be reached
            if not isinstance(error, TimeoutError):
                log.debug("confd_not_sent", error=str(error))


def _reply_whatever_happens(
    datagram: bytes, key: bytes, directory: Directory | None, stale_s: int | None
) -> bytes | None:
    """Return the answer to a datagram. An unexpected exception is logged, and None is returned."""
    try:
        return reply(datagram, key, directory, stale_s=stale_s)
    except Exception:
        log.exception("confd_failed")
        return None
