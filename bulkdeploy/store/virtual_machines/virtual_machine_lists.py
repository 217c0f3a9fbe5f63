"""The lists inside a VM's row: NICs, groups, tags, and the VM's current job.

There is one statement per kind for any number of VMs; results are keyed by the VM's internal id. Each list is
available as rows, and as a part of JSON texts that the database builds (``store.database.json_objects``).
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Connection, Select, Text, func, literal_column, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.store.database.arrays import any_of, int_array, is_live
from bulkdeploy.store.database.json_objects import Fields, array, columns_of, members
from bulkdeploy.store.rows.visibility import account_name
from bulkdeploy.store.tables.accounts import accounts, domains
from bulkdeploy.store.tables.groups import (
    affinity_groups,
    security_groups,
    vm_affinity_groups,
    vm_security_groups,
)
from bulkdeploy.store.tables.jobs import async_jobs
from bulkdeploy.store.tables.networks import networks, nic_secondary_ips, nics
from bulkdeploy.store.virtual_machines.virtual_machine_details import VM_IDS

Row = dict[str, Any]
Lists = dict[int, list[Row]]

VM_INSTANCE_TYPE = "VirtualMachine"
"""``jobinstancetype`` of jobs that work on a VM."""


def nics_of(connection: Connection, vm_ids: Sequence[int]) -> Lists:
    """Return the response field ``nic`` of each VM: its live NICs in device order, by VM id."""
    lists = _grouped(connection, _nics_query(), vm_ids)
    for of_vm in lists.values():
        for row in of_vm:
            row["deviceid"] = str(row["deviceid"])
    return lists


def secondary_ips() -> ColumnElement[Any]:
    """Return the column ``secondaryip[]`` for a row of ``nics``, in the order of the assignment."""
    ip = nic_secondary_ips.c
    shown = func.json_build_object("id", ip.uuid, "ipaddress", func.host(ip.ip_address))
    listed = select(func.json_agg(aggregate_order_by(shown, ip.id))).where(ip.nic_id == nics.c.id)
    return func.coalesce(listed.scalar_subquery(), literal_column("'[]'::json")).label("secondaryip")


def security_groups_of(connection: Connection, vm_ids: Sequence[int]) -> Lists:
    """Return the response field ``securitygroup`` of each VM, without rules, by VM id."""
    return _grouped(connection, _security_groups_query(), vm_ids)


def affinity_groups_of(connection: Connection, vm_ids: Sequence[int]) -> Lists:
    """Return the response field ``affinitygroup`` of each VM, by VM id."""
    return _grouped(connection, _affinity_groups_query(), vm_ids)


def running_jobs_of(connection: Connection, vm_ids: Sequence[int]) -> dict[int, Row]:
    """Return ``jobid`` and ``jobstatus`` of the newest unfinished job of each VM.

    VMs without such a job are omitted.
    """
    query = _running_jobs().order_by(async_jobs.c.id)
    return {vm_id: rows[-1] for vm_id, rows in _grouped(connection, query, vm_ids).items()}


def _running_jobs() -> Select[Any]:
    # "status = 0" alone would let the planner take the index of unfinished jobs, of which it expects next to
    # nothing until statistics are taken: after a bulk call of 30,000 VMs a page of 500 took 0.7 s.
    return select(
        async_jobs.c.instance_id.label("vm_id"),
        async_jobs.c.uuid.label("jobid"),
        async_jobs.c.status.label("jobstatus"),
    ).where(
        async_jobs.c.instance_id == _any_vm(),
        async_jobs.c.instance_type == VM_INSTANCE_TYPE,
        async_jobs.c.status + 0 == JobStatus.IN_PROGRESS,
    )


def _any_vm() -> Any:
    return any_of(VM_IDS)


def _grouped(connection: Connection, query: Select[Any], vm_ids: Sequence[int]) -> Lists:
    """Execute a query whose first column is ``vm_id``, and return its rows by VM id, in query order."""
    result = connection.execute(query, {VM_IDS: int_array(vm_ids)})
    names = tuple(map(str, result.keys()))[1:]
    lists: Lists = defaultdict(list)
    for row in result.all():
        lists[row[0]].append(dict(zip(names, row[1:], strict=True)))
    return lists


@cache
def _nics_query() -> Select[Any]:
    return (
        _nics()
        .with_only_columns(nics.c.vm_id, *_nics().selected_columns, secondary_ips())
        .where(nics.c.vm_id == _any_vm())
        .order_by(nics.c.vm_id, nics.c.device_id)
    )


def _nics() -> Select[Any]:
    return (
        select(
            nics.c.uuid.label("id"),
            networks.c.uuid.label("networkid"),
            networks.c.name.label("networkname"),
            nics.c.netmask,
            nics.c.gateway,
            func.host(nics.c.ip_address, type_=Text).label("ipaddress"),
            (literal_column("'vlan://'", Text) + networks.c.vlan).label("isolationuri"),
            (literal_column("'vlan://'", Text) + networks.c.vlan).label("broadcasturi"),
            literal_column("'Guest'", Text).label("traffictype"),
            networks.c.guest_type.label("type"),
            nics.c.is_default.label("isdefault"),
            nics.c.mac_address.label("macaddress"),
            nics.c.device_id.label("deviceid"),
        )
        .select_from(nics.join(networks, networks.c.id == nics.c.network_id))
        .where(is_live(nics.c.removed))
    )


@cache
def _security_groups_query() -> Select[Any]:
    link, groups = vm_security_groups.c, _security_groups()
    columns = link.vm_id, *groups.selected_columns
    return (
        groups.with_only_columns(*columns).where(link.vm_id == _any_vm()).order_by(link.vm_id, security_groups.c.id)
    )


def _security_groups() -> Select[Any]:
    return select(
        security_groups.c.uuid.label("id"),
        security_groups.c.name,
        security_groups.c.description,
        account_name(),
        domains.c.uuid.label("domainid"),
        domains.c.name.label("domain"),
    ).select_from(
        vm_security_groups.join(security_groups, security_groups.c.id == vm_security_groups.c.security_group_id)
        .join(accounts, accounts.c.id == security_groups.c.account_id)
        .join(domains, domains.c.id == accounts.c.domain_id)
    )


@cache
def _affinity_groups_query() -> Select[Any]:
    link, groups = vm_affinity_groups.c, _affinity_groups()
    columns = link.vm_id, *groups.selected_columns
    return (
        groups.with_only_columns(*columns).where(link.vm_id == _any_vm()).order_by(link.vm_id, affinity_groups.c.id)
    )


def _affinity_groups() -> Select[Any]:
    return select(
        affinity_groups.c.uuid.label("id"),
        affinity_groups.c.name,
        affinity_groups.c.description,
        affinity_groups.c.affinity_type.label("type"),
        account_name(),
        domains.c.uuid.label("domainid"),
        domains.c.name.label("domain"),
    ).select_from(
        vm_affinity_groups.join(affinity_groups, affinity_groups.c.id == vm_affinity_groups.c.affinity_group_id)
        .join(domains, domains.c.id == affinity_groups.c.domain_id)
        .outerjoin(accounts, accounts.c.id == affinity_groups.c.account_id)
    )


def nics_part(fields: Fields) -> Select[Any]:
    """Return the query for the fields ``nic`` and ``ipaddress`` of VMs, as a part of JSON texts."""
    nic, query = nics.c, _nics()
    lists = partial(array, columns=columns_of(query), order=nic.device_id, arrays={"secondaryip": _secondary_ips})
    addresses = func.array_agg(aggregate_order_by(func.host(nic.ip_address), nic.device_id), type_=ARRAY(Text))
    own = {"ipaddress": addresses.filter(nic.is_default)[1]}
    return _by_vm(query.where(nic.vm_id == _any_vm()), nic.vm_id, members(fields, own, {"nic": lists}))


def _secondary_ips(fields: Fields) -> ColumnElement[str]:
    ip = nic_secondary_ips.c
    shown = {"id": ip.uuid, "ipaddress": func.host(ip.ip_address, type_=Text)}
    return select(array(fields, shown, ip.id)).where(ip.nic_id == nics.c.id).scalar_subquery()


def security_groups_part(fields: Fields) -> Select[Any]:
    """Return the query for the field ``securitygroup`` of VMs, as a part of JSON texts."""
    query, vm_id = _security_groups(), vm_security_groups.c.vm_id
    lists = partial(array, columns=columns_of(query), order=security_groups.c.id)
    return _by_vm(query.where(vm_id == _any_vm()), vm_id, members(fields, {}, {"securitygroup": lists}))


def affinity_groups_part(fields: Fields) -> Select[Any]:
    """Return the SQL query that creates the field ``affinitygroup`` of VMs as JSON text."""
    query, vm_id = _affinity_groups(), vm_affinity_groups.c.vm_id
    lists = partial(array, columns=columns_of(query), order=affinity_groups.c.id)
    return _by_vm(query.where(vm_id == _any_vm()), vm_id, members(fields, {}, {"affinitygroup": lists}))


def running_jobs_part(fields: Fields) -> Select[Any]:
    """Return the query for ``jobid`` and ``jobstatus`` of VMs' newest unfinished jobs, as a part of JSON texts."""
    job = async_jobs.c
    newest = func.array_agg(aggregate_order_by(job.uuid, job.id.desc()), type_=ARRAY(job.uuid.type))[1]
    shown = members(fields, {"jobid": newest, "jobstatus": func.min(job.status)})
    return _by_vm(_running_jobs(), job.instance_id, shown)


def _by_vm(query: Select[Any], vm_id: ColumnElement[Any], shown: ColumnElement[Any]) -> Select[Any]:
    return query.with_only_columns(vm_id, shown.label("members")).group_by(vm_id)
