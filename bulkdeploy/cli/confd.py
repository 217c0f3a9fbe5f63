"""``bulkmonkey confd``: queries several confd servers of bulkdeploy or Ganeti, and prints the newest answer."""

import json
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from bulkdeploy.cli.command_context import CommandContext
from bulkdeploy.cli.failures import ConnectionFailed, UsageError
from bulkdeploy.confd.messages import (
    MOST_BYTES,
    PORT,
    PROTOCOL,
    STALE_SECONDS,
    NotSigned,
    QueryType,
    Status,
    pack,
    unpack,
)

MOST_SERVERS = 6
WAIT_SECONDS = 10.0

NAMES = {
    "ping": QueryType.PING,
    "node-role": QueryType.NODE_ROLE,
    "node-of-address": QueryType.NODE_OF_ADDRESS,
    "master": QueryType.MASTER,
    "nodes": QueryType.NODES,
    "candidates": QueryType.CANDIDATES,
    "addresses": QueryType.ADDRESSES,
    "instances": QueryType.INSTANCES,
    "disks": QueryType.DISKS,
    "configuration": QueryType.CONFIGURATION,
}
ERRORS = {0: "there is no such entry", 1: "internal error", 2: "the query has a wrong form"}


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of a confd server: its status, its answer, and the serial number of the state that it describes."""

    status: Status
    answer: Any
    serial: int


def request(
    servers: Sequence[tuple[str, int]],
    key: bytes,
    kind: QueryType,
    query: Any,
    *,
    wait_s: float = WAIT_SECONDS,
    now: Callable[[], float] = time.time,
) -> Reply:
    """Send a query to up to MOST_SERVERS servers, and return the reply with the highest serial number.

    The function waits for all of one or two servers, all but one of three or four, or more than half of five or
    more, but at most ``wait_s`` seconds.

    Raises:
        ConnectionFailed: too few servers replied in ``wait_s`` seconds.
    """
    chosen = random.sample(list(servers), min(len(servers), MOST_SERVERS))
    needed = len(chosen) if len(chosen) < 3 else len(chosen) - 1 if len(chosen) < 5 else len(chosen) // 2 + 1
    salt = str(uuid4())
    message = {"protocol": PROTOCOL, "type": kind, "query": query, "rsalt": salt}
    datagram = pack(message, str(int(now())), key)
    replies: dict[Any, Reply] = {}
    families = {one: socket.getaddrinfo(*one, type=socket.SOCK_DGRAM)[0] for one in chosen}
    sockets = {family: socket.socket(family, socket.SOCK_DGRAM) for family in {one[0] for one in families.values()}}
    try:
        for family, _, _, _, address in families.values():
            sockets[family].sendto(datagram, address)
        end = time.monotonic() + wait_s
        while len(replies) < needed and (left := end - time.monotonic()) > 0:
            for one in sockets.values():
                one.settimeout(left / len(sockets))
                _hear(one, key, salt, replies)
    finally:
        for one in sockets.values():
            one.close()
    if len(replies) < needed:
        raise ConnectionFailed(
            f"{len(replies)} of {len(chosen)} confd servers answered in {wait_s:g} s, {needed} are needed"
        )
    return max(replies.values(), key=lambda reply: (reply.serial, reply.status is Status.OK))


def _hear(bound: socket.socket, key: bytes, salt: str, replies: dict[Any, Reply]) -> None:
    try:
        datagram, sender = bound.recvfrom(MOST_BYTES + 1)
        message, came = unpack(datagram, key)
        if came == salt and isinstance(message, dict):
            replies[sender] = Reply(Status(message["status"]), message["answer"], int(message["serial"]))
    except (OSError, NotSigned, KeyError, ValueError, TypeError):
        return


def confd(context: CommandContext, words: Sequence[str]) -> None:
    """Send a query to the confd servers of the profile and print the answer."""
    section = context.workspace.config(context.options).profile(context.workspace.profile_name(context.options))
    found = answered(words, section.get("confdservers", ""), section.get("confdkeyfile", ""))
    context.screen.show({"confd": [{"query": " ".join(words), **found}]})


def answered(words: Sequence[str], servers: str, key_file: str) -> dict[str, Any]:
    """Send the query in ``words`` to confd servers, and return an object with the field ``answer``.

    ``servers`` are addresses separated by commas. ``staleseconds`` in the result is the age of the answer if the
    servers cannot read the database now.

    Raises:
        UsageError: the query is not valid or was rejected, or a setting is missing.
        ConnectionFailed: too few servers replied.
    """
    if not words or words[0] not in NAMES or len(words) > 2:
        raise UsageError("the query is missing or unknown", hint=f"Queries: {', '.join(NAMES)}")
    if not servers or not key_file:
        raise UsageError("confdservers and confdkeyfile are not set", hint="set confdservers ADDRESS[:PORT],...")
    try:
        key = Path(key_file).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(f"confdkeyfile cannot be read: {error}") from error
    kind = NAMES[words[0]]
    reply = request([_address(one.strip()) for one in servers.split(",")], key, kind, _query(kind, words[1:]))
    status, answer, age = reply.status, reply.answer, {}
    if isinstance(answer, dict) and STALE_SECONDS in answer:
        age = {STALE_SECONDS: answer[STALE_SECONDS]}
        status, answer = Status(answer["status"]), answer["answer"]
    if status is not Status.OK:
        reason = ERRORS.get(answer, answer) if isinstance(answer, int) else answer
        raise UsageError(f"{words[0]}: {reason}")
    return {"answer": answer, **age}


def _query(kind: QueryType, words: Sequence[str]) -> Any:
    if not words:
        return None
    if kind is QueryType.NODE_OF_ADDRESS:
        address, _, link = words[0].partition("@")
        return {"1": address, **({"0": link} if link else {})}
    if words[0].startswith("{"):
        try:
            return json.loads(words[0])
        except ValueError as error:
            raise UsageError(f"the query is not JSON: {error}") from error
    return words[0]


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        return text.strip("[]"), PORT
    if not port.isdigit():
        raise UsageError(f"confdservers: {text!r} is not an address")
    return host.strip("[]"), int(port)
