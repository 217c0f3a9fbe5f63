"""Writing VMs that run already with all that a VM holds: claims, volumes, addresses, groups.

All VMs of a file are written by a fixed number of statements. Each load hangs on a deployment row
of its own, which is no bulk deployment and has no jobs; ``plan.load`` keeps the load's name.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TypeVar

import orjson
from sqlalchemy import Connection, text

from bulkdeploy.domain.errors import InsufficientAddresses
from bulkdeploy.domain.topology import VolumeType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.store.database.copying import PerRow, copy_rows, reserve_ids
from bulkdeploy.store.deployments.deployment_rows import random_uuids
from bulkdeploy.store.inventory.inventory_loads import LoadToPlace, PlacedLoad
from bulkdeploy.store.inventory.inventory_staging import InventoryConflict
from bulkdeploy.store.ledger.addresses import Address, take_addresses, take_mac_addresses
from bulkdeploy.store.ledger.ledger import ConsumerKind, count_claimed
from bulkdeploy.store.tables.groups import vm_affinity_groups, vm_security_groups
from bulkdeploy.store.tables.ledger import host_claims, storage_claims
from bulkdeploy.store.tables.networks import nics
from bulkdeploy.store.tables.virtual_machines import deployments, virtual_machines, volumes

T = TypeVar("T")


class LoadWriter:
    """Writes the fresh VMs of placed loads; entry i of every column belongs to the same VM."""

    def __init__(self, connection: Connection, zone_id: int, placed: Sequence[PlacedLoad]) -> None:
        self._connection, self._zone_id = connection, zone_id
        self._placed = [one for one in placed if one.host_ids]
        self._hosts = [host for one in self._placed for host in one.host_ids]
        self._pools = [pool for one in self._placed for pool in one.pool_ids]
        self._count = len(self._hosts)
        self._uuids, self._volume_uuids = random_uuids(self._count), random_uuids(self._count)

    def write(self, instance_suffix: str) -> int:
        """Everything but resource counts (``add_counts``), in the order of the locks; how many VMs.

        The room on hosts and in pools was looked at under locks that this transaction holds.

        Raises:
            InventoryConflict: a name is taken, or a network has too few addresses.
        """
        if self._count == 0:
            return 0
        names = self._names()
        self._refuse_taken(names)
        self._claim_hosts()
        self._claim_pools()
        addresses = self._take_addresses()
        ids = reserve_ids(self._connection, virtual_machines, self._count)
        self._write_vms(ids, names, instance_suffix)
        self._write_volumes(ids)
        self._write_nics(ids, addresses)
        self._write_groups(ids)
        return self._count

    def _each(self, value: Callable[[LoadToPlace], T]) -> list[T]:
        """A column in which all VMs of a load have the same value."""
        return [item for one in self._placed for item in repeat(value(one.wanted), len(one.host_ids))]

    def _names(self) -> list[str]:
        return [
            f"{one.wanted.load.name}-{one.wanted.already + number}"
            for one in self._placed
            for number in range(1, 1 + len(one.host_ids))
        ]

    def _refuse_taken(self, names: list[str]) -> None:
        """VM names are host names: two VMs of a zone's networks cannot share one."""
        folded = [name.lower() for name in names]
        taken = self._connection.execute(
            text(
                "SELECT lower(name) FROM virtual_machines WHERE lower(name) = ANY(:names) AND zone_id = :zone"
                " AND removed IS NULL LIMIT 1"
            ),
            {"names": folded, "zone": self._zone_id},
        ).scalar_one_or_none()
        if taken is not None:
            load = self._each(lambda one: one.load)[folded.index(taken)]
            raise InventoryConflict(load.where, f"name: a VM that is not of this load is called {taken} already")

    def _claim_hosts(self) -> None:
        cpu = self._each(lambda one: one.cpu_number * one.cpu_mhz)
        memory = self._each(lambda one: one.memory_mib)
        accounts = self._each(lambda one: one.account_id)
        copy_rows(
            self._connection,
            host_claims,
            self._count,
            {
                "consumer": PerRow(self._uuids),
                "host_id": PerRow(self._hosts),
                "consumer_kind": ConsumerKind.VM.value,
                "account_id": PerRow(accounts),
                "cpu_mhz": PerRow(cpu),
                "memory_mib": PerRow(memory),
            },
        )
        self._connection.execute(
            text(
                "UPDATE host_capacity c SET cpu_mhz_used = cpu_mhz_used + w.cpu,"
                " memory_mib_used = memory_mib_used + w.memory, vms_used = vms_used + w.vms FROM ("
                "   SELECT host_id, sum(cpu) AS cpu, sum(memory) AS memory, count(*) AS vms FROM"
                "   unnest(CAST(:hosts AS bigint[]), CAST(:cpu AS bigint[]), CAST(:memory AS bigint[]))"
                "   AS vm(host_id, cpu, memory) GROUP BY host_id) w WHERE c.host_id = w.host_id"
            ),
            {"hosts": self._hosts, "cpu": cpu, "memory": memory},
        )
        count_claimed(self._connection, accounts, self._hosts)

    def _claim_pools(self) -> None:
        sizes = self._each(lambda one: one.disk_bytes)
        copy_rows(
            self._connection,
            storage_claims,
            self._count,
            {"consumer": PerRow(self._volume_uuids), "pool_id": PerRow(self._pools), "size_bytes": PerRow(sizes)},
        )
        self._connection.execute(
            text(
                "UPDATE storage_pools p SET allocated_bytes = allocated_bytes + w.size FROM ("
                "   SELECT pool_id, sum(size) AS size FROM"
                "   unnest(CAST(:pools AS bigint[]), CAST(:sizes AS bigint[])) AS volume(pool_id, size)"
                "   GROUP BY pool_id) w WHERE p.id = w.pool_id"
            ),
            {"pools": self._pools, "sizes": sizes},
        )

    def _take_addresses(self) -> list[Address]:
        """One address per VM of its load's network; networks in the order of ids, as their ranges are locked."""
        networks = self._each(lambda one: one.network_id)
        pods = self._each(lambda one: one.pod_id)
        found: dict[int, Address] = {}
        for network_id in sorted(set(networks)):
            members = [at for at, network in enumerate(networks) if network == network_id]
            wanted = next(one.wanted for one in self._placed if one.wanted.network_id == network_id)
            try:
                taken = take_addresses(
                    self._connection, network_id, wanted.network_name, [pods[at] for at in members]
                )
            except InsufficientAddresses as error:
                raise InventoryConflict(wanted.load.where, str(error)) from error
            found.update(zip(members, taken, strict=True))
        return [found[at] for at in range(self._count)]

    def _write_deployments(self) -> list[int]:
        """A row per new load, the count of one that grows; their ids."""
        grown = [one for one in self._placed if one.wanted.stored is not None]
        self._connection.execute(
            text(
                "UPDATE deployments d SET vm_count = w.vms, asked_count = w.vms FROM"
                " unnest(CAST(:ids AS bigint[]), CAST(:counts AS int[])) AS w(id, vms) WHERE d.id = w.id"
            ),
            {
                "ids": [one.wanted.stored.deployment_id for one in grown if one.wanted.stored is not None],
                "counts": [one.wanted.load.count for one in grown],
            },
        )
        new = [one.wanted for one in self._placed if one.wanted.stored is None]
        fresh = reserve_ids(self._connection, deployments, len(new))
        copy_rows(
            self._connection,
            deployments,
            len(new),
            {
                "id": PerRow(fresh),
                "bulk": False,
                "account_id": PerRow([one.account_id for one in new]),
                "user_id": PerRow([one.user_id for one in new]),
                "zone_id": self._zone_id,
                "vm_count": PerRow([one.load.count for one in new]),
                "asked_count": PerRow([one.load.count for one in new]),
                "config": PerRow([_config(one) for one in new], plain=False),
                "pinned": False,
                "plan": PerRow([_plan(one) for one in new], plain=False),
            },
        )
        made = iter(fresh)
        return [
            next(made) if one.wanted.stored is None else one.wanted.stored.deployment_id for one in self._placed
        ]

    def _write_vms(self, ids: list[int], names: list[str], instance_suffix: str) -> None:
        deployment_ids = self._write_deployments()
        of_deployment = [
            deployment for deployment, one in zip(deployment_ids, self._placed, strict=True) for _ in one.host_ids
        ]
        accounts = self._each(lambda one: one.account_id)
        instances = [f"i-{account}-{vm}-{instance_suffix}" for account, vm in zip(accounts, ids, strict=True)]
        copy_rows(
            self._connection,
            virtual_machines,
            self._count,
            {
                "id": PerRow(ids),
                "uuid": PerRow(self._uuids),
                "name": PerRow(names),
                "display_name": PerRow(names),
                "instance_name": PerRow(instances, plain=False),
                "account_id": PerRow(accounts),
                "user_id": PerRow(self._each(lambda one: one.user_id)),
                "zone_id": self._zone_id,
                "pod_id": PerRow(self._each(lambda one: one.pod_id)),
                "cluster_id": PerRow(self._each(lambda one: one.cluster_id)),
                "host_id": PerRow(self._hosts),
                "hypervisor": PerRow(self._each(lambda one: one.hypervisor)),
                "service_offering_id": PerRow(self._each(lambda one: one.offering_id)),
                "template_id": PerRow(self._each(lambda one: one.template_id)),
                "cpu_number": PerRow(self._each(lambda one: one.cpu_number)),
                "cpu_mhz": PerRow(self._each(lambda one: one.cpu_mhz)),
                "memory_mib": PerRow(self._each(lambda one: one.memory_mib)),
                "state": VmState.RUNNING.value,
                "deployment_id": PerRow(of_deployment),
            },
        )

    def _write_volumes(self, ids: list[int]) -> None:
        copy_rows(
            self._connection,
            volumes,
            self._count,
            {
                "uuid": PerRow(self._volume_uuids),
                "name": PerRow([f"{VolumeType.ROOT}-{vm}" for vm in ids]),
                "account_id": PerRow(self._each(lambda one: one.account_id)),
                "zone_id": self._zone_id,
                "vm_id": PerRow(ids),
                "pool_id": PerRow(self._pools),
                "volume_type": VolumeType.ROOT.value,
                "device_id": 0,
                "size_bytes": PerRow(self._each(lambda one: one.disk_bytes)),
                "template_id": PerRow(self._each(lambda one: one.template_id)),
                "service_offering_id": PerRow(self._each(lambda one: one.offering_id)),
                "state": "Ready",
            },
        )

    def _write_nics(self, ids: list[int], addresses: list[Address]) -> None:
        copy_rows(
            self._connection,
            nics,
            self._count,
            {
                "vm_id": PerRow(ids),
                "network_id": PerRow(self._each(lambda one: one.network_id)),
                "ip_range_id": PerRow([address.range_id for address in addresses]),
                "ip_address": PerRow([address.ip for address in addresses]),
                "gateway": PerRow([address.gateway for address in addresses]),
                "netmask": PerRow([address.netmask for address in addresses]),
                "mac_address": PerRow(take_mac_addresses(self._connection, self._count)),
                "device_id": 0,
                "is_default": True,
            },
        )

    def _write_groups(self, ids: list[int]) -> None:
        for table, column, groups in (
            (vm_security_groups, "security_group_id", self._each(lambda one: one.security_group_ids)),
            (vm_affinity_groups, "affinity_group_id", self._each(lambda one: one.affinity_group_ids)),
        ):
            pairs = [(vm, group) for vm, members in zip(ids, groups, strict=True) for group in members]
            copy_rows(
                self._connection,
                table,
                len(pairs),
                {"vm_id": PerRow([vm for vm, _ in pairs]), column: PerRow([group for _, group in pairs])},
            )


def _config(one: LoadToPlace) -> str:
    """What all VMs of the load share, as a deploy call would have written it."""
    shared = {
        "account_id": one.account_id,
        "network_ids": [one.network_id],
        "security_group_ids": list(one.security_group_ids),
        "affinity_group_ids": list(one.affinity_group_ids),
        "hypervisor": one.hypervisor,
        "startvm": True,
    }
    return orjson.dumps({key: value for key, value in shared.items() if value != []}).decode()


def _plan(one: LoadToPlace) -> str:
    """The load's name, by which it is found again, and the hosts that the file names for it."""
    load = {"name": one.load.name, "hosts": list(one.load.hosts)}
    return orjson.dumps({"load": load}).decode()
