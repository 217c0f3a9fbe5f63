"""Metrics that PostgreSQL reports about itself."""

from typing import Any

from sqlalchemy import Connection, func, select, text

_METRICS = text(
    "SELECT now() AS collectiontime, coalesce(host(inet_server_addr()), 'localhost') AS hostname,"
    " ARRAY(SELECT coalesce(host(client_addr), 'localhost') FROM pg_stat_replication) AS replicas,"
    " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,"
    " extract(epoch FROM now() - pg_postmaster_start_time())::bigint AS uptime,"
    " (SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database) AS queries,"
    " current_setting('server_version') AS version, version() AS versioncomment"
)


def read_time(connection: Connection) -> Any:
    """Return the time of the database."""
    return connection.execute(select(func.now())).scalar_one()


def read_database_metrics(connection: Connection) -> dict[str, Any]:
    """Return the fields of ``listDbMetrics``."""
    row = dict(connection.execute(_METRICS).mappings().one())
    return {**row, "dbloadaverages": [round(row["queries"] / max(row["uptime"], 1), 2)]}
