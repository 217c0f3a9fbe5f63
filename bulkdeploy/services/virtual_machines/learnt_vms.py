"""VMs that are imported from another cloud: their rows follow the cloud's report (one file: one comparison).

A VM is skipped while a job of this service works on it. The other cloud has placed these VMs, so no placement,
limit or driver is used here, and capacity is claimed as it is used.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.cloudstack.calls import id_of
from bulkdeploy.store.accounts.resource_recounts import COUNTED, recount
from bulkdeploy.store.hypervisors import counterparts
from bulkdeploy.store.ledger.ledger import release_hosts_of, release_pools_of
from bulkdeploy.store.ledger.release import release_vms
from bulkdeploy.store.ledger.seen_claims import book_hosts, book_pools
from bulkdeploy.store.networks.given_addresses import (
    GivenAddress,
    free_given_addresses,
    write_given_addresses,
)
from bulkdeploy.store.rows.learnt_entities import forget_learnt
from bulkdeploy.store.rows.live_rows import change_rows
from bulkdeploy.store.virtual_machines import learnt_vms as store

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LearntOwner:
    """The owner of an entity in the other cloud: a project, or an account of a domain."""

    project: str | None
    domain: str
    account: str


@dataclass(frozen=True, slots=True)
class LearntVolume:
    """A volume that another cloud reports. All ids are uuids. If ``vm`` is None, the volume is not attached."""

    uuid: UUID
    name: str
    owner: LearntOwner
    zone: str
    vm: UUID | None
    pool: str | None
    kind: str
    device: int | None
    size_bytes: int
    disk_offering: str | None


@dataclass(frozen=True, slots=True)
class LearntNic:
    """A NIC of a VM that another cloud reports. All ids are uuids.

    ``ip`` is None if the NIC has no IPv4 address.
    """

    uuid: UUID
    vm: UUID
    network: str
    ip: str | None
    mac: str
    gateway: str | None
    netmask: str | None
    device: int
    is_default: bool


@dataclass(frozen=True, slots=True)
class LearntVm:
    """A VM that another cloud reports. ``host`` is None if the VM is on no host. Memory is in MiB."""

    uuid: UUID
    name: str
    display_name: str
    instance_name: str
    owner: LearntOwner
    zone: str
    host: str | None
    hypervisor: str
    offering: str
    offering_name: str
    template: str
    template_name: str
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    state: VmState
    security_groups: tuple[str, ...]
    affinity_groups: tuple[str, ...]
    nics: tuple[LearntNic, ...]


@dataclass(frozen=True, slots=True)
class LearntMachines:
    """VMs and volumes that another cloud reports.

    Attributes:
        vms: the VMs, with their NICs.
        volumes: all volumes of these VMs, and volumes that are not attached.
        gone_vms: VMs that no longer exist in the other cloud.
        gone_volumes: volumes that no longer exist in the other cloud.
        is_all: whether the report contains all VMs and volumes of the other cloud.
    """

    vms: Sequence[LearntVm]
    volumes: Sequence[LearntVolume]
    gone_vms: Collection[UUID] = ()
    gone_volumes: Collection[UUID] = ()
    is_all: bool = True


@dataclass(slots=True)
class Learnt:
    """The numbers of VMs that were created, changed and removed, and the VMs that were skipped, with reasons."""

    created: int = 0
    changed: int = 0
    removed: int = 0
    left_out: list[str] = field(default_factory=list)


def follow_virtual_machines(
    connection: Connection,
    caller: Caller,
    machines: LearntMachines,
    read: datetime,
    is_of_cloud: Callable[[str], bool],
) -> Learnt:
    """Update the rows of VMs, volumes and NICs so that they match the report of another cloud.

    A VM is skipped if a job works on it or has worked on it since the report was read.

    Args:
        connection: has an open transaction.
        caller: the caller in whose name rows are written.
        machines: the report.
        read: the time at which reading the report began, by the database's clock.
        is_of_cloud: tells whether VMs of a hypervisor type run in the other cloud, which then chooses their
            addresses.
    """
    return _Following(connection, caller, machines, read, is_of_cloud).run()


class _Following:
    def __init__(
        self,
        connection: Connection,
        caller: Caller,
        machines: LearntMachines,
        read: datetime,
        is_of_cloud: Callable[[str], bool],
    ) -> None:
        self._connection, self._caller, self._machines = connection, caller, machines
        self._is_of_cloud = is_of_cloud
        self._learnt = Learnt()
        self._ids = store.ids_by_uuid(connection)
        self._accounts = store.accounts_by_name(connection)
        self._hosts = store.host_places(connection, {vm.host for vm in machines.vms if vm.host is not None})
        self._touched: set[int] = set()
        self._ordered = ordered_there(connection, _ids_of(machines))
        self._part = None if machines.is_all else self._part_of(machines)
        self._vms = store.present(connection, Entity.VIRTUAL_MACHINE, self._part)
        self._brought = store.brought_by_imports(connection, [row["id"] for row in self._vms.values()])
        held = store.held_by_jobs(connection, read)
        self._busy = {uuid for uuid, row in self._vms.items() if row["id"] in held}

    def _part_of(self, machines: LearntMachines) -> store.Part:
        there = [vm.uuid for vm in machines.vms] + list(machines.gone_vms)
        ours = {self._ordered.get(uuid) or uuid for uuid in there}
        volumes = {volume.uuid for volume in machines.volumes} | set(machines.gone_volumes)
        return store.Part(ours, volumes, {vm.name.lower() for vm in machines.vms})

    def run(self) -> Learnt:
        self._machines = replace(
            self._machines,
            vms=list(self._under_our_ids()),
            volumes=[volume for volume in self._machines.volumes if volume.uuid not in self._ordered],
        )
        gone = {uuid: self._ordered.get(uuid, uuid) for uuid in self._machines.gone_vms}
        forget_learnt(self._connection, [uuid for uuid, ours in gone.items() if ours not in self._busy])
        self._remove([uuid for uuid in gone.values() if uuid in self._vms and uuid not in self._busy])
        self._follow_vms()
        self._follow_volumes()
        self._follow_nics()
        if self._touched:
            recount(self._connection, sorted(self._touched), COUNTED)
        return self._learnt

    def _under_our_ids(self) -> Iterator[LearntVm]:
        """Yield the reported VMs; a VM that this service created in the other cloud gets its uuid in this service.

        VMs that earlier attempts of a job left in the other cloud are skipped.
        """
        for vm in self._machines.vms:
            if vm.uuid not in self._ordered:
                yield vm
            elif (ours := self._ordered[vm.uuid]) in self._vms and ours is not None:
                yield replace(vm, uuid=ours)

    def _is_ours(self, vm: UUID) -> bool:
        """Return whether a call of this service deployed the VM.

        The volumes and NICs of such a VM are defined by its rows, not by the other cloud.
        """
        return vm in self._vms and self._vms[vm]["id"] not in self._brought

    def _is_followed(self, vm: UUID) -> bool:
        """Return whether the volumes and NICs of a VM are updated from the report."""
        return vm in self._vms and vm not in self._busy and not self._is_ours(vm)

    def _remove(self, gone: Iterable[UUID | None]) -> None:
        rows = [self._vms.pop(uuid) for uuid in gone if uuid is not None]
        if rows:
            ids = [row["id"] for row in rows]
            release_vms(self._connection, ids)
            store.mark_removed(self._connection, Entity.VIRTUAL_MACHINE, ids, VmState.EXPUNGING.value)
            self._learnt.removed = len(rows)

    def _follow_vms(self) -> None:
        new: dict[tuple[int, int], list[dict[str, Any]]] = {}
        changed: list[tuple[EntityRef, dict[str, Any]]] = []
        members: list[LearntVm] = []
        for vm in self._machines.vms:
            row = self._vms.get(vm.uuid)
            if vm.uuid in self._busy:
                continue
            try:
                columns = self._columns(vm)
            except LookupError as error:
                self._learnt.left_out.append(f"virtualmachines {vm.name} ({vm.uuid}): {error.args[0]}")
                continue
            if row is not None and self._is_ours(vm.uuid):
                columns = {name: columns[name] for name in WHEREABOUTS}
            if row is None:
                new.setdefault((columns["account_id"], columns["zone_id"]), []).append(columns)
                members.append(vm)
            elif different := _different(columns, row):
                changed.append((EntityRef(Entity.VIRTUAL_MACHINE, row["id"], vm.uuid, vm.name), different))
        self._change_vms(changed)
        for (account_id, zone_id), rows in new.items():
            self._insert_vms(account_id, zone_id, rows)
        self._join(members)

    def _columns(self, vm: LearntVm) -> dict[str, Any]:
        on_host = vm.host is not None and vm.state is VmState.RUNNING
        if on_host and vm.host not in self._hosts:
            raise LookupError(f"host {vm.host} is unknown to this service")
        host, cluster, pod = self._hosts[str(vm.host)] if on_host else (None, None, None)
        account_id = self._account(vm.owner)
        return {
            "uuid": vm.uuid,
            "name": vm.name,
            "display_name": vm.display_name,
            "instance_name": vm.instance_name,
            "account_id": account_id,
            "zone_id": self._id("zones", vm.zone),
            "host_id": host,
            "cluster_id": cluster,
            "pod_id": pod,
            "hypervisor": vm.hypervisor,
            "service_offering_id": self._offering(vm),
            "template_id": self._template(vm, account_id),
            "cpu_number": vm.cpu_number,
            "cpu_mhz": vm.cpu_mhz,
            "memory_mib": vm.memory_mib,
            "state": vm.state.value,
            "compute_released": vm.state is VmState.DESTROYED,
        }

    def _change_vms(self, changed: Sequence[tuple[EntityRef, dict[str, Any]]]) -> None:
        if not changed:
            return
        rebooked = [ref for ref, different in changed if different.keys() & CLAIMED]
        release_hosts_of(self._connection, [ref.uuid for ref in rebooked])
        written = []
        for ref, different in changed:
            row = self._vms[ref.uuid]
            self._touched |= {row["account_id"], different.get("account_id", row["account_id"])}
            last = {"last_host_id": row["host_id"]} if row["host_id"] is not None and "host_id" in different else {}
            row.update(different)
            written.append((ref, {**different, **last}))
        change_rows(self._connection, written)
        self._book([self._vms[ref.uuid] for ref in rebooked])
        self._learnt.changed = len(changed)

    def _insert_vms(self, account_id: int, zone_id: int, rows: Sequence[dict[str, Any]]) -> None:
        user_id = self._caller.user_id
        deployment = store.insert_deployment(self._connection, user_id, account_id, zone_id, len(rows))
        complete = [{**row, "user_id": user_id, "deployment_id": deployment} for row in rows]
        for row, number in zip(
            complete, store.insert_many(self._connection, Entity.VIRTUAL_MACHINE, complete), strict=True
        ):
            self._vms[row["uuid"]] = {**row, "id": number}
            self._brought.add(number)
        self._book(rows)
        self._touched.add(account_id)
        self._learnt.created += len(rows)

    def _book(self, rows: Sequence[Row]) -> None:
        on_hosts = [row for row in rows if row["host_id"] is not None]
        book_hosts(
            self._connection,
            [row["uuid"] for row in on_hosts],
            [row["host_id"] for row in on_hosts],
            [row["account_id"] for row in on_hosts],
            [row["cpu_number"] * row["cpu_mhz"] for row in on_hosts],
            [row["memory_mib"] for row in on_hosts],
        )

    def _join(self, vms: Iterable[LearntVm]) -> None:
        security: list[tuple[int, int]] = []
        affinity: list[tuple[int, int]] = []
        for vm in vms:
            vm_id = self._vms[vm.uuid]["id"]
            security += [
                (vm_id, self._ids["security_groups"][group])
                for group in vm.security_groups
                if group in self._ids["security_groups"]
            ]
            affinity += [
                (vm_id, self._ids["affinity_groups"][group])
                for group in vm.affinity_groups
                if group in self._ids["affinity_groups"]
            ]
        store.write_memberships(self._connection, security, affinity)

    def _follow_volumes(self) -> None:
        there = store.present(self._connection, Entity.VOLUME, self._part)
        new: list[dict[str, Any]] = []
        changed: list[tuple[EntityRef, dict[str, Any]]] = []
        seen: set[UUID] = set()
        for volume in self._machines.volumes:
            seen.add(volume.uuid)
            if volume.vm is not None and not self._is_followed(volume.vm):
                continue
            try:
                columns = self._volume(volume)
            except LookupError as error:
                self._learnt.left_out.append(f"volumes {volume.name} ({volume.uuid}): {error.args[0]}")
                continue
            row = there.get(volume.uuid)
            if row is None:
                new.append(columns)
            elif different := _different(columns, row):
                changed.append((EntityRef(Entity.VOLUME, row["id"], volume.uuid, volume.name), different))
        learnt = {self._vms[vm.uuid]["id"] for vm in self._machines.vms if self._is_followed(vm.uuid)}
        no_more = set(self._machines.gone_volumes) - self._ordered.keys()
        gone = [
            row
            for uuid, row in there.items()
            if uuid not in seen and (row["vm_id"] in learnt or (row["vm_id"] is None and uuid in no_more))
        ]
        forget_learnt(self._connection, no_more)
        self._write_volumes(new, changed, there, gone)

    def _write_volumes(
        self,
        new: Sequence[dict[str, Any]],
        changed: Sequence[tuple[EntityRef, dict[str, Any]]],
        there: Mapping[UUID, dict[str, Any]],
        gone: Sequence[Row],
    ) -> None:
        moved = [ref.uuid for ref, different in changed if different.keys() & {"pool_id", "size_bytes"}]
        release_pools_of(self._connection, [*moved, *(row["uuid"] for row in gone)])
        store.mark_removed(self._connection, Entity.VOLUME, [row["id"] for row in gone], "Expunged")
        change_rows(self._connection, changed)
        store.insert_many(self._connection, Entity.VOLUME, new)
        now = [*new, *({**there[ref.uuid], **different} for ref, different in changed if ref.uuid in set(moved))]
        placed = [row for row in now if row["pool_id"] is not None]
        book_pools(
            self._connection,
            [row["uuid"] for row in placed],
            [row["pool_id"] for row in placed],
            [row["size_bytes"] for row in placed],
        )
        self._touched |= {row["account_id"] for row in (*now, *gone)}

    def _volume(self, volume: LearntVolume) -> dict[str, Any]:
        vm = None if volume.vm is None else self._vms[volume.vm]
        pool = None if volume.pool is None else self._id("pools", volume.pool)
        return {
            "uuid": volume.uuid,
            "name": volume.name,
            "account_id": self._account(volume.owner),
            "zone_id": self._id("zones", volume.zone),
            "vm_id": None if vm is None else vm["id"],
            "pool_id": pool,
            "volume_type": volume.kind,
            "device_id": volume.device,
            "size_bytes": volume.size_bytes,
            "template_id": vm["template_id"] if vm is not None and volume.kind == "ROOT" else None,
            "disk_offering_id": self._ids["disk_offerings"].get(str(volume.disk_offering)),
            "service_offering_id": vm["service_offering_id"] if vm is not None and volume.kind == "ROOT" else None,
            "state": "Allocated" if pool is None else "Ready",
            "standalone": vm is None,
        }

    def _follow_nics(self) -> None:
        there = store.present(self._connection, Entity.NIC, self._part)
        ranges = _Ranges(store.ranges_of_networks(self._connection))
        held = {(row["network_id"], row["vm_name"]) for row in there.values() if row["vm_name"] is not None}
        new: list[dict[str, Any]] = []
        changed: list[GivenAddress] = []
        seen: set[UUID] = set()
        gone: list[int] = []
        learnt: set[int] = set()
        for vm in self._machines.vms:
            if self._is_ours(vm.uuid) and vm.uuid not in self._busy:
                changed += self._addresses_of_ours(vm, there)
            if not self._is_followed(vm.uuid):
                continue
            learnt.add(self._vms[vm.uuid]["id"])
            for nic in vm.nics:
                columns = self._nic(vm, nic, ranges, held)
                row = there.get(nic.uuid)
                if columns is None:
                    continue
                if row is None or row["network_id"] != columns["network_id"]:
                    new.append(columns)
                    continue
                seen.add(nic.uuid)
                if _different({name: columns[name] for name in ADDRESSED}, row):
                    changed.append(_given_address(columns, row["id"]))
        gone += [row["id"] for uuid, row in there.items() if uuid not in seen and row["vm_id"] in learnt]
        store.remove_nics(self._connection, gone)
        kept = free_given_addresses(
            self._connection, [*(_given_address(columns, None) for columns in new), *changed], self._is_of_cloud
        )
        outside = {(one.network_id, one.ip) for one in kept}
        for columns in new:
            if (columns["network_id"], columns["ip_address"]) in outside:
                columns |= {"ip_address": None, "ip_range_id": None}
        write_given_addresses(self._connection, changed, self._is_of_cloud)
        store.insert_many(self._connection, Entity.NIC, new)
        self._learnt.left_out += [
            f"nics: VM {one.vm_name}, which is not a VM of the other cloud, has the address {one.ip}, too"
            for one in kept
        ]

    def _addresses_of_ours(self, vm: LearntVm, there: Mapping[UUID, dict[str, Any]]) -> Iterator[GivenAddress]:
        """Yield the addresses of NICs that differ between the rows and the other cloud.

        This is for VMs of this service that the other cloud runs: the other cloud chooses their addresses.
        """
        vm_id = self._vms[vm.uuid]["id"]
        rows = sorted((row for row in there.values() if row["vm_id"] == vm_id), key=lambda row: row["device_id"])
        for nic in sorted(vm.nics, key=lambda one: one.device):
            network_id = self._ids["networks"].get(nic.network)
            row = next((row for row in rows if row["network_id"] == network_id), None)
            if row is not None:
                rows.remove(row)
                if (row["ip_address"], row["mac_address"]) != (nic.ip, nic.mac):
                    yield GivenAddress(row["id"], row["network_id"], nic.mac, nic.ip, nic.gateway, nic.netmask)

    def _nic(
        self, vm: LearntVm, nic: LearntNic, ranges: "_Ranges", held: set[tuple[int, str]]
    ) -> dict[str, Any] | None:
        network_id = self._ids["networks"].get(nic.network)
        if network_id is None:
            self._learnt.left_out.append(
                f"nics {nic.uuid} of {vm.name}: its network {nic.network} is unknown to this service"
            )
            return None
        name = vm.name.lower()
        is_free = vm.state is not VmState.DESTROYED and (network_id, name) not in held
        if is_free:
            held.add((network_id, name))
        return {
            "uuid": nic.uuid,
            "vm_id": self._vms[vm.uuid]["id"],
            "network_id": network_id,
            "ip_range_id": ranges.of(network_id, nic.ip),
            "ip_address": nic.ip,
            "mac_address": nic.mac,
            "gateway": nic.gateway,
            "netmask": nic.netmask,
            "device_id": nic.device,
            "is_default": nic.is_default,
            "vm_name": name if is_free else None,
        }

    def _account(self, owner: LearntOwner) -> int:
        if owner.project is not None:
            return self._id("projects", owner.project)
        found = self._accounts.get((owner.domain, owner.account.lower()))
        if found is None:
            raise LookupError(f"account {owner.account} is unknown to this service")
        return found

    def _id(self, kind: str, uuid: str) -> int:
        found = self._ids[kind].get(uuid)
        if found is None:
            raise LookupError(f"{uuid}, one of its {kind.replace('_', ' ')}, is unknown to this service")
        return found

    def _offering(self, vm: LearntVm) -> int:
        known = self._ids["offerings"]
        if vm.offering not in known:
            known[vm.offering] = store.insert_offering_as_deleted(self._connection, vm.offering, vm.offering_name)
        return known[vm.offering]

    def _template(self, vm: LearntVm, account_id: int) -> int:
        known = self._ids["templates"]
        if vm.template not in known:
            known[vm.template] = store.insert_template_as_deleted(
                self._connection, account_id, vm.template, vm.template_name
            )
        return known[vm.template]


def _ids_of(machines: LearntMachines) -> set[UUID]:
    """Return the other cloud's ids of all reported VMs and volumes."""
    named = {*(vm.uuid for vm in machines.vms), *(volume.uuid for volume in machines.volumes)}
    return named.union(machines.gone_vms, machines.gone_volumes)


def ordered_there(connection: Connection, ids: Collection[UUID]) -> dict[UUID, UUID | None]:
    """Return this service's VM or volume for each id of the other cloud, or None for an id of an earlier attempt.

    Args:
        connection: the connection for reading.
        ids: the ids to find. The result may contain other ids as well.
    """
    found: dict[UUID, UUID | None] = {}
    for row in counterparts.noted_among(connection, ids):
        found |= {UUID(id_of(row.uuid, attempt)): None for attempt in range(1, row.attempt)}
        found[UUID(id_of(row.uuid, row.attempt))] = row.uuid
        if row.root_uuid is not None:
            found[row.root_uuid] = None
    return found


WHEREABOUTS = ("state", "host_id", "cluster_id", "pod_id")
"""What is taken over of VMs that a call of ours deployed."""

CLAIMED = frozenset({"host_id", "cpu_number", "cpu_mhz", "memory_mib", "account_id"})
"""What a claim is made of."""

ADDRESSED = ("ip_address", "mac_address")
"""Columns of nics that the other cloud may change."""


def _given_address(columns: Mapping[str, Any], nic_id: int | None) -> GivenAddress:
    return GivenAddress(
        nic_id,
        columns["network_id"],
        columns["mac_address"],
        columns["ip_address"],
        columns["gateway"],
        columns["netmask"],
    )


class _Ranges:
    """The lookup of the range of a network that contains an address."""

    def __init__(self, rows: Sequence[tuple[int, int, str, str]]) -> None:
        self._by_network: dict[int, list[tuple[int, int, int]]] = {}
        for network_id, range_id, first, last in rows:
            bounds = (int(IPv4Address(first)), int(IPv4Address(last)), range_id)
            self._by_network.setdefault(network_id, []).append(bounds)

    def of(self, network_id: int, ip: str | None) -> int | None:
        """Return the id of the range that contains the address, or None if there is no such range or no address."""
        if ip is None:
            return None
        number = int(IPv4Address(ip))
        return next(
            (range_id for low, high, range_id in self._by_network.get(network_id, ()) if low <= number <= high),
            None,
        )


def _different(columns: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """Return the columns that differ from the row.

    An unknown pod or cluster is not a difference, so that a VM without a host keeps its last pod and cluster.
    """
    return {
        name: value
        for name, value in columns.items()
        if row[name] != value and not (name in ("pod_id", "cluster_id") and value is None)
    }
