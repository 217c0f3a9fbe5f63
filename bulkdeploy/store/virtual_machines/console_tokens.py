"""Tokens that open the console of a VM: each is found once, and not after its time; only hashes are kept."""

import hashlib
from typing import Any

from sqlalchemy import Connection, Row, text

_PURGE = text("DELETE FROM console_tokens WHERE expires < now()")

_KEEP = text(
    "INSERT INTO console_tokens (token_hash, vm_id, user_id, kind, expires)"
    " VALUES (:hash, :vm, :user, :kind, now() + make_interval(secs => :seconds))"
)


def keep_token(
    connection: Connection, token: str, *, vm_id: int, user_id: int, kind: str, valid_seconds: float
) -> None:
    """Let a token open this console of a VM; those whose time is over go."""
    connection.execute(_PURGE)
    given = {"hash": _hash(token), "vm": vm_id, "user": user_id, "kind": kind, "seconds": valid_seconds}
    connection.execute(_KEEP, given)


_TAKE = text(
    "WITH taken AS (DELETE FROM console_tokens WHERE token_hash = :hash RETURNING vm_id, user_id, kind, expires)"
    " SELECT v.uuid, v.name, v.state, coalesce(h.hypervisor, v.hypervisor) AS hypervisor, h.uuid AS host_uuid,"
    " h.name AS host_name, h.ip_address, h.url, t.kind, u.uuid AS user_uuid"
    " FROM taken t JOIN virtual_machines v ON v.id = t.vm_id JOIN users u ON u.id = t.user_id"
    " LEFT JOIN hosts h ON h.id = v.host_id"
    " WHERE t.expires >= now() AND v.removed IS NULL AND u.removed IS NULL AND u.state = 'enabled'"
)


def take_token(connection: Connection, token: str) -> Row[Any] | None:
    """The VM, its host, the console and the user of a token, which is worth nothing from now on.

    None: it was worth nothing before, or its user is disabled or its VM gone by now.
    """
    return connection.execute(_TAKE, {"hash": _hash(token)}).first()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
