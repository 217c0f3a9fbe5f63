"""The import of guests without rows as VMs, on their present hosts and unchanged (one file: one transaction).

The hypervisor reports the properties of a guest (``details_of_guests``), and the caller chooses the owner and the
offering. Resources are claimed as by a deployment: hosts are never overcommitted, and no address is assigned twice.
Guests that do not fit are left out.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import Caller, Owner
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import VolumeType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.resources import ResourceAmounts
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.details import GuestDetails, GuestNic
from bulkdeploy.drivers.guests import Guest, PowerState
from bulkdeploy.services.deployments.deployment_checks import check_available
from bulkdeploy.services.ownership import NO_OWNER, NamedOwner, lock_owner, require_open_zones
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import LAST_FENCE, UnmanagedGuest
from bulkdeploy.store.accounts.resource_counts import add_amounts, check_limits
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import TransactionConflict
from bulkdeploy.store.deployments import deployment_facts as facts
from bulkdeploy.store.hypervisors import guest_fences
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.ledger.addresses import Address, lock_ranges, take_named_address
from bulkdeploy.store.ledger.ledger import claim_hosts, claim_pools, lock_hosts
from bulkdeploy.store.ledger.snapshot import pool_limits
from bulkdeploy.store.ledger.zone_locks import keep_zone_rules
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.virtual_machines import unmanaged_instances as store
from bulkdeploy.store.virtual_machines.learnt_vms import insert_deployment, insert_many


@dataclass(frozen=True, slots=True)
class Adoption:
    """The owner, offering and template of guests that are imported as VMs, by internal ids.

    If ``offering_id`` is None, the only offering with the guest's sizes is used. If ``template_id`` is None, the
    template from which the guest was started is used.
    """

    owner: NamedOwner = NO_OWNER
    offering_id: int | None = None
    template_id: int | None = None
    display_name: str | None = None


@dataclass(frozen=True, slots=True)
class Adopted:
    """The VMs that were created from guests, by uuid, and the reasons why other guests were skipped."""

    vm_ids: dict[UUID, int] = field(default_factory=dict)
    left_out: dict[UUID, str] = field(default_factory=dict)


class _LeftOut(Exception):
    """Raised when a guest cannot be imported. The text is the reason."""


def adopt(connection: Connection, caller: Caller, guests: Sequence[UnmanagedGuest], wanted: Adoption) -> Adopted:
    """Register guests without rows as virtual machines, without moving or changing the guests.

    Guests that cannot be imported are left out. Later jobs find an imported guest by its id, as that of a deployed
    VM.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: the owner is not valid, or may not use the offering.
        ResourceLimitExceeded: the imported guests would exceed a limit of the owner or of a domain above it.
        TransactionConflict: a concurrent transaction changed the same data; the whole transaction must be repeated.
    """
    take_lock(connection, Lock.UNMANAGED)
    owner = lock_owner(connection, caller, wanted.owner)
    return _Adopting(connection, caller, owner, wanted, guests).run()


class _Adopting:
    """The import of guests in one transaction. Lock order: zones, networks, hosts, pools, ranges, counts, rows."""

    def __init__(
        self,
        connection: Connection,
        caller: Caller,
        owner: Owner,
        wanted: Adoption,
        guests: Sequence[UnmanagedGuest],
    ) -> None:
        self._connection, self._caller, self._owner, self._wanted = connection, caller, owner, wanted
        self._guests = guests
        nics = [nic for one in guests for nic in _nics_of(one)]
        host_uuids = {one.guest.host_uuid for one in guests}
        self._zones = self._open_zones(host_uuids)
        self._networks = store.networks_of(connection, {nic.network_uuid for nic in nics if nic.network_uuid})
        ids = sorted(host.id for host in store.hosts_of(connection, host_uuids).values())
        lock_hosts(connection, np.array(ids, dtype=np.int64))
        self._hosts = store.hosts_of(connection, host_uuids)
        self._pools = store.pools_of(connection, {volume[1] for one in guests for volume in one.volumes})
        self._limits = self._pool_limits()
        self._offerings = {row.id: row for row in store.service_offerings(connection)}
        self._templates = store.templates_of(
            connection, {one.details.template_uuid for one in guests if one.details and one.details.template_uuid}
        )
        self._unknown = store.unknown_guests(connection, {one.guest.uuid for one in guests})
        self._known_volumes = store.known_volumes(connection)
        self._ending = guest_fences.fenced(connection, {one.guest.uuid for one in guests}, LAST_FENCE)
        uuids = [one.guest.uuid for one in guests] + [nic.uuid for nic in nics]
        self._used = store.used_before(connection, [*uuids, *(v[0] for one in guests for v in one.volumes)])
        networks = [network.id for network in self._networks.values()]
        self._addresses = store.addresses_in_use(
            connection, networks, [nic.ip_address for nic in nics if nic.ip_address]
        )
        self._macs = store.macs_in_use(connection, [nic.mac_address for nic in nics])
        self._names = store.names_in_use(connection, networks, [one.name.lower() for one in guests])
        self._taken: Counter[tuple[str, int]] = Counter()

    def run(self) -> Adopted:
        """Import all guests that can be imported, and return the new VMs and the skipped guests."""
        adopted = Adopted()
        rows: list[tuple[UnmanagedGuest, dict[str, Any]]] = []
        for one in self._guests:
            if one.guest.uuid not in self._unknown:
                continue  # adopted meanwhile
            try:
                rows.append((one, self._columns(one)))
            except _LeftOut as why:
                adopted.left_out[one.guest.uuid] = str(why)
        if rows:
            self._claim([one for one, _ in rows])
            adopted.vm_ids.update(self._write(rows))
        return adopted

    def _open_zones(self, host_uuids: Collection[UUID]) -> dict[int, Any]:
        zones: dict[int, Any] = {}
        for zone_id in sorted({host.zone_id for host in store.hosts_of(self._connection, host_uuids).values()}):
            keep_zone_rules(self._connection, zone_id)
            if (zone := facts.read_zone(self._connection, zone_id)) is not None:
                require_open_zones(self._connection, [(self._owner, zone.id, zone.uuid)])
                zones[zone_id] = zone
        return zones

    def _pool_limits(self) -> dict[int, int]:
        pools = list(self._pools.values())
        ids, capacity, local = (
            np.array([getattr(pool, name) for pool in pools], dtype=np.int64)
            for name in ("id", "capacity_bytes", "local")
        )
        limits = pool_limits(read_configuration(self._connection), ids, capacity, local)
        return dict(zip(ids.tolist(), limits.tolist(), strict=True))

    def _columns(self, one: UnmanagedGuest) -> dict[str, Any]:
        """Return the row of a guest's VM, and reserve the ids and names that the VM uses.

        Raises:
            _LeftOut: the guest cannot be imported.
        """
        guest, details = one.guest, self._adoptable(one)
        host = self._hosts.get(guest.host_uuid)
        if host is None or host.zone_id not in self._zones:
            raise _LeftOut(f"its host {guest.host_uuid} is not in the database: add the host first")
        if (host.state, host.resource_state) != ("Up", "Enabled"):
            state = f"{host.state} and {host.resource_state}"
            raise _LeftOut(f"its host {host.name} is {state}: it must be Up and Enabled")
        offering_id = self._offering(guest, host)
        template_id = self._wanted.template_id or self._templates.get(details.template_uuid)  # type: ignore[arg-type]
        if template_id is None:
            raise _LeftOut(f"its template {details.template_uuid or ''} is not in the database: give a template")
        self._check_volumes(one, details, host)
        self._check_nics(details, host)
        self._claim_capacity(one, host)
        return {
            "uuid": guest.uuid,
            "name": details.name,
            "display_name": self._wanted.display_name or details.name,
            "instance_name": details.name,
            "account_id": self._owner.account_id,
            "user_id": self._caller.user_id,
            "zone_id": host.zone_id,
            "pod_id": host.pod_id,
            "cluster_id": host.cluster_id,
            "host_id": host.id,
            "hypervisor": host.hypervisor,
            "service_offering_id": offering_id,
            "template_id": template_id,
            "cpu_number": guest.cpu_number,
            "cpu_mhz": guest.cpu_mhz,
            "memory_mib": guest.memory_mib,
            "state": VmState.RUNNING.value,
        }

    def _adoptable(self, one: UnmanagedGuest) -> GuestDetails:
        """Return the details of a guest that its hypervisor reports.

        Raises:
            _LeftOut: the guest cannot be imported, regardless of its host.
        """
        guest, details = one.guest, one.details
        if one.copies > 1:
            raise _LeftOut("the guest runs on more than one host: stop it on all hosts but one, on the hypervisor")
        if guest.uuid in self._ending:
            raise _LeftOut("the guest is being removed; if it remains, remove it again")
        if guest.power is not PowerState.RUNNING:
            raise _LeftOut("the guest does not run, and only running guests can be adopted; remove it")
        if details is None:
            raise _LeftOut(
                "its hypervisor does not report its volumes and NICs: remove the guest, or leave it unmanaged"
            )
        if guest.uuid in self._used:
            raise _LeftOut("a virtual machine with its id was expunged: remove it")
        return details

    def _offering(self, guest: Guest, host: Row[Any]) -> int:
        sizes = (guest.cpu_number, guest.cpu_mhz, guest.memory_mib)
        shown = f"{guest.cpu_number} x {guest.cpu_mhz} MHz, {guest.memory_mib} MiB"
        if (named := self._wanted.offering_id) is None:
            candidates = [row for row in self._offerings.values() if None not in _sizes(row)]
        elif named in self._offerings:
            candidates = [self._offerings[named]]
        else:
            raise _LeftOut("the service offering of the call was deleted: name another one")
        fitting = [
            row
            for row in candidates
            if all(fixed in (None, real) for fixed, real in zip(_sizes(row), sizes, strict=True))
        ]
        if len(fitting) != 1:
            which = ", ".join(row.name for row in fitting) or "no service offering"
            remedy = "has its sizes" if not fitting else "have its sizes"
            raise _LeftOut(f"{which} {remedy} ({shown}): name one that has, or a custom one")
        found = facts.read_offering(self._connection, fitting[0].id)
        if found is None:
            raise _LeftOut(f"service offering {fitting[0].name} is not active")
        try:
            check_available(found, "serviceofferingid", found.name, self._owner, self._zones[host.zone_id])
        except BulkDeployError as error:
            raise _LeftOut(str(error)) from error
        return int(fitting[0].id)

    def _check_volumes(self, one: UnmanagedGuest, details: GuestDetails, host: Row[Any]) -> None:
        found = {volume[0]: volume for volume in one.volumes}
        for uuid in details.volume_uuids:
            if uuid not in found or uuid in self._used or uuid in self._known_volumes:
                what = "is in no pool" if uuid not in found else "belongs, or belonged, to another guest"
                raise _LeftOut(f"its volume {uuid} {what}")
            pool = self._pools.get(found[uuid][1])
            if (
                pool is None
                or pool.zone_id != host.zone_id
                or pool.cluster_id not in (None, host.cluster_id)
                or pool.host_id not in (None, host.id)
            ):
                raise _LeftOut(f"the pool {found[uuid][1]} of its volume {uuid} cannot be used by its host")

    def _check_nics(self, details: GuestDetails, host: Row[Any]) -> None:
        for nic in details.nics:
            network = None if nic.network_uuid is None else self._networks.get(nic.network_uuid)
            if network is None or network.zone_id != host.zone_id:
                raise _LeftOut(f"the network {nic.network_uuid or ''} of its NIC {nic.uuid} is not in the database")
            if nic.uuid in self._used:
                raise _LeftOut(f"its nic {nic.uuid} belongs, or belonged, to another guest")
            if nic.mac_address in self._macs:
                raise _LeftOut(f"its MAC address {nic.mac_address} is used by another NIC")
            if nic.ip_address is not None and (network.id, nic.ip_address) in self._addresses:
                raise _LeftOut(f"its address {nic.ip_address} in network {network.name} is used by another NIC")

    def _claim_capacity(self, one: UnmanagedGuest, host: Row[Any]) -> None:
        guest = one.guest
        if guest.cpu_number > host.cpu_cores or guest.cpu_mhz > host.cpu_mhz:
            raise _LeftOut(f"its host {host.name} has fewer cores, or slower ones, than it")
        wanted = {"cpu": guest.cpu_number * guest.cpu_mhz, "memory": guest.memory_mib, "vms": 1}
        free = {"cpu": host.free_cpu_mhz, "memory": host.free_memory_mib, "vms": host.free_vms}
        for kind, amount in wanted.items():
            left = free[kind] - self._taken[kind, host.id]
            if amount > left:
                unit = {"cpu": "MHz", "memory": "MiB", "vms": "VMs"}[kind]
                raise _LeftOut(
                    f"its host {host.name} has {left} {unit} unclaimed, but {amount} are needed: "
                    "move virtual machines off the host"
                )
        sizes = Counter[int]()
        for _, pool_uuid, size in one.volumes:
            sizes[self._pools[pool_uuid].id] += size
        for pool in self._pools.values():
            left = self._limits[pool.id] - pool.allocated_bytes - self._taken["pool", pool.id]
            if sizes[pool.id] > left:
                raise _LeftOut(f"pool {pool.name} has {left} unclaimed bytes left")
            if sizes[pool.id] and pool.state != "Up":
                raise _LeftOut(f"pool {pool.name} is {pool.state}: it must be Up")
        self._taken.update({(kind, host.id): amount for kind, amount in wanted.items()})
        self._taken.update({("pool", pool_id): size for pool_id, size in sizes.items()})
        self._used.update(volume[0] for volume in one.volumes)
        for nic in _nics_of(one):
            self._used.add(nic.uuid)
            self._macs.add(nic.mac_address)
            if nic.ip_address is not None and nic.network_uuid is not None:
                self._addresses.add((self._networks[nic.network_uuid].id, nic.ip_address))

    def _claim(self, guests: Sequence[UnmanagedGuest]) -> None:
        """Claim the hosts, then the pools of the guests, with the same locks as a deployment.

        Addresses that were reserved for the guests become available to them.
        """
        store.forget_guests(self._connection, {one.guest.uuid for one in guests})
        amounts = ResourceAmounts(
            user_vm=len(guests),
            volume=sum(len(one.volumes) for one in guests),
            cpu=sum(one.guest.cpu_number for one in guests),
            memory_mib=sum(one.guest.memory_mib for one in guests),
            primary_storage_bytes=sum(volume[2] for one in guests for volume in one.volumes),
        )
        check_limits(self._connection, self._owner, amounts)
        claim_hosts(
            self._connection,
            np.array([self._hosts[one.guest.host_uuid].id for one in guests], dtype=np.int64),
            [one.guest.uuid for one in guests],
            account_id=self._owner.account_id,
            cpu_mhz=np.array([one.guest.cpu_number * one.guest.cpu_mhz for one in guests], dtype=np.int64),
            memory_mib=np.array([one.guest.memory_mib for one in guests], dtype=np.int64),
        )
        volumes = [volume for one in guests for volume in one.volumes]
        pools = [self._pools[volume[1]].id for volume in volumes]
        if volumes:
            uuids, _, sizes = zip(*volumes, strict=True)
            claim_pools(self._connection, self._limits, pools, sizes, uuids)
        self._ips = self._claim_addresses(guests)
        add_amounts(self._connection, self._owner, amounts)

    def _claim_addresses(self, guests: Sequence[UnmanagedGuest]) -> dict[UUID, Address]:
        lock_ranges(self._connection, [network.id for network in self._networks.values()])
        taken: dict[UUID, Address] = {}
        for one in guests:
            for nic in _nics_of(one):
                if nic.ip_address is None or nic.network_uuid is None:
                    continue
                network = self._networks[nic.network_uuid]
                address = take_named_address(self._connection, network.id, nic.ip_address)
                if address is None and (network.id, nic.ip_address) in store.addresses_in_use(
                    self._connection, [network.id], [nic.ip_address]
                ):
                    raise TransactionConflict
                taken[nic.uuid] = address or Address(0, nic.ip_address, "", "")
        return taken

    def _write(self, rows: Sequence[tuple[UnmanagedGuest, dict[str, Any]]]) -> dict[UUID, int]:
        by_zone: dict[int, list[tuple[UnmanagedGuest, dict[str, Any]]]] = {}
        for one, columns in rows:
            by_zone.setdefault(columns["zone_id"], []).append((one, columns))
        ids: dict[UUID, int] = {}
        for zone_id, of_zone in by_zone.items():
            deployment = insert_deployment(
                self._connection, self._caller.user_id, self._owner.account_id, zone_id, len(of_zone), learnt=False
            )
            complete = [{**columns, "deployment_id": deployment} for _, columns in of_zone]
            numbers = insert_many(self._connection, Entity.VIRTUAL_MACHINE, complete)
            ids |= {row["uuid"]: number for row, number in zip(complete, numbers, strict=True)}
        devices = [(one, columns, ids[columns["uuid"]]) for one, columns in rows]
        insert_many(self._connection, Entity.VOLUME, [row for each in devices for row in self._volumes(*each)])
        insert_many(
            self._connection, Entity.NIC, [row for one, _, vm_id in devices for row in self._nics(one, vm_id)]
        )
        guest_fences.adopt(
            self._connection, [(one.guest.uuid, one.guest.host_uuid, one.guest.volume_uuids) for one, _ in rows]
        )
        record_events(
            self._connection,
            self._caller,
            [
                Happened(
                    EventType.VM_IMPORT,
                    f"adopted guest {columns['instance_name']} as Vm {columns['name']}",
                    Instance(InstanceType.VIRTUAL_MACHINE, vm_id, columns["uuid"]),
                    self._owner,
                )
                for _, columns, vm_id in devices
            ],
        )
        return ids

    def _volumes(self, one: UnmanagedGuest, columns: dict[str, Any], vm_id: int) -> list[dict[str, Any]]:
        found = {volume[0]: volume for volume in one.volumes}
        rows = []
        for device, uuid in enumerate(() if one.details is None else one.details.volume_uuids):
            _, pool_uuid, size = found[uuid]
            kind = VolumeType.DATADISK if device else VolumeType.ROOT
            rows.append(
                {
                    "uuid": uuid,
                    "name": f"DATA-{vm_id}-{device}" if device else f"ROOT-{vm_id}",
                    "account_id": self._owner.account_id,
                    "zone_id": columns["zone_id"],
                    "vm_id": vm_id,
                    "pool_id": self._pools[pool_uuid].id,
                    "volume_type": kind.value,
                    "device_id": device,
                    "size_bytes": size,
                    "template_id": None if device else columns["template_id"],
                    "service_offering_id": None if device else columns["service_offering_id"],
                    "state": "Ready",
                }
            )
        return rows

    def _nics(self, one: UnmanagedGuest, vm_id: int) -> list[dict[str, Any]]:
        rows = []
        for device, nic in enumerate(_nics_of(one)):
            if nic.network_uuid is None:
                continue  # never: such a guest is left out
            network_id = self._networks[nic.network_uuid].id
            name = (network_id, one.name.lower())
            is_free = name not in self._names
            self._names.add(name)
            address = self._ips.get(nic.uuid)
            rows.append(
                {
                    "uuid": nic.uuid,
                    "vm_id": vm_id,
                    "network_id": network_id,
                    "ip_range_id": (address.range_id or None) if address else None,
                    "ip_address": nic.ip_address,
                    "mac_address": nic.mac_address,
                    "gateway": (address.gateway or None) if address else None,
                    "netmask": (address.netmask or None) if address else None,
                    "device_id": device,
                    "is_default": device == 0,
                    "vm_name": name[1] if is_free else None,
                }
            )
        return rows


def _nics_of(one: UnmanagedGuest) -> tuple[GuestNic, ...]:
    return () if one.details is None else one.details.nics


def _sizes(offering: Row[Any]) -> tuple[int | None, ...]:
    return offering.cpu_number, offering.cpu_mhz, offering.memory_mib
