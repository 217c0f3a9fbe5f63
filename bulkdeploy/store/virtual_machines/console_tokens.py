"""One-time tokens that open the console of a VM. They expire, and only their hashes are stored."""

import hashlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

_PURGE = text("DELETE FROM console_tokens WHERE expires < now()")

_KEEP = text(
    "INSERT INTO console_tokens (token_hash, vm_id, user_id, kind, expires)"
    " VALUES (:hash, :vm, :user, :kind, now() + make_interval(secs => :seconds))"
)


def keep_token(
    connection: Connection, token: str, *, vm_id: int, user_id: int, kind: str, valid_seconds: float
) -> None:
    """Store a token that opens one console of a VM for ``valid_seconds``, and delete expired tokens."""
    connection.execute(_PURGE)
    given = {"hash": _hash(token), "vm": vm_id, "user": user_id, "kind": kind, "seconds": valid_seconds}
    connection.execute(_KEEP, given)


_TAKE = text(
    "WITH taken AS (DELETE FROM console_tokens WHERE token_hash = :hash RETURNING vm_id, user_id, kind, expires)"
    " SELECT v.uuid, v.name, v.state, coalesce(h.hypervisor, v.hypervisor) AS hypervisor, h.uuid AS host_uuid,"
    " h.name AS host_name, h.ip_address, h.url, t.kind, u.id AS user_id,"
    " u.uuid AS user_uuid, v.account_id AS owner_id"
    " FROM taken t JOIN virtual_machines v ON v.id = t.vm_id JOIN users u ON u.id = t.user_id"
    " JOIN accounts a ON a.id = u.account_id LEFT JOIN hosts h ON h.id = v.host_id"
    " WHERE t.expires >= now() AND v.removed IS NULL AND u.removed IS NULL AND u.state = 'enabled'"
    " AND a.removed IS NULL AND a.state = 'enabled'"
)


def take_token(connection: Connection, token: str) -> Row[Any] | None:
    """Return the VM, its host, the console and the user of a token, and delete the token.

    Returns None if there is no such token, if its user or the user's account is disabled, or if its VM was deleted.
    """
    return connection.execute(_TAKE, {"hash": _hash(token)}).first()


_ALLOWED = text(
    "SELECT o.number FROM unnest(CAST(:users AS uuid[]), CAST(:vms AS uuid[]), CAST(:owners AS bigint[]))"
    " WITH ORDINALITY AS o (user_uuid, vm_uuid, owner_id, number)"
    " JOIN users u ON u.uuid = o.user_uuid AND u.removed IS NULL AND u.state = 'enabled'"
    " JOIN accounts a ON a.id = u.account_id AND a.removed IS NULL AND a.state = 'enabled'"
    " JOIN virtual_machines v ON v.uuid = o.vm_uuid AND v.removed IS NULL AND v.account_id = o.owner_id"
)


def allowed_consoles(connection: Connection, consoles: Sequence[tuple[UUID, UUID, int]]) -> set[int]:
    """Return the positions in ``consoles`` of the open consoles that their users may still see.

    ``consoles`` lists the user, the VM and the account that owned the VM when the console was opened. A console
    must be closed if the user or its account is disabled or deleted, or if the VM is deleted or has another owner.
    """
    users, vms, owners = ([str(console[part]) for console in consoles] for part in range(3))
    rows = connection.execute(_ALLOWED, {"users": users, "vms": vms, "owners": [int(owner) for owner in owners]})
    return {row.number - 1 for row in rows}


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
