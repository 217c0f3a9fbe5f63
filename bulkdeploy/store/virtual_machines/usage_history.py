"""The past usage of VMs: samples of many VMs, and sums over intervals for one VM."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, Integer, Select, cast, func, literal, select

from bulkdeploy.store.database.percentages import percent
from bulkdeploy.store.rows.filters import Arguments, Filters, by_id, by_ids, filtered, id_in, keyword
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.visibility import Visibility, with_owner
from bulkdeploy.store.tables.usage import guest_usage_intervals, guest_usage_samples
from bulkdeploy.store.tables.virtual_machines import virtual_machines


def list_usage_history(
    connection: Connection, visibility: Visibility, arguments: Arguments, paging: Paging
) -> Page:
    """Return one page of VMs, ordered by id, each with its samples between ``startdate`` and ``enddate``.

    The oldest sample is first.
    """
    vm = virtual_machines.c
    query = (
        select(vm.id.label("_id"), vm.uuid.label("id"), vm.name, vm.display_name.label("displayname"))
        .select_from(with_owner(virtual_machines, vm.account_id))
        .where(visibility.condition(), vm.removed.is_(None))
        .order_by(vm.id)
    )
    filters: Filters = {
        "id": by_id(vm.id),
        "ids": by_ids(vm.id),
        "name": keyword(vm.name),
        "keyword": keyword(vm.name, vm.display_name),
    }
    rows, count = fetch_rows(connection, filtered(query, filters, arguments), paging)
    samples = _samples(connection, [row["_id"] for row in rows], arguments)
    for row in rows:
        row["stats"] = samples[row.pop("_id")]
    return Page(rows, count)


def read_usage_history(
    connection: Connection, vm_id: int, period: timedelta, sample_s: int | None
) -> Sequence[dict[str, Any]]:
    """Return the usage of a VM by interval, the oldest first.

    If ``sample_s`` is None, the stored half-hour intervals are returned. Otherwise the samples are summed over
    intervals of ``sample_s`` seconds; samples are kept for ``vm.stats.max.retention.time``.
    """
    used = select(guest_usage_intervals) if sample_s is None else _intervals_of_samples(sample_s)
    of_vm = used.where(used.selected_columns.vm_id == vm_id).subquery().c
    query = (
        select(
            of_vm.begun.label("timestamp"),
            percent(func.round(func.sum(of_vm.cpu_shares) / func.sum(of_vm.measurements))).label("cpuused"),
            *(
                cast(func.sum(total) / func.sum(of_vm.measurements), BigInteger).label(name)
                for total, name in ((of_vm.memory_used_kib, "memoryusedkbs"), (of_vm.memory_kib, "memorykbs"))
            ),
            *(
                cast(func.sum(total), BigInteger).label(name)
                for total, name in (
                    (of_vm.received_kib, "networkkbsread"),
                    (of_vm.sent_kib, "networkkbswrite"),
                    (of_vm.read_kib, "diskkbsread"),
                    (of_vm.written_kib, "diskkbswrite"),
                )
            ),
        )
        .where(of_vm.begun > func.now() - period)
        .group_by(of_vm.begun)
        .order_by(of_vm.begun)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def _intervals_of_samples(interval_s: int) -> Select[Any]:
    """Return a query for usage samples in the format of stored intervals, with the interval of each sample."""
    used = guest_usage_samples.c
    begin = func.date_bin(timedelta(seconds=interval_s), used.seen, datetime.fromtimestamp(0, UTC))
    return select(
        used.vm_id,
        begin.label("begun"),
        literal(1).label("measurements"),
        used.cpu_share.label("cpu_shares"),
        used.memory_kib,
        func.greatest(0, used.memory_kib - func.coalesce(used.unused_kib, 0)).label("memory_used_kib"),
        used.received_kib,
        used.sent_kib,
        used.read_kib,
        used.written_kib,
    ).where(used.cpu_share.is_not(None))


def _samples(connection: Connection, vm_ids: list[int], arguments: Arguments) -> dict[int, list[dict[str, Any]]]:
    used = guest_usage_samples.c
    query = select(
        used.vm_id,
        used.seen.label("timestamp"),
        percent(used.cpu_share).label("cpuused"),
        used.read_requests.label("diskioread"),
        used.write_requests.label("diskiowrite"),
        (used.read_requests + used.write_requests).label("diskiopstotal"),
        used.read_kib.label("diskkbsread"),
        used.written_kib.label("diskkbswrite"),
        used.memory_kib.label("memorykbs"),
        used.memory_kib.label("memorytargetkbs"),
        func.coalesce(used.unused_kib, literal(-1)).label("memoryintfreekbs"),
        used.received_kib.label("networkkbsread"),
        used.sent_kib.label("networkkbswrite"),
        cast(used.received_kib / 1024, Integer).label("networkread"),
        cast(used.sent_kib / 1024, Integer).label("networkwrite"),
    ).where(id_in(used.vm_id, vm_ids))
    within: Filters = {"startdate": used.seen.__ge__, "enddate": used.seen.__le__}
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(filtered(query, within, arguments).order_by(used.vm_id, used.seen)).mappings():
        found[row["vm_id"]].append({name: value for name, value in row.items() if name != "vm_id"})
    return found
