"""Reading back a zone and what is in it: pods, clusters, hosts, pools, and what runs there by inventory."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.configuration import BY_NAME, Scope
from bulkdeploy.domain.inventory import (
    OTHER_VMS_LIMIT,
    VMS_LIMIT,
    Cluster,
    Dedication,
    Host,
    Load,
    PhysicalNetwork,
    Pod,
    StoragePool,
    Zone,
)
from bulkdeploy.domain.topology import (
    AllocationState,
    HostResourceState,
    HostState,
    HypervisorType,
    NetworkType,
    PoolScope,
)
from bulkdeploy.store.configuration.configuration import GLOBAL_ID
from bulkdeploy.store.inventory.inventory_reading import LeftOut, Owners

SETTING_OF_CLUSTER = ("cpu.overprovisioning.factor", "mem.overprovisioning.factor")
"""Settings of clusters that a file gives by keys of their own."""


class PlaceReader:
    """Reads one zone in a fixed number of statements; everything is ordered by age."""

    def __init__(self, connection: Connection, zone_id: int, owners: Owners, left_out: LeftOut) -> None:
        self._connection, self._zone_id = connection, zone_id
        self._owners, self._left_out = owners, left_out
        self._dedications = self._read_dedications()
        self._settings = self._read_settings()

    def zone(self) -> Zone:
        """The zone itself."""
        row = self._rows("SELECT * FROM zones WHERE id = :zone")[0]
        physical = self._rows(
            "SELECT * FROM physical_networks WHERE zone_id = :zone AND removed IS NULL ORDER BY id"
        )
        return Zone(
            name=row.name,
            description=row.description,
            network_type=NetworkType(row.network_type),
            security_groups_enabled=row.security_groups_enabled,
            local_storage_enabled=row.local_storage_enabled,
            allocation_state=AllocationState(row.allocation_state),
            dns1=row.dns1,
            dns2=row.dns2,
            internal_dns1=row.internal_dns1,
            internal_dns2=row.internal_dns2,
            guest_cidr=row.guest_cidr,
            network_domain=row.network_domain,
            domain=self._owners.paths.get(row.domain_id),
            sort_key=row.sort_key,
            dedicated_to=self._dedications.get(("zone", row.id)),
            physical_networks=tuple(
                PhysicalNetwork(name=one.name, isolation_methods=one.isolation_methods, vlan_range=one.vlan_range)
                for one in self._left_out.first_of_each("physical network", physical, lambda one: one.name.lower())
            ),
        )

    def settings(self) -> Mapping[str, str]:
        """The global settings that are not as declared."""
        return self._settings.get((Scope.GLOBAL.value, GLOBAL_ID), {})

    def pod_names(self) -> dict[int, str]:
        """Names of the pods by id."""
        rows = self._rows("SELECT id, name FROM pods WHERE zone_id = :zone AND removed IS NULL")
        return {row.id: row.name for row in rows}

    def pods(self, loads: Mapping[int, Sequence[Load]]) -> tuple[Pod, ...]:
        """The pods with all in them; ``loads`` by cluster id."""
        pools = self._pools()
        hosts: dict[int, list[Host]] = {}
        for row in self._rows(
            "SELECT h.*, c.vms_limit FROM hosts h JOIN host_capacity c ON c.host_id = h.id"
            " WHERE h.zone_id = :zone AND h.removed IS NULL ORDER BY h.id"
        ):
            hosts.setdefault(row.cluster_id, []).append(self._host(row, pools.get(("host", row.id), ())))
        clusters: dict[int, list[Cluster]] = {}
        for row in self._rows("SELECT * FROM clusters WHERE zone_id = :zone AND removed IS NULL ORDER BY id"):
            cluster = self._cluster(row, hosts.get(row.id, ()), pools.get(("cluster", row.id), ()), loads)
            clusters.setdefault(row.pod_id, []).append(cluster)
        rows = self._rows("SELECT * FROM pods WHERE zone_id = :zone AND removed IS NULL ORDER BY id")
        return tuple(
            Pod(
                name=row.name,
                gateway=row.gateway,
                netmask=row.netmask,
                start_ip=row.start_ip,
                end_ip=row.end_ip,
                allocation_state=AllocationState(row.allocation_state),
                dedicated_to=self._dedications.get(("pod", row.id)),
                clusters=tuple(clusters.get(row.id, ())),
            )
            for row in rows
        )

    def zone_pools(self) -> tuple[StoragePool, ...]:
        """The pools that every cluster reaches."""
        return tuple(self._pools().get(("zone", 0), ()))

    def _cluster(
        self,
        row: Row[Any],
        hosts: Sequence[Host],
        pools: Sequence[StoragePool],
        loads: Mapping[int, Sequence[Load]],
    ) -> Cluster:
        given = self._settings.get((Scope.CLUSTER.value, row.id), {})
        return Cluster(
            name=row.name,
            hypervisor=HypervisorType(row.hypervisor),
            allocation_state=AllocationState(row.allocation_state),
            cpu_overcommit=row.cpu_overcommit,
            memory_overcommit=row.memory_overcommit,
            dedicated_to=self._dedications.get(("cluster", row.id)),
            configuration={name: value for name, value in given.items() if name not in SETTING_OF_CLUSTER},
            hosts=tuple(hosts),
            storage_pools=tuple(pools),
            loads=tuple(loads.get(row.id, ())),
        )

    def _host(self, row: Row[Any], pools: Sequence[StoragePool]) -> Host:
        own_limit = row.vms_limit != VMS_LIMIT.get(HypervisorType(row.hypervisor), OTHER_VMS_LIMIT)
        prefix = f"{row.name}-"
        kept = [pool for pool in pools if pool.name.startswith(prefix)]
        self._left_out.reasons += [
            f"pool {pool.name!r} of host {row.name!r}: its name does not begin with the host's"
            for pool in pools
            if pool not in kept
        ]
        return Host(
            name=row.name,
            ip_address=row.ip_address,
            cpu_sockets=row.cpu_sockets,
            cpu_cores=row.cpu_cores,
            cpu_mhz=row.cpu_mhz,
            memory_mib=row.memory_mib,
            hypervisor_version=row.hypervisor_version,
            tags=tuple(row.tags),
            state=HostState(row.state),
            resource_state=HostResourceState(row.resource_state),
            vms_limit=row.vms_limit if own_limit else None,
            details=row.details,
            dedicated_to=self._dedications.get(("host", row.id)),
            storage_pools=tuple(kept),
        )

    def _pools(self) -> dict[tuple[str, int], list[StoragePool]]:
        """Pools by what they stand in: ``("zone", 0)``, ``("cluster", id)`` or ``("host", id)``."""
        found: dict[tuple[str, int], list[StoragePool]] = {}
        for row in self._rows("SELECT * FROM storage_pools WHERE zone_id = :zone AND removed IS NULL ORDER BY id"):
            places = {
                PoolScope.ZONE: ("zone", 0),
                PoolScope.CLUSTER: ("cluster", row.cluster_id),
                PoolScope.HOST: ("host", row.host_id),
            }
            scope = PoolScope(row.scope)
            zone_wide = scope is PoolScope.ZONE and row.hypervisor is not None
            pool = StoragePool(
                name=row.name,
                scope=scope,
                capacity_bytes=row.capacity_bytes,
                pool_type=row.pool_type,
                hypervisor=HypervisorType(row.hypervisor) if zone_wide else None,
                state=row.state,
                ip_address=None if scope is PoolScope.HOST else row.ip_address,
                path=row.path,
                tags=tuple(row.tags),
                configuration=self._settings.get((Scope.STORAGE_POOL.value, row.id), {}),
            )
            found.setdefault(places[scope], []).append(pool)
        return found

    def _read_dedications(self) -> dict[tuple[str, int], Dedication]:
        """Who has what alone: by ``("zone" | "pod" | "cluster" | "host", id)``."""
        found: dict[tuple[str, int], Dedication] = {}
        for row in self._rows("SELECT * FROM dedicated_resources ORDER BY id"):
            name = None if row.account_id is None else self._owners.names.get(row.account_id)
            if row.domain_id not in self._owners.paths or (row.account_id is not None and name is None):
                continue
            holder = Dedication(domain=self._owners.paths[row.domain_id], account=name.name if name else None)
            for kind in ("zone", "pod", "cluster", "host"):
                place = getattr(row, f"{kind}_id")
                if place is not None:
                    found[kind, place] = holder
        return found

    def _read_settings(self) -> dict[tuple[str, int], dict[str, str]]:
        found: dict[tuple[str, int], dict[str, str]] = {}
        for row in self._rows("SELECT scope, scope_id, name, value FROM configuration_values ORDER BY 1, 2, 3"):
            if row.name in BY_NAME:
                found.setdefault((row.scope, row.scope_id), {})[row.name] = row.value
        return found

    def _rows(self, query: str) -> Sequence[Row[Any]]:
        return self._connection.execute(text(query), {"zone": self._zone_id}).all()
