"""From the names in an inventory's loads to this database's ids and sizes."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from bulkdeploy.domain.inventory import Cluster, Inventory, Load, Pod
from bulkdeploy.domain.inventory_owners import AccountName
from bulkdeploy.domain.topology import StorageType, TemplateKind
from bulkdeploy.domain.units import gib_to_bytes
from bulkdeploy.store.inventory.inventory_groups import GroupIds
from bulkdeploy.store.inventory.inventory_loads import LoadToPlace, first_users, stored_loads
from bulkdeploy.store.inventory.inventory_staging import InventoryConflict
from bulkdeploy.store.inventory.inventory_topology import Places


@dataclass(frozen=True, slots=True)
class Named:
    """Internal ids of what loads name."""

    accounts: Mapping[AccountName, int]
    places: Places
    offerings: Mapping[str, int]
    templates: Mapping[tuple[TemplateKind, str, AccountName], int]
    networks: Mapping[str, int]
    security_groups: GroupIds


class LoadResolver:
    """Finds the loads of an inventory that are not, or not wholly, written yet."""

    def __init__(self, connection: Connection, inventory: Inventory, named: Named) -> None:
        self._inventory, self._named = inventory, named
        self._offerings = {one.name: one for one in inventory.service_offerings}
        self._templates = {one.name: one for one in inventory.templates if one.kind is TemplateKind.TEMPLATE}
        self._stored = stored_loads(connection, named.places.zone)
        owners = {load.account for _, _, load in self._loads()}
        self._users = first_users(connection, [named.accounts[owner] for owner in owners])

    def pending(self) -> list[LoadToPlace]:
        """The loads with VMs still to be made, in the order of the file; affinity groups are left out.

        Raises:
            InventoryConflict: a load has another account than when it was written, or no network.
        """
        found = [self._resolve(pod, cluster, load) for pod, cluster, load in self._loads()]
        return [wanted for wanted in found if wanted.fresh]

    def _loads(self) -> list[tuple[Pod, Cluster, Load]]:
        return [
            (pod, cluster, load)
            for pod in self._inventory.pods
            for cluster in pod.clusters
            for load in cluster.loads
        ]

    def _resolve(self, pod: Pod, cluster: Cluster, load: Load) -> LoadToPlace:
        places, offering, template = (
            self._named.places,
            self._offerings[load.offering],
            self._templates[load.template],
        )
        account_id = self._named.accounts[load.account]
        stored = self._stored.get(load.name)
        if stored is not None and stored.account_id != account_id:
            raise InventoryConflict(load.where, "account: the load was written for another account before")
        network = self._network(load)
        disk_gib = offering.root_disk_gib
        return LoadToPlace(
            load=load,
            stored=stored,
            account_id=account_id,
            user_id=self._users[account_id],
            pod_id=places.pods[pod.name],
            cluster_id=places.clusters[pod.name, cluster.name],
            hypervisor=cluster.hypervisor.value,
            host_ids=tuple(places.hosts[host] for host in load.hosts or [one.name for one in cluster.hosts]),
            chosen=bool(load.hosts),
            offering_id=self._named.offerings[load.offering],
            template_id=self._named.templates[template.kind, template.name, template.owner],
            network_id=self._named.networks[network],
            network_name=network,
            cpu_number=load.cpu_number or offering.cpu_number or 0,
            cpu_mhz=load.cpu_mhz or offering.cpu_mhz or 0,
            memory_mib=load.memory_mib or offering.memory_mib or 0,
            disk_bytes=template.size_bytes if disk_gib is None else gib_to_bytes(disk_gib),
            local_storage=offering.storage_type is StorageType.LOCAL,
            host_tags=frozenset(offering.host_tags),
            storage_tags=frozenset(offering.storage_tags),
            security_group_ids=tuple(
                self._named.security_groups[load.account, group] for group in load.security_groups
            ),
            affinity_group_ids=(),
        )

    def _network(self, load: Load) -> str:
        """The network that the load names, or the zone's only default one."""
        if load.network is not None:
            return load.network
        defaults = [network.name for network in self._inventory.networks if network.is_default]
        if len(defaults) != 1:
            rule = f"network: must be given, as the file describes {len(defaults)} default networks"
            raise InventoryConflict(load.where, rule)
        return defaults[0]
