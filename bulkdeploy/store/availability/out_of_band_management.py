"""Rows of management controllers (BMCs) of hosts: the address, whether the BMC is enabled, and the power state."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.infrastructure.power import PowerState
from bulkdeploy.store.database.arrays import int_array
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.tables.availability import bmcs
from bulkdeploy.store.tables.topology import clusters, hosts, zones

IS_USED = bmcs.c.enabled & clusters.c.bmcs_enabled & zones.c.bmcs_enabled
"""Whether a controller is used: a host's is if the host's cluster and zone use theirs, too."""

_JOINED = (
    bmcs.join(hosts, hosts.c.id == bmcs.c.host_id)
    .join(clusters, clusters.c.id == hosts.c.cluster_id)
    .join(zones, zones.c.id == hosts.c.zone_id)
)
_COLUMNS: tuple[ColumnElement[Any], ...] = (
    bmcs.c.host_id,
    bmcs.c.driver,
    bmcs.c.address,
    bmcs.c.port,
    bmcs.c.username,
    bmcs.c.password_encrypted,
    bmcs.c.enabled,
    bmcs.c.power_state,
    bmcs.c.version,
    bmcs.c.failing,
    hosts.c.uuid.label("host_uuid"),
    hosts.c.name.label("host_name"),
    hosts.c.cluster_id,
    hosts.c.zone_id,
    clusters.c.bmcs_enabled.label("in_cluster"),
    zones.c.bmcs_enabled.label("in_zone"),
    IS_USED.label("is_used"),
)


def read_bmc(connection: Connection, host_id: int) -> Row[Any] | None:
    """Return the controller of a host, or None if none is configured.

    The columns are those of ``bmcs``, the host's uuid, name, cluster and zone, and whether the controller is used:
    by the cluster (``in_cluster``), by the zone (``in_zone``), and at all (``is_used``).
    """
    query = select(*_COLUMNS).select_from(_JOINED).where(bmcs.c.host_id == host_id)
    return connection.execute(query).one_or_none()


def read_used_bmc(connection: Connection, host_id: int) -> Row[Any] | None:
    """Return the controller of a host, or None if none is configured or it is not used."""
    bmc = read_bmc(connection, host_id)
    return bmc if bmc is not None and bmc.is_used else None


def configure_bmc(connection: Connection, host_id: int, values: Mapping[str, Any]) -> None:
    """Write the connection settings of a host's management controller.

    A new controller is disabled. The settings of an existing controller do not change whether it is enabled.
    """
    statement = insert(bmcs).values(host_id=host_id, **values)
    changed = {**values, "version": bmcs.c.version + 1, "failing": False, "looked": None}
    connection.execute(statement.on_conflict_do_update(index_elements=["host_id"], set_=changed))


def set_password(connection: Connection, host_id: int, encrypted: bytes) -> None:
    """Write the password of a controller's user."""
    connection.execute(
        update(bmcs)
        .where(bmcs.c.host_id == host_id)
        .values(password_encrypted=encrypted, version=bmcs.c.version + 1, failing=False)
    )


def set_enabled(connection: Connection, host_id: int, *, enabled: bool) -> None:
    """Enable or disable the controller of a host. Its power state is Disabled until it is read."""
    connection.execute(
        update(bmcs)
        .where(bmcs.c.host_id == host_id)
        .values(
            enabled=enabled,
            power_state=PowerState.DISABLED.value,
            version=bmcs.c.version + 1,
            failing=False,
            looked=None,
        )
    )


_FORGET = (
    "UPDATE bmcs b SET power_state = 'Disabled', version = b.version + 1, failing = false FROM hosts h"
    " WHERE h.id = b.host_id AND h.{column} = :place"
)


def set_enabled_in_cluster(connection: Connection, cluster_id: int, *, enabled: bool) -> None:
    """Allow or forbid the use of the management controllers in a cluster.

    Forbidding sets power states to Disabled.
    """
    connection.execute(update(clusters).where(clusters.c.id == cluster_id).values(bmcs_enabled=enabled))
    if not enabled:
        connection.execute(text(_FORGET.format(column="cluster_id")), {"place": cluster_id})


def set_enabled_in_zone(connection: Connection, zone_id: int, *, enabled: bool) -> None:
    """Allow or forbid the use of the management controllers in a zone. Forbidding sets power states to Disabled."""
    connection.execute(update(zones).where(zones.c.id == zone_id).values(bmcs_enabled=enabled))
    if not enabled:
        connection.execute(text(_FORGET.format(column="zone_id")), {"place": zone_id})


_CLAIM_DUE = text(
    "UPDATE bmcs SET looked = now() WHERE id IN (SELECT b.id FROM bmcs b JOIN hosts h ON h.id = b.host_id"
    "   JOIN clusters c ON c.id = h.cluster_id JOIN zones z ON z.id = h.zone_id"
    "   WHERE b.enabled AND c.bmcs_enabled AND z.bmcs_enabled AND h.removed IS NULL"
    "   AND (b.looked IS NULL OR b.looked < now() - make_interval(secs => :every))"
    "   ORDER BY b.looked NULLS FIRST, b.id LIMIT :most FOR UPDATE OF b SKIP LOCKED)"
    " RETURNING host_id"
)


def claim_due(connection: Connection, every_s: float, most: int) -> Sequence[Row[Any]]:
    """Claim at most ``most`` controllers whose power states were not read for ``every_s`` seconds, and return them.

    The caller must read their states. No other sweeper gets the same controllers. The columns are those of
    ``read_bmc``.
    """
    due = connection.execute(_CLAIM_DUE, {"every": every_s, "most": most}).scalars().all()
    if not due:
        return ()
    query = select(*_COLUMNS).select_from(_JOINED).where(id_in(bmcs.c.host_id, due))
    return connection.execute(query.order_by(bmcs.c.host_id)).all()


_WRITE = text(
    "UPDATE bmcs b SET power_state = given.state, failing = given.state = 'Unknown'"
    " FROM unnest(CAST(:hosts AS bigint[]), CAST(:versions AS bigint[]), CAST(:states AS text[]))"
    "   AS given(host_id, version, state)"
    " WHERE b.host_id = given.host_id AND b.version = given.version AND b.enabled"
    "   AND (b.power_state, b.failing) IS DISTINCT FROM (given.state, given.state = 'Unknown')"
    " RETURNING b.host_id"
)


def write_power_states(connection: Connection, seen: Sequence[tuple[int, int, PowerState]]) -> set[int]:
    """Write power states, given with host and controller version; return the hosts whose state changed.

    A controller that was configured, enabled or disabled meanwhile keeps its state.
    """
    if not seen:
        return set()
    given = {
        "hosts": int_array([host for host, _, _ in seen]),
        "versions": int_array([version for _, version, _ in seen]),
        "states": [state.value for _, _, state in seen],
    }
    return set(connection.execute(_WRITE, given).scalars())


def shown_bmcs(connection: Connection, host_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the response field ``outofbandmanagement`` of hosts, without passwords, by host id.

    Hosts without a management controller are omitted.
    """
    query = select(*_COLUMNS).select_from(_JOINED).where(id_in(bmcs.c.host_id, host_ids))
    return {row.host_id: shown_bmc(row) for row in connection.execute(query)}


def shown_bmc(row: Row[Any]) -> dict[str, Any]:
    """Convert a row of ``read_bmc`` to the response field ``outofbandmanagement``, without the password."""
    return {
        "driver": row.driver,
        "address": row.address,
        "port": str(row.port),
        "username": row.username,
        "enabled": row.enabled,
        "powerstate": row.power_state,
    }


NOT_CONFIGURED: Mapping[str, Any] = {"enabled": False, "powerstate": PowerState.DISABLED.value}
"""``outofbandmanagement`` of a host without a controller."""


def count_power_states(connection: Connection) -> dict[str, int]:
    """Return how many live hosts with a controller are in each power state; all states are in the result."""
    query = (
        select(bmcs.c.power_state, func.count())
        .select_from(bmcs.join(hosts, hosts.c.id == bmcs.c.host_id))
        .where(hosts.c.removed.is_(None))
        .group_by(bmcs.c.power_state)
    )
    found = {row[0]: row[1] for row in connection.execute(query)}
    return {state.value: found.get(state.value, 0) for state in PowerState}
