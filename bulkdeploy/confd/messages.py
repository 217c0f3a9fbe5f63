"""Datagrams of Ganeti's confd protocol: four letters, then JSON with the message, its salt, and the HMAC of both.

Source: Ganeti's design 2.1, section "Ganeti confd", and what version 3.0 does on the wire. The key is a whole file,
its last newline included.
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
"""Of a datagram; Ganeti's clients send and take none that is larger."""

CLOCK_SECONDS = 300
"""How far a query's time may lie from the server's."""


STALE_SECONDS = "staleseconds"
"""The age of the state that a server answers from, if it could not read the database for long.

It is a member of the object that such an answer is. The answer has status ERROR; ``status`` and ``answer`` beside
the age are what the server answers from that state.
"""


class QueryType(IntEnum):
    """A type of query; 7 (DRBD minors) and 11 (collectors) are Ganeti's alone."""

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
    """A datagram that is not of the protocol, or not signed with the key."""


def pack(message: Any, salt: str, key: bytes) -> bytes:
    """Return the datagram that carries a message."""
    text = json.dumps(message)
    return MAGIC + json.dumps({"msg": text, "salt": salt, "hmac": _signature(text, salt, key)}).encode()


def unpack(datagram: bytes, key: bytes) -> tuple[Any, str]:
    """Return the message and the salt of a datagram.

    Raises:
        NotSigned: it has none that the key's owner sent.
    """
    if not datagram.startswith(MAGIC) or len(datagram) > MOST_BYTES:
        raise NotSigned("not of the protocol")
    try:
        outer = json.loads(datagram[len(MAGIC) :])
        text, salt, signature = outer["msg"], outer["salt"], outer["hmac"]
        genuine = hmac.compare_digest(_signature(text, salt, key).encode(), signature.encode())
        if not genuine:
            raise NotSigned("signed with another key")
        return json.loads(text), salt
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotSigned("not of the protocol") from error


def _signature(text: str, salt: str, key: bytes) -> str:
    # The protocol prescribes SHA-1; within an HMAC its collisions are of no use to a forger.
    return hmac.new(key, (salt + text).encode(), hashlib.sha1).hexdigest()
