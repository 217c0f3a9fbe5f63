"""Fences of guests for drivers whose hypervisors do not compare fences: one row per guest.

A statement that assigns volumes to a guest, or that prepares their removal, acquires advisory locks of the volumes.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from bulkdeploy.store.locks import Lock, take_locks

_RAISE = text(
    "INSERT INTO guest_fences (guest_uuid, fence) VALUES (:guest, :fence)"
    " ON CONFLICT (guest_uuid) DO UPDATE SET fence = excluded.fence, updated = now()"
    " WHERE guest_fences.fence <= excluded.fence RETURNING host_uuid, destination_uuid, details"
)


def raise_fence(connection: Connection, guest_uuid: UUID, fence: int) -> Row[Any] | None:
    """Raise a guest's fence, so that lower fences are rejected; return None if a higher fence was used already.

    Otherwise the columns host_uuid, destination_uuid and details of the guest are returned.
    """
    return connection.execute(_RAISE, {"guest": guest_uuid, "fence": fence}).first()


def raise_fences(connection: Connection, guest_uuids: Collection[UUID], fence: int) -> None:
    """Raise the fences of these guests, so that lower fences are rejected. Higher fences are kept."""
    rows = [{"guest": guest, "fence": fence} for guest in sorted(guest_uuids)]
    if rows:
        connection.execute(_RAISE, rows)


_FENCED = text("SELECT guest_uuid FROM guest_fences WHERE guest_uuid = ANY(:guests) AND fence >= :fence")


def fenced(connection: Connection, guest_uuids: Collection[UUID], fence: int) -> set[UUID]:
    """Return the guests out of ``guest_uuids`` for which this fence or a higher fence has been used."""
    return set(connection.execute(_FENCED, {"guests": list(guest_uuids), "fence": fence}).scalars())


_CLAIM = text(
    "SELECT host_uuid, destination_uuid, details, taken"
    " FROM claim_guest(:guest, :host, CAST(:volumes AS uuid[]), :fence, :space, CAST(:keys AS integer[]))"
)


def claim(
    connection: Connection, guest_uuid: UUID, host_uuid: UUID, volume_uuids: Collection[UUID], fence: int
) -> Row[Any] | None:
    """Raise a guest's fence, and assign the guest with its volumes to this host if it is on no host.

    Nothing is assigned if other guests have some of the volumes; the column ``taken`` then lists them. The
    connection must have no open transaction, because this statement is a transaction of its own.

    Returns:
        The columns host_uuid, destination_uuid, details and taken, or None if a higher fence was used before.
    """
    volumes = list(volume_uuids)
    given = {"guest": guest_uuid, "host": host_uuid, "volumes": volumes, "fence": fence}
    locks = {"space": Lock.GUEST_VOLUMES.value, "keys": sorted(set(map(_key, volumes)))}
    return connection.execute(_CLAIM, {**given, **locks}).first()


_ADOPT = text(
    "INSERT INTO guest_fences AS f (guest_uuid, fence, host_uuid, volume_uuids)"
    " VALUES (:guest, 0, :host, CAST(:volumes AS uuid[]))"
    " ON CONFLICT (guest_uuid) DO UPDATE SET host_uuid = excluded.host_uuid, destination_uuid = NULL,"
    "   volume_uuids = excluded.volume_uuids, updated = now()"
)


def adopt(connection: Connection, guests: Collection[tuple[UUID, UUID, Collection[UUID]]]) -> None:
    """Record that guests run on hosts with volumes, replacing earlier records. Fences are not lowered."""
    rows = [{"guest": guest, "host": host, "volumes": list(volumes)} for guest, host, volumes in sorted(guests)]
    if rows:
        connection.execute(_ADOPT, rows)


_IS_HIGHEST = text("SELECT fence <= :fence FROM guest_fences WHERE guest_uuid = :guest")


def is_highest(connection: Connection, guest_uuid: UUID, fence: int) -> bool:
    """Return whether no higher fence than this has been used for the guest."""
    return connection.execute(_IS_HIGHEST, {"guest": guest_uuid, "fence": fence}).scalar() is not False


_MOVE = text(
    "UPDATE guest_fences SET fence = :fence, host_uuid = :host, destination_uuid = :destination, updated = now()"
    " WHERE guest_uuid = :guest AND fence <= :fence"
)


def move(
    connection: Connection, guest_uuid: UUID, host_uuid: UUID, destination_uuid: UUID | None, fence: int
) -> bool:
    """Record that a guest is on ``host_uuid`` and migrates to ``destination_uuid``. None means no migration.

    Returns False, and changes nothing, if a higher fence was used.
    """
    given = {"guest": guest_uuid, "host": host_uuid, "destination": destination_uuid, "fence": fence}
    return connection.execute(_MOVE, given).rowcount == 1


_KEEP = text(
    "UPDATE guest_fences SET fence = :fence, details = CAST(:details AS jsonb), updated = now()"
    " WHERE guest_uuid = :guest AND fence <= :fence"
)


def store_details(connection: Connection, guest_uuid: UUID, details: Mapping[str, Any], fence: int) -> bool:
    """Replace the stored details of a guest with a recorded fence. Empty details delete the stored ones.

    Returns False, and changes nothing, if a higher fence was used.
    """
    given = {"guest": guest_uuid, "details": json.dumps(details) if details else None, "fence": fence}
    return connection.execute(_KEEP, given).rowcount == 1


_KEPT = text("SELECT guest_uuid, host_uuid, destination_uuid, details FROM guest_fences WHERE details IS NOT NULL")


def guests_with_details(connection: Connection) -> Sequence[Row[Any]]:
    """Return the guests with stored details."""
    return connection.execute(_KEPT).all()


_WITH_DETAILS = text(
    "SELECT guest_uuid, host_uuid, destination_uuid, details FROM guest_fences"
    " WHERE details @> CAST(:details AS jsonb)"
)


def with_details(connection: Connection, details: Mapping[str, Any]) -> Sequence[Row[Any]]:
    """Return the guests whose stored details contain these details."""
    return connection.execute(_WITH_DETAILS, {"details": json.dumps(details)}).all()


_RELEASE = text(
    "UPDATE guest_fences SET host_uuid = NULL, destination_uuid = NULL, volume_uuids = '{}', updated = now()"
    " WHERE guest_uuid = :guest AND fence <= :fence"
)


def release(connection: Connection, guest_uuid: UUID, fence: int) -> None:
    """Record that the guest is on no host and has no volumes, unless a higher fence was used."""
    connection.execute(_RELEASE, {"guest": guest_uuid, "fence": fence})


_RELEASE_HOST = text(
    "UPDATE guest_fences SET updated = now(),"
    "   host_uuid = CASE WHEN host_uuid = h.uuid THEN destination_uuid ELSE guest_fences.host_uuid END,"
    "   destination_uuid = NULL,"
    "   volume_uuids = CASE WHEN host_uuid = h.uuid AND destination_uuid IS NULL THEN '{}' ELSE volume_uuids END"
    " FROM hosts h WHERE h.id = :host AND h.uuid IN (host_uuid, destination_uuid)"
)


def release_host(connection: Connection, host_id: int) -> None:
    """Record that no guest is on a host that was declared off.

    Guests that were migrating from or to the host are recorded on the other host of the migration. Fences are not
    lowered.
    """
    connection.execute(_RELEASE_HOST, {"host": host_id})


_HIGHEST = text("SELECT fence FROM guest_fences WHERE guest_uuid = :guest")


def highest(connection: Connection, guest_uuid: UUID) -> int:
    """Return the highest fence seen for a guest, or 0 if none was seen."""
    return int(connection.execute(_HIGHEST, {"guest": guest_uuid}).scalar() or 0)


_HELD = text(
    "SELECT v.uuid, f.guest_uuid FROM guest_fences f, unnest(f.volume_uuids) v (uuid)"
    " WHERE f.host_uuid IS NOT NULL AND f.volume_uuids && CAST(:volumes AS uuid[])"
    " AND v.uuid = ANY(CAST(:volumes AS uuid[]))"
)


def lock_volumes(connection: Connection, volume_uuids: Collection[UUID]) -> dict[UUID, UUID]:
    """Lock these volumes, and return the guests that use them, by volume. Unused volumes are omitted.

    No guest can claim any of these volumes until this transaction commits.
    """
    take_locks(connection, Lock.GUEST_VOLUMES, (_key(volume) for volume in volume_uuids))
    rows = connection.execute(_HELD, {"volumes": list(volume_uuids)})
    return {row.uuid: row.guest_uuid for row in rows}


def _key(volume: UUID) -> int:
    """Return the key of a volume's advisory lock. Volumes with the same key wait for each other without harm."""
    return int.from_bytes(volume.bytes[:4], signed=True)
