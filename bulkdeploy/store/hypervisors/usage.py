"""The measured usage of guests, hosts and storage pools. Counters are stored as differences."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Table,
    delete,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.alerts import Alert, AlertType
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.units import KIB
from bulkdeploy.domain.virtual_machines.usage import (
    GUEST_INTERVAL_S,
    GUEST_INTERVALS_KEPT,
    KEPT_INTERVALS,
    GuestUsage,
    HostUsage,
)
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.tables.usage import (
    guest_usage,
    guest_usage_intervals,
    guest_usage_samples,
    host_usage,
    host_usage_intervals,
    pool_usage,
)

TOTALS = ("cpu_ns", "received_bytes", "sent_bytes", "read_bytes", "written_bytes", "reads", "writes")
FULL_SHARE = "pool.storage.capacity.disablethreshold"
KEPT_MINUTES = 10
"""After so long without a measurement figures are deleted: the guest does not run, or its host is silent."""


_VMS = text(
    "SELECT v.uuid, v.id, v.cpu_number, u.seen, u.cpu_ns, u.received_bytes, u.sent_bytes, u.read_bytes,"
    " u.written_bytes, u.reads, u.writes"
    " FROM virtual_machines v LEFT JOIN guest_usage u ON u.vm_id = v.id"
    " WHERE v.uuid = ANY(:uuids) AND v.removed IS NULL"
)
_HOSTS = text(
    "SELECT h.uuid, h.id, u.busy_ns, u.total_ns FROM hosts h LEFT JOIN host_usage u ON u.host_id = h.id"
    " WHERE h.uuid = ANY(:uuids) AND h.removed IS NULL"
)
_MEASURED = text(
    "SELECT h.name, u.cpu_share, u.memory_used_kib FROM host_usage u JOIN hosts h ON h.id = u.host_id"
    " WHERE h.removed IS NULL ORDER BY h.id"
)
_MEASURED_POOLS = text(
    "SELECT p.id, p.name, p.is_full, coalesce(u.used_bytes, 0) AS used_bytes,"
    " coalesce(u.total_bytes, p.capacity_bytes) AS total_bytes"
    " FROM storage_pools p LEFT JOIN pool_usage u ON u.pool_id = p.id"
    " WHERE p.removed IS NULL AND (u.pool_id IS NOT NULL OR p.is_full) ORDER BY p.id"
)
_LOCK_POOLS = text("SELECT id, is_full FROM storage_pools WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE")
_MARK_POOLS = text("UPDATE storage_pools SET is_full = :full WHERE id = ANY(:ids)")
_POOLS = text("SELECT uuid, id FROM storage_pools WHERE uuid = ANY(:uuids) AND removed IS NULL")


def write_usage(connection: Connection, measured: Iterable[HostUsage], *, keep_samples: bool = False) -> None:
    """Write the usage of hosts, of their guests and of their storage pools. Unknown objects are skipped.

    ``keep_samples`` also stores the usage of guests since the previous measurement: as a sample
    (``guest_usage_samples``), and as part of its interval (``guest_usage_intervals``).
    """
    hosts = {one.uuid: one for one in measured}
    guests = {guest.uuid: guest for host in hosts.values() for guest in host.guests}
    pools = {pool: used for host in hosts.values() for pool, used in host.pools.items()}
    now: datetime = connection.execute(text("SELECT now()")).scalar_one()
    vms = {row.uuid: _guest_row(guests[row.uuid], row, now) for row in _known(connection, "vms", guests)}
    _write(connection, guest_usage, vms.values())
    if keep_samples:
        _insert_samples(connection, vms.values())
        _add_to_intervals(connection, guest_usage_intervals, _guest_intervals(vms.values(), now))
    rows = [
        _host_row(hosts[row.uuid], row, [vms[one.uuid] for one in hosts[row.uuid].guests if one.uuid in vms], now)
        for row in _known(connection, "hosts", hosts)
    ]
    _write(connection, host_usage, rows)
    _add_to_intervals(connection, host_usage_intervals, _host_intervals(rows, now))
    known = _known(connection, "pools", pools)
    measured_pools = [{"pool_id": row.id, "seen": now, **asdict(pools[row.uuid])} for row in known]
    _write(connection, pool_usage, measured_pools)


def mark_full_pools(connection: Connection) -> list[Alert]:
    """Mark storage pools whose measured use is above their threshold, so that they get no new volumes.

    The mark is removed from pools whose use has fallen to the threshold, and from pools that are not measured any
    more. Returns an alert for each newly full pool; of several sweepers, one returns it.
    """
    rows = connection.execute(_MEASURED_POOLS).all()
    configuration = read_configuration(connection)
    changed: dict[int, bool] = {}
    noticed: dict[int, Alert] = {}
    for row in rows:
        threshold = configuration.decimal(FULL_SHARE, Scope.STORAGE_POOL, row.id)
        is_full = row.used_bytes > threshold * row.total_bytes
        if is_full is not row.is_full:
            changed[row.id] = is_full
        if is_full and not row.is_full:
            share = f"{row.used_bytes / max(1, row.total_bytes):.0%} of its {row.total_bytes} bytes are used"
            what = f"Storage pool {row.name} takes no new volumes: {share} ({FULL_SHARE} is {threshold:g})"
            noticed[row.id] = Alert(AlertType.STORAGE, what)
    if not changed:
        return []
    locked = connection.execute(_LOCK_POOLS, {"ids": list(changed)})
    marked_now = {row.id: row.is_full for row in locked}
    for is_full in (False, True):
        ids = [pool for pool, full in changed.items() if full is is_full and marked_now.get(pool) is not is_full]
        connection.execute(_MARK_POOLS, {"ids": ids, "full": is_full})
    return [alert for pool, alert in noticed.items() if marked_now.get(pool) is False]


def usage_of_hosts(connection: Connection) -> list[tuple[str, int | None, int]]:
    """Return the name, the share of the cores (hundredths of a percent) and the used memory (bytes) of each host.

    The share is None after the first measurement. Hosts without measurements are omitted.
    """
    rows = connection.execute(_MEASURED)
    return [(row.name, row.cpu_share, row.memory_used_kib * KIB) for row in rows]


def delete_old_usage(connection: Connection, *, samples_minutes: int) -> None:
    """Delete usage that was not measured for KEPT_MINUTES, and samples older than ``samples_minutes``.

    Intervals are deleted when they are older than KEPT_INTERVALS and GUEST_INTERVALS_KEPT.
    """
    old_sample = guest_usage_samples.c.seen < func.now() - timedelta(minutes=samples_minutes)
    connection.execute(delete(guest_usage_samples).where(old_sample))
    old_interval = guest_usage_intervals.c.begun < func.now() - GUEST_INTERVALS_KEPT
    connection.execute(delete(guest_usage_intervals).where(old_interval))
    interval = host_usage_intervals.c
    for length, kept in KEPT_INTERVALS.items():
        ended = (interval.interval_s == length) & (interval.begun < func.now() - kept)
        connection.execute(delete(host_usage_intervals).where(ended))
    for table in (guest_usage, host_usage, pool_usage):
        old = func.now() - timedelta(minutes=KEPT_MINUTES)
        connection.execute(delete(table).where(table.c.seen < old))


def _insert_samples(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    names = [column.name for column in guest_usage_samples.columns]
    samples = [{name: row[name] for name in names} for row in rows if "received_kib" in row]
    if samples:
        connection.execute(insert(guest_usage_samples).on_conflict_do_nothing(), samples)


def _guest_intervals(rows: Iterable[Mapping[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Return the interval rows of guests, with the values of this measurement.

    Guests without a measured CPU share are omitted. If a guest does not report unused memory, all its memory counts
    as used.
    """
    return [
        {
            "vm_id": row["vm_id"],
            "begun": _begin(now, GUEST_INTERVAL_S),
            "measurements": 1,
            "cpu_shares": row["cpu_share"],
            "memory_kib": row["memory_kib"],
            "memory_used_kib": max(0, row["memory_kib"] - (row["unused_kib"] or 0)),
            **{name: row[name] for name in ("received_kib", "sent_kib", "read_kib", "written_kib")},
        }
        for row in rows
        if row.get("cpu_share") is not None
    ]


def _host_intervals(rows: Iterable[Mapping[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Return the rows of the short and of the long interval of each host that contain this measurement."""
    return [
        {
            "host_id": row["host_id"],
            "interval_s": length,
            "begun": _begin(now, length),
            "measurements": 1,
            "cpu_measurements": int(row["cpu_share"] is not None),
            "cpu_shares": row["cpu_share"] or 0,
            "memory_used_kib": row["memory_used_kib"],
            "received_kib": row["received_kib"],
            "sent_kib": row["sent_kib"],
        }
        for row in rows
        for length in KEPT_INTERVALS
    ]


def _begin(moment: datetime, length_s: int) -> datetime:
    """Return the beginning of the interval of ``length_s`` seconds that contains a moment."""
    return datetime.fromtimestamp(moment.timestamp() // length_s * length_s, UTC)


def _add_to_intervals(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Add these measurements to the rows of their intervals, in the order of the rows' keys."""
    if not rows:
        return
    key = [column.name for column in table.primary_key]
    statement = insert(table)
    sums = {
        column.name: column + statement.excluded[column.name] for column in table.columns if column.name not in key
    }
    added = sorted(rows, key=lambda row: [row[name] for name in key])
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=sums), added)


_QUERIES = {"vms": _VMS, "hosts": _HOSTS, "pools": _POOLS}


def _known(connection: Connection, kind: str, uuids: Iterable[Any]) -> Sequence[Row[Any]]:
    return connection.execute(_QUERIES[kind], {"uuids": list(uuids)}).all()


def _guest_row(usage: GuestUsage, before: Row[Any], now: datetime) -> dict[str, Any]:
    """Return the row of a guest; differences are NULL after the first measurement."""
    row = {"vm_id": before.id, "seen": now, "memory_kib": usage.memory_kib, "unused_kib": usage.unused_kib}
    row |= {name: getattr(usage, name) for name in TOTALS}
    if before.seen is None:
        return row
    since = {name: _difference(row[name], getattr(before, name)) for name in TOTALS}
    available_ns = (now - before.seen).total_seconds() * 1e9 * before.cpu_number
    return row | {
        "cpu_share": _share(since["cpu_ns"], available_ns),
        "received_kib": since["received_bytes"] // KIB,
        "sent_kib": since["sent_bytes"] // KIB,
        "read_kib": since["read_bytes"] // KIB,
        "written_kib": since["written_bytes"] // KIB,
        "read_requests": since["reads"],
        "write_requests": since["writes"],
    }


def _host_row(
    usage: HostUsage, before: Row[Any], guests: Sequence[Mapping[str, Any]], now: datetime
) -> dict[str, Any]:
    """Return the usage row of a host. Its network and disk traffic is the sum of its guests' traffic."""
    share = None
    if before.total_ns is not None:
        share = _share(_difference(usage.busy_ns, before.busy_ns), _difference(usage.total_ns, before.total_ns))
    return {
        "host_id": before.id,
        "seen": now,
        "busy_ns": usage.busy_ns,
        "total_ns": usage.total_ns,
        "memory_used_kib": usage.memory_used_kib,
        "cpu_share": share,
        "received_kib": sum(row.get("received_kib", 0) for row in guests),
        "sent_kib": sum(row.get("sent_kib", 0) for row in guests),
    }


def _difference(total: int, before: int) -> int:
    """Return the increase of a counter. A counter that became smaller was reset to 0 in between."""
    return total - before if total >= before else total


def _share(used: float, available: float) -> int | None:
    """Return hundredths of a percent, at most 100 %, or None if no time passed."""
    return min(round(used * 10_000 / available), 10_000) if available > 0 else None


def _write(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows, or replace those with the same id, in the order of their ids."""
    key, *others = (column.name for column in table.columns)
    given = [{**dict.fromkeys(others), **row} for row in sorted(rows, key=lambda row: int(row[key]))]
    if given:
        statement = insert(table)
        replaced = {name: statement.excluded[name] for name in others}
        connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=replaced), given)
