"""Virtual machines as API clients see them: rows by id, and the list query (one file: one object).

The number of statements does not depend on the number of VMs, up to ``listing.ROWS_AT_ONCE``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, case, exists, func, not_, or_, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from bulkdeploy.declare.responses import Field
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.networks.guest_networks import GuestType
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.virtual_machines.virtual_machines import GONE, VmState
from bulkdeploy.store.database.arrays import int_array, is_live
from bulkdeploy.store.deployments.managed_deployments import parts_of_deployment
from bulkdeploy.store.resource_tags import USER_VM, tags_of
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filter,
    Filters,
    by_id,
    by_ids,
    equal,
    filtered,
    id_in,
    keyword,
    linked,
    same_text,
    tagged,
)
from bulkdeploy.store.rows.listing import Orders, Page, Paging, StoredCount, fetch_page, ordered, rows_of
from bulkdeploy.store.rows.visibility import Visibility
from bulkdeploy.store.tables.accounts import accounts
from bulkdeploy.store.tables.groups import user_data, vm_affinity_groups, vm_security_groups
from bulkdeploy.store.tables.ledger import resource_counts
from bulkdeploy.store.tables.networks import networks, nics
from bulkdeploy.store.tables.offerings import service_offerings, templates
from bulkdeploy.store.tables.topology import hosts, zones
from bulkdeploy.store.tables.virtual_machines import deployments, virtual_machines, volumes
from bulkdeploy.store.virtual_machines.virtual_machine_details import (
    EVERYTHING,
    VM_IDS,
    Detail,
    details_query,
    key_pairs_column,
    user_data_column,
    user_data_details_column,
)
from bulkdeploy.store.virtual_machines.virtual_machine_json import virtual_machine_texts
from bulkdeploy.store.virtual_machines.virtual_machine_lists import (
    affinity_groups_of,
    nics_of,
    running_jobs_of,
    security_groups_of,
)

PRESENT = "present"
"""Besides the states, what the ``state`` filter takes: every VM that is not destroyed."""


def _orders() -> Orders:
    """Return the expressions by which lists can be sorted.

    Columns of other tables are looked up for each VM, and only if they are requested.
    """
    vm = virtual_machines.c

    def of(table: Table, reference: ColumnElement[Any], name: str = "name") -> ColumnElement[Any]:
        return select(table.c[name]).where(table.c.id == reference).scalar_subquery()

    address = select(nics.c.ip_address).where(nics.c.vm_id == vm.id, is_live(nics.c.removed), nics.c.is_default)
    return {
        "name": vm.name,
        "state": vm.state,
        "ipaddress": address.scalar_subquery(),
        "hostname": of(hosts, vm.host_id),
        "account": of(accounts, vm.account_id),
        "zonename": of(zones, vm.zone_id),
        "serviceofferingname": of(service_offerings, vm.service_offering_id),
        "templatename": of(templates, vm.template_id),
        "cpunumber": vm.cpu_number,
        "memory": vm.memory_mib,
        "hypervisor": vm.hypervisor,
        "instancename": vm.instance_name,
        "created": vm.created,
    }


ORDERS = _orders()


def virtual_machine_rows(
    connection: Connection,
    vm_ids: Sequence[int],
    details: frozenset[Detail] = EVERYTHING,
    *,
    with_user_data: bool = False,
    with_jobs: bool = False,
) -> dict[int, dict[str, Any]]:
    """Return the UserVm objects of these VMs by internal id, with the parts that ``details`` selects.

    Unknown ids are omitted; removed VMs are included. ``with_jobs`` adds ``jobid`` and ``jobstatus`` of a VM's
    unfinished job.
    """
    if not vm_ids:
        return {}
    wanted = EVERYTHING if Detail.ALL in details else details
    query = details_query(wanted)
    if with_user_data:
        query = query.add_columns(user_data_column(), user_data_details_column())
    result = connection.execute(query, {VM_IDS: int_array(vm_ids)})
    names = tuple(map(str, result.keys()))
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in result.all()}
    for row in rows.values():
        del row["vm_id"]
    _add_lists(connection, rows, wanted)
    if with_jobs:
        for vm_id, job in running_jobs_of(connection, vm_ids).items():
            rows[vm_id].update(job)
    return rows


def _add_lists(connection: Connection, rows: dict[int, dict[str, Any]], details: frozenset[Detail]) -> None:
    vm_ids = list(rows)
    readers: Mapping[str, tuple[Detail, Callable[[Connection, Sequence[int]], Any]]] = {
        "nic": (Detail.NICS, nics_of),
        "securitygroup": (Detail.SECURITY_GROUPS, security_groups_of),
        "affinitygroup": (Detail.AFFINITY_GROUPS, affinity_groups_of),
    }
    for field, (detail, read) in readers.items():
        if detail in details:
            lists = read(connection, vm_ids)
            for vm_id, row in rows.items():
                row[field] = lists.get(vm_id, [])
    tags = tags_of(connection, USER_VM, {vm_id: row["id"] for vm_id, row in rows.items()})
    for vm_id, row in rows.items():
        row["tags"] = tags.get(vm_id, [])
        default = next((nic for nic in row.get("nic", ()) if nic["isdefault"]), None)
        if default is not None:
            row["ipaddress"] = default["ipaddress"]


def _keyword(*, sees_instance_names: bool) -> Filter:
    """Return the filter for a text in the names of a VM.

    For callers who see instance names, it also searches these and the states. A text that is an IP address also
    selects the VMs that have this address. Each searched text costs 2 ms per 25,000 VMs, so a display name that
    equals the name is skipped, and states are compared instead of searched.
    """
    vm = virtual_machines.c
    display_name = func.nullif(vm.display_name, vm.name)
    in_names = keyword(vm.name, display_name, *((vm.instance_name,) if sees_instance_names else ()))

    def condition(value: str) -> Condition:
        conditions = [in_names(value)]
        states = [state.value for state in VmState if value.lower() in state.value.lower()]
        if states and sees_instance_names:
            conditions.append(vm.state.in_(states))
        try:
            address = ip_address(value)
        except ValueError:
            return or_(*conditions)
        with_address = select(nics.c.vm_id).where(nics.c.ip_address == address, nics.c.removed.is_(None))
        return or_(*conditions, vm.id.in_(with_address))

    return condition


def list_virtual_machines(
    connection: Connection,
    visibility: Visibility,
    arguments: Arguments,
    paging: Paging,
    details: frozenset[Detail] = EVERYTHING,
    *,
    sees_instance_names: bool,
    sees_destroyed: bool,
) -> Page:
    """Return one page of visible VMs in creation order.

    ``keyword`` searches instance names only for callers who see them. Expunging VMs are listed only if ``state``
    requests them, and destroyed VMs only for callers who may see these.
    """
    vm = virtual_machines.c
    query = select(vm.id).where(visibility.of_account(vm.account_id), vm.removed.is_(None))
    filters = {**_filters(), "keyword": _keyword(sees_instance_names=sees_instance_names)}
    listed = vm.state != VmState.EXPUNGING if sees_destroyed else vm.state.not_in(GONE)
    if not sees_destroyed or "state" not in arguments:
        query = query.where(listed)
    kept = None
    if not filters.keys() & arguments.keys():
        kept = StoredCount(_count_kept(visibility, listed), None if "sortby" in arguments else vm.id)
    query = filtered(query, filters, arguments)
    page = fetch_page(connection, ordered(query, ORDERS, arguments, vm.id), paging, kept)
    ids = [row["id"] for row in page.rows]
    wanted: Any = {"details": details, "with_user_data": bool(arguments.get("userdata"))}
    rows = rows_of(ids, partial(virtual_machine_rows, connection, **wanted, with_jobs=True))

    def json(fields: tuple[Field, ...]) -> Sequence[str]:
        return rows_of(ids, partial(virtual_machine_texts, connection, fields, **wanted))

    return Page(rows, page.count, json)


def select_vms(
    connection: Connection,
    visibility: Visibility,
    arguments: Arguments,
    *,
    without: Collection[VmState] = (),
    excluded_ids: Collection[int] = (),
) -> list[int]:
    """Return the ids of all visible VMs that match the filters of ``list_virtual_machines``, in ascending order.

    ``deploymentid`` is an additional filter. VMs in the states ``without`` and VMs with ``excluded_ids`` are
    omitted.
    """
    vm = virtual_machines.c
    query = select(vm.id).where(visibility.of_account(vm.account_id), vm.removed.is_(None))
    if without:
        query = query.where(vm.state.not_in(without))
    if excluded_ids:
        query = query.where(not_(id_in(vm.id, excluded_ids)))
    filters = {**_filters(), "keyword": _keyword(sees_instance_names=False), "deploymentid": _of_deployment}
    found = filtered(query, filters, arguments).subquery()
    ids = func.array_agg(aggregate_order_by(found.c.id, found.c.id))
    return list(connection.execute(select(ids)).scalar_one() or ())


def _of_deployment(deployment: EntityRef) -> Condition:
    return virtual_machines.c.deployment_id.in_(parts_of_deployment(deployment.id))


def _count_kept(visibility: Visibility, listed: Condition) -> Select[Any]:
    """Return a query that counts the VMs of visible owners that match ``listed``, without reading all of them.

    It corrects the stored resource counts by the few VMs that are either counted or listed, but not both.
    """
    vm, counts = virtual_machines.c, resource_counts.c
    kept = select(func.coalesce(func.sum(counts.amount), 0)).where(
        counts.owner_kind == "account",
        counts.resource_type == ResourceType.USER_VM,
        visibility.of_account(counts.owner_id),
    )
    more = case((and_(vm.compute_released, listed), 1), (and_(~vm.compute_released, ~listed), -1), else_=0)
    others = select(func.coalesce(func.sum(more), 0)).where(
        vm.removed.is_(None), or_(vm.compute_released, vm.gone), visibility.of_account(vm.account_id)
    )
    return select(kept.scalar_subquery() + others.scalar_subquery())


def _filters() -> Filters:
    vm = virtual_machines.c
    return {
        "id": by_id(vm.id),
        "ids": by_ids(vm.id),
        "name": same_text(vm.name),
        "state": _in_state,
        "zoneid": by_id(vm.zone_id),
        "podid": _in_pod,
        "clusterid": by_id(vm.cluster_id),
        "hostid": by_id(vm.host_id),
        "storageid": _on_pool,
        "serviceofferingid": by_id(vm.service_offering_id),
        "templateid": by_id(vm.template_id),
        "isoid": _has_iso,
        "userid": by_id(vm.user_id),
        "groupid": by_id(vm.group_id),
        "hypervisor": same_text(vm.hypervisor),
        "networkid": _in_network,
        "securitygroupid": linked(vm_security_groups, "vm_id", vm.id, "security_group_id"),
        "affinitygroupid": linked(vm_affinity_groups, "vm_id", vm.id, "affinity_group_id"),
        "keypair": _has_key_pair,
        "displayvm": equal(vm.display_vm),
        "haenable": _is_highly_available,
        "leased": lambda wanted: vm.lease_expires.is_not(None) if wanted else vm.lease_expires.is_(None),
        "userdataid": _has_user_data,
        "forvirtualnetwork": _in_isolated_network,
        "arch": _of_architecture,
        "tags": tagged(USER_VM, vm.id),
    }


def _in_state(state: str) -> Condition:
    column = virtual_machines.c.state
    return column.not_in(GONE) if state == PRESENT else column == state


def _in_pod(pod: EntityRef) -> Condition:
    vm = virtual_machines.c
    return (vm.pod_id == pod.id) & (vm.state != VmState.DESTROYED)


def _on_pool(pool: EntityRef) -> Condition:
    volume = volumes.c
    found = select(1).where(
        volume.vm_id == virtual_machines.c.id, volume.pool_id == pool.id, volume.removed.is_(None)
    )
    return exists(found)


def _in_network(network: EntityRef) -> Condition:
    nic = nics.c
    found = select(1).where(nic.vm_id == virtual_machines.c.id, nic.network_id == network.id, nic.removed.is_(None))
    return exists(found)


def _has_key_pair(name: str) -> Condition:
    keys = key_pairs_column()
    return exists(select(1).where(deployments.c.id == virtual_machines.c.deployment_id, keys.op("?")(name)))


def _has_user_data(registered: EntityRef) -> Condition:
    content = select(user_data.c.content).where(user_data.c.id == registered.id).scalar_subquery()
    shared = select(user_data_column()).where(deployments.c.id == virtual_machines.c.deployment_id)
    return shared.correlate(virtual_machines).scalar_subquery() == content


def _in_isolated_network(value: bool) -> Condition:
    nic, network = nics.c, networks.c
    found = (
        select(1)
        .join(networks, network.id == nic.network_id)
        .where(nic.vm_id == virtual_machines.c.id, nic.removed.is_(None), network.guest_type == GuestType.ISOLATED)
    )
    return exists(found) if value else ~exists(found)


def _of_architecture(arch: str) -> Condition:
    template = templates.c
    return exists(select(1).where(template.id == virtual_machines.c.template_id, template.arch == arch.lower()))


def _has_iso(iso: EntityRef) -> Condition:
    vm = virtual_machines.c
    return func.coalesce(vm.iso_id, vm.template_id) == iso.id


def _is_highly_available(value: bool) -> Condition:
    offering, vm = service_offerings.c, virtual_machines.c
    enabled = func.coalesce(vm.ha_enabled, offering.offer_ha)
    return exists(select(1).where(offering.id == vm.service_offering_id, enabled == value))
