"""Rows of host HA: calls configure it, and sweepers change its states (one file: one table and its transitions)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, Row, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from bulkdeploy.domain.infrastructure.host_ha import HaEvent, HaRecord, HaState
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.availability import host_ha, host_ha_transitions
from bulkdeploy.store.tables.topology import clusters, hosts, zones

KEPT_TRANSITIONS = 100
"""Transitions of each host that are kept."""


def read_ha(connection: Connection, host_id: int) -> Row[Any] | None:
    """Return the HA configuration and HA state of a host, or None if host HA is not configured for the host."""
    return connection.execute(select(host_ha).where(host_ha.c.host_id == host_id)).one_or_none()


def configure_ha(connection: Connection, host_id: int, provider: str) -> None:
    """Write the HA provider of a host. A new configuration is not enabled."""
    statement = upsert(host_ha).values(host_id=host_id, provider=provider)
    connection.execute(statement.on_conflict_do_update(index_elements=["host_id"], set_={"provider": provider}))


def set_enabled(connection: Connection, host_id: int, *, enabled: bool) -> None:
    """Enable or disable host HA for a host.

    A disabled host changes to Disabled immediately. An enabled host gets its first state from a sweeper.
    """
    connection.execute(update(host_ha).where(host_ha.c.host_id == host_id).values(enabled=enabled))
    if not enabled:
        disable_now(connection, [host_id])


def set_enabled_in_cluster(connection: Connection, cluster_id: int, *, enabled: bool) -> None:
    """Enable or disable host HA for all hosts of a cluster."""
    connection.execute(update(clusters).where(clusters.c.id == cluster_id).values(ha_enabled=enabled))
    if not enabled:
        query = select(hosts.c.id).where(hosts.c.cluster_id == cluster_id)
        disable_now(connection, list(connection.execute(query).scalars()))


def set_enabled_in_zone(connection: Connection, zone_id: int, *, enabled: bool) -> None:
    """Enable or disable host HA for all hosts of a zone."""
    connection.execute(update(zones).where(zones.c.id == zone_id).values(ha_enabled=enabled))
    if not enabled:
        query = select(hosts.c.id).where(hosts.c.zone_id == zone_id)
        disable_now(connection, list(connection.execute(query).scalars()))


def disable_now(connection: Connection, host_ids: Sequence[int]) -> None:
    """Change the host HA state of these hosts to Disabled."""
    query = (
        select(host_ha.c.host_id, host_ha.c.version, host_ha.c.state)
        .where(id_in(host_ha.c.host_id, host_ids), host_ha.c.state != HaState.DISABLED.value)
        .order_by(host_ha.c.host_id)
        .with_for_update()
    )
    rows = connection.execute(query).all()
    write_moves(
        connection,
        [Move(row.host_id, row.version, HaEvent.DISABLED, HaState(row.state), HaState.DISABLED) for row in rows],
    )


def set_simulated(connection: Connection, host_id: int, simulated: Mapping[str, bool]) -> None:
    """Write the check results of a simulated host, and reset its counters.

    Pending transitions of the host become invalid.
    """
    connection.execute(
        update(host_ha)
        .where(host_ha.c.host_id == host_id)
        .values(
            simulated=dict(simulated),
            checks=0,
            failed_checks=0,
            recoveries=0,
            checked=None,
            reset_begun=None,
            version=host_ha.c.version + 1,
        )
    )
    connection.execute(host_ha_transitions.delete().where(host_ha_transitions.c.host_id == host_id))


def list_transitions(connection: Connection, host_id: int) -> list[dict[str, Any]]:
    """Return the recorded HA state transitions of a host as response fields, the oldest first."""
    row = host_ha_transitions.c
    query = select(row.event, row.previous, row.state, row.checks, row.recoveries).where(row.host_id == host_id)
    return [
        {
            "event": one.event.lower(),
            "prevhastate": one.previous.lower(),
            "hastate": one.state.lower(),
            "activitycounter": one.checks,
            "recoverycounter": one.recoveries,
        }
        for one in connection.execute(query.order_by(row.id))
    ]


def shown_ha(connection: Connection, host_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the response field ``hostha`` of hosts, by host id. Hosts without an HA configuration are omitted."""
    query = select(host_ha.c.host_id, host_ha.c.enabled, host_ha.c.state, host_ha.c.provider)
    return {
        row.host_id: {"haenable": row.enabled, "hastate": row.state, "haprovider": row.provider}
        for row in connection.execute(query.where(id_in(host_ha.c.host_id, host_ids)))
    }


NOT_CONFIGURED: Mapping[str, Any] = {"haenable": False, "hastate": HaState.DISABLED.value}
"""``hostha`` of a host without a configuration."""


def list_configured(connection: Connection, host_id: int | None) -> list[dict[str, Any]]:
    """Return the response field ``hostha``, with the host's id, of all configured hosts or of the given host."""
    query = select(
        hosts.c.uuid.label("hostid"),
        host_ha.c.enabled.label("haenable"),
        host_ha.c.state.label("hastate"),
        host_ha.c.provider.label("haprovider"),
    ).join(hosts, hosts.c.id == host_ha.c.host_id)
    query = query.where(hosts.c.removed.is_(None)).order_by(hosts.c.id)
    if host_id is not None:
        query = query.where(hosts.c.id == host_id)
    return [dict(row) for row in connection.execute(query).mappings()]


_FOLLOWED = text(
    "SELECT a.host_id, a.provider, a.state AS ha_state, a.simulated, a.version, a.checks, a.failed_checks,"
    " a.recoveries, a.activity, h.uuid, h.name, h.ip_address, h.hypervisor, h.url, h.zone_id, h.cluster_id,"
    " h.resource_state, h.fenced IS NOT NULL AS is_fenced, coalesce(w.answers, true) AS answers,"
    " a.enabled AND c.ha_enabled AND z.ha_enabled AS is_enabled,"
    " coalesce(b.enabled AND c.bmcs_enabled AND z.bmcs_enabled, false) AS has_bmc,"
    " CAST(extract(epoch FROM now() - a.since) AS double precision) AS in_state_s,"
    " CAST(extract(epoch FROM now() - a.checked) AS double precision) AS since_check_s,"
    " CAST(extract(epoch FROM now() - a.reset_begun) AS double precision) AS since_reset_s,"
    " EXISTS (SELECT FROM hosts n WHERE n.cluster_id = h.cluster_id AND n.id <> h.id AND n.removed IS NULL"
    "   AND n.state = 'Up' AND n.resource_state = 'Enabled') AS has_neighbour,"
    " EXISTS (SELECT FROM async_jobs j WHERE j.instance_id = h.id AND j.status = 0 AND j.kind = 'evacuate_host')"
    "   AS is_fencing"
    " FROM host_ha a JOIN hosts h ON h.id = a.host_id JOIN clusters c ON c.id = h.cluster_id"
    " JOIN zones z ON z.id = h.zone_id LEFT JOIN host_watches w ON w.host_id = h.id"
    " LEFT JOIN bmcs b ON b.host_id = h.id"
    " WHERE h.removed IS NULL AND (a.enabled OR a.state <> 'Disabled') ORDER BY h.id"
)


def followed_hosts(connection: Connection) -> Sequence[Row[Any]]:
    """Return the hosts with host HA, each with the values that decide its next state transition.

    These are hosts with enabled host HA, and hosts whose HA state is not Disabled yet.
    """
    return connection.execute(_FOLLOWED).all()


def record_of(row: Row[Any]) -> HaRecord:
    """Convert a row of ``followed_hosts`` to the host's HA record: state, counters and times in seconds."""
    return HaRecord(
        HaState(row.ha_state),
        row.in_state_s,
        row.since_check_s,
        row.checks,
        row.failed_checks,
        row.recoveries,
        row.since_reset_s,
    )


_SILENT = text(
    "SELECT h.zone_id, h.cluster_id, count(*) AS hosts,"
    " count(*) FILTER (WHERE w.answers IS FALSE) AS silent"
    " FROM hosts h LEFT JOIN host_watches w ON w.host_id = h.id"
    " WHERE h.removed IS NULL AND h.fenced IS NULL AND h.hypervisor = ANY(:hypervisors)"
    " GROUP BY h.zone_id, h.cluster_id"
)


def count_silent(connection: Connection, hypervisors: Collection[str]) -> Sequence[Row[Any]]:
    """Return the numbers of hosts and of silent hosts of these hypervisors, per zone and cluster.

    A silent host does not answer its hypervisor's requests. Fenced hosts are not counted.
    """
    return connection.execute(_SILENT, {"hypervisors": list(hypervisors)}).all()


def neighbours(connection: Connection, host_id: int, most: int) -> Sequence[Row[Any]]:
    """Return at most ``most`` other hosts of the same cluster that are Up.

    The columns are uuid, name, ip_address, hypervisor and url.
    """
    query = text(
        "SELECT n.uuid, n.name, n.ip_address, n.hypervisor, n.url FROM hosts h"
        " JOIN hosts n ON n.cluster_id = h.cluster_id AND n.id <> h.id"
        " WHERE h.id = :host AND n.removed IS NULL AND n.state = 'Up' ORDER BY n.id LIMIT :most"
    )
    return connection.execute(query, {"host": host_id, "most": most}).all()


@dataclass(frozen=True, slots=True)
class Move:
    """An HA state transition of a host. It is written only if no other transition was written since ``version``.

    Attributes:
        check_begins: whether an activity check begins with the transition.
        reset_begins: whether a reset begins with the transition.
        reset_is_over: whether the reset that had begun has a result.
        activity: the mark of the disks' last writes, or None to leave the stored mark unchanged.
    """

    host_id: int
    version: int
    event: HaEvent
    previous: HaState
    state: HaState
    checks: int = 0
    failed_checks: int = 0
    recoveries: int = 0
    check_begins: bool = False
    forgets_checks: bool = False
    reset_begins: bool = False
    reset_is_over: bool = False
    activity: str | None = None


_MOVE = text(
    "UPDATE host_ha a SET state = g.state, checks = g.checks, failed_checks = g.failed_checks,"
    " recoveries = g.recoveries, version = a.version + 1,"
    " activity = CASE WHEN g.forgets_checks THEN NULL ELSE coalesce(g.activity, a.activity) END,"
    " since = CASE WHEN a.state = g.state THEN a.since ELSE now() END,"
    " checked = CASE WHEN g.check_begins THEN now() WHEN g.forgets_checks THEN NULL ELSE a.checked END,"
    " reset_begun = CASE WHEN g.reset_begins THEN now() WHEN g.reset_is_over THEN NULL ELSE a.reset_begun END"
    " FROM jsonb_to_recordset(CAST(:moves AS jsonb)) AS g(host_id bigint, version bigint, state text, checks int,"
    "   failed_checks int, recoveries int, check_begins boolean, forgets_checks boolean, reset_begins boolean,"
    "   reset_is_over boolean, activity text)"
    " WHERE a.host_id = g.host_id AND a.version = g.version RETURNING a.host_id"
)

_TRIM = text(
    "DELETE FROM host_ha_transitions WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER"
    " (PARTITION BY host_id ORDER BY id DESC) AS nth FROM host_ha_transitions"
    " WHERE host_id = ANY(CAST(:hosts AS bigint[]))) numbered WHERE nth > :kept)"
)


def write_moves(connection: Connection, moves: Sequence[Move]) -> set[int]:
    """Write state transitions and their history, and return the hosts whose transitions were written.

    A host that another sweeper or a call changed meanwhile keeps its state.
    """
    if not moves:
        return set()
    given = orjson.dumps([_json(move) for move in moves]).decode()
    moved = set(connection.execute(_MOVE, {"moves": given}).scalars())
    made = [move for move in moves if move.host_id in moved]
    if made:
        rows = [
            {
                "host_id": move.host_id,
                "event": move.event.value,
                "previous": move.previous.value,
                "state": move.state.value,
                "checks": move.checks,
                "recoveries": move.recoveries,
            }
            for move in made
        ]
        connection.execute(insert(host_ha_transitions), rows)
        connection.execute(_TRIM, {"hosts": int_array(sorted(moved)), "kept": KEPT_TRANSITIONS})
    return moved


def _json(move: Move) -> dict[str, Any]:
    names = (
        *("host_id", "version", "checks", "failed_checks", "recoveries", "check_begins", "forgets_checks"),
        *("reset_begins", "reset_is_over", "activity"),
    )
    return {**{name: getattr(move, name) for name in names}, "state": move.state.value}


def end_reset(connection: Connection, host_id: int, version: int) -> None:
    """Record that a reset failed, so that the next reset can start without waiting for the timeout."""
    connection.execute(
        update(host_ha)
        .where(host_ha.c.host_id == host_id, host_ha.c.version == version)
        .values(reset_begun=None, version=host_ha.c.version + 1)
    )


def count_states(connection: Connection) -> dict[str, int]:
    """Return how many live hosts with host HA are in each state; all states are in the result."""
    query = (
        select(host_ha.c.state, func.count())
        .join(hosts, hosts.c.id == host_ha.c.host_id)
        .where(hosts.c.removed.is_(None))
        .group_by(host_ha.c.state)
    )
    found = {row[0]: row[1] for row in connection.execute(query)}
    return {state.value: found.get(state.value, 0) for state in HaState}
