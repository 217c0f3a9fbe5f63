"""The datagrams of Ganeti's confd protocol.

A datagram is four letters, then JSON with the message, its salt, and the HMAC of both. The HMAC key is the content
of a file, including its last newline. Source: Ganeti's design 2.1, section "Ganeti confd", and the datagrams of
version 3.0.
"""

import hashlib
import hmac
import json
from enum import IntEnum
from typing import Any

MAGIC = b"plj0"
PROTOCOL = 1
PORT = 1814
MOST_BYTES = 60 * 1024
"""The most bytes of a datagram; Ganeti's clients neither send nor accept longer ones."""

CLOCK_SECONDS = 300
"""The most seconds by which the time in a query may differ from the server's time."""


STALE_SECONDS = "staleseconds"
"""The key, in an answer from old data, of the data's age in seconds.

If the server has not been able to read the database for long, an answer has status ERROR and is an object with this
key and the keys ``status`` and ``answer``, which contain the answer from the old data.
"""


class QueryType(IntEnum):
    """A type of query. Types 7 (DRBD minors) and 11 (collectors) are not implemented."""

    PING = 0
    NODE_ROLE = 1
    NODE_OF_ADDRESS = 2
    MASTER = 3
    NODES = 4
    CANDIDATES = 5
    ADDRESSES = 6
    NODE_DRBD = 7
    INSTANCES = 8
    DISKS = 9
    CONFIGURATION = 10
    COLLECTORS = 11


class Status(IntEnum):
    """The status of an answer."""

    OK = 0
    ERROR = 1
    NOT_IMPLEMENTED = 2


class NotSigned(Exception):
    """A datagram is not one of this protocol, or is not signed with the key."""


def pack(message: Any, salt: str, key: bytes) -> bytes:
    """Return the datagram that carries a message."""
    text = json.dumps(message)
    return MAGIC + json.dumps({"msg": text, "salt": salt, "hmac": _signature(text, salt, key)}).encode()


def unpack(datagram: bytes, key: bytes) -> tuple[Any, str]:
    """Return the message and the salt of a datagram.

    Raises:
        NotSigned: the datagram is not one of this protocol, or is not signed with ``key``.
    """
    if not datagram.startswith(MAGIC) or len(datagram) > MOST_BYTES:
        raise NotSigned("not a confd datagram")
    try:
        outer = json.loads(datagram[len(MAGIC) :])
        text, salt, signature = outer["msg"], outer["salt"], outer["hmac"]
        genuine = hmac.compare_digest(_signature(text, salt, key).encode(), signature.encode())
        if not genuine:
            raise NotSigned("signed with another key")
        return json.loads(text), salt
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotSigned("not a confd datagram") from error


def _signature(text: str, salt: str, key: bytes) -> str:
    # The protocol prescribes SHA-1. Collisions of SHA-1 do not help to forge an HMAC.
    return hmac.new(key, (salt + text).encode(), hashlib.sha1).hexdigest()
