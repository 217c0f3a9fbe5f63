"""The usage of hosts over time, per host or summed, from stored intervals."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, Numeric, cast, func, select

from bulkdeploy.domain.units import KIB
from bulkdeploy.store.database.percentages import percent
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, filtered
from bulkdeploy.store.tables.topology import hosts
from bulkdeploy.store.tables.usage import host_usage_intervals

FILTERS: Filters = {
    "hostid": by_id(hosts.c.id),
    "clusterid": by_id(hosts.c.cluster_id),
    "zoneid": by_id(hosts.c.zone_id),
}


def read_usage_history(
    connection: Connection, arguments: Arguments, period: timedelta, interval_s: int
) -> Sequence[dict[str, Any]]:
    """Return the summed usage of the hosts that the arguments select, by interval, the oldest first.

    The CPU share is the mean, weighted by the hosts' cores. Memory is the sum of the hosts' means. Traffic is that
    of the whole interval.
    """
    used, host = host_usage_intervals.c, hosts.c
    share = used.cpu_shares / cast(func.nullif(used.cpu_measurements, 0), Numeric)
    measured_cores = func.nullif(func.sum(host.cpu_cores).filter(used.cpu_measurements > 0), 0)
    query = (
        select(
            used.begun.label("timestamp"),
            func.count().label("hosts"),
            percent(func.round(func.sum(share * host.cpu_cores) / measured_cores)).label("cpuused"),
            cast(func.sum(used.memory_used_kib / used.measurements), BigInteger).label("memoryusedkbs"),
            cast(func.sum(host.memory_mib * KIB), BigInteger).label("memorykbs"),
            cast(func.sum(used.received_kib), BigInteger).label("networkkbsread"),
            cast(func.sum(used.sent_kib), BigInteger).label("networkkbswrite"),
        )
        .join(hosts, host.id == used.host_id)
        .where(host.removed.is_(None), used.interval_s == interval_s, used.begun > func.now() - period)
        .group_by(used.begun)
        .order_by(used.begun)
    )
    return [dict(row) for row in connection.execute(filtered(query, FILTERS, arguments)).mappings()]
