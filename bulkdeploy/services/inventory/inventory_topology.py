"""Reading the pods of an inventory file: clusters, their hosts and pools, and VMs that run already."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.inventory import Cluster, Host, Load, Pod, StoragePool
from bulkdeploy.domain.inventory_catalog import ServiceOffering, Template
from bulkdeploy.domain.inventory_owners import ROOT_ADMIN, Account, AccountName, Where
from bulkdeploy.domain.topology import AllocationState, HypervisorType, PoolScope
from bulkdeploy.services.inventory.inventory_catalog import CORES, MEMORY, SPEED, Known
from bulkdeploy.services.inventory.inventory_document import Keys
from bulkdeploy.services.inventory.inventory_hosts import HostReader, host_names, read_host_size, read_pool
from bulkdeploy.services.inventory.inventory_networks import dedication, settings
from bulkdeploy.services.inventory.inventory_owners import refuse_twice
from bulkdeploy.services.inventory.inventory_values import (
    NO_IP,
    NO_NETMASK,
    choice,
    decimal,
    host_name,
    ip_address,
    list_of,
    name,
    netmask,
    reference,
    whole,
)

OVERCOMMIT = decimal(1, 100)
LONGEST_LOAD_NAME = 50
"""Leaves room for a number behind it in a host name of 63 characters."""


@dataclass(frozen=True, slots=True)
class Offered:
    """What VMs that run already may name, and what clusters get where they say nothing."""

    offerings: Mapping[str, ServiceOffering]
    templates: Mapping[str, Template]
    networks: tuple[str, ...]
    accounts: Mapping[AccountName, Account]
    cpu_overcommit: Decimal
    memory_overcommit: Decimal


class TopologyReader:
    """Reads ``host_sizes``, ``pods`` and the zone's ``storage_pools``."""

    def __init__(self, keys: Keys, known: Known, offered: Offered) -> None:
        self._keys, self._known, self._offered = keys, known, offered
        sizes = keys.each("host_sizes", "a host size", read_host_size)
        refuse_twice(known.problems, "host size", ((one.name, one.where) for one in sizes))
        self._hosts = HostReader(known, {one.name: one for one in sizes})

    def read(self) -> tuple[tuple[Pod, ...], tuple[StoragePool, ...]]:
        """Pods and zone-wide pools; names of hosts, pools and loads are unique in the zone."""
        pods = self._keys.each("pods", "a pod", self._read_pod)
        pools = self._keys.each("storage_pools", "a pool", lambda item: read_pool(item, PoolScope.ZONE))
        clusters = [cluster for pod in pods for cluster in pod.clusters]
        hosts = [host for cluster in clusters for host in cluster.hosts]
        every_pool = [*pools, *_pools_of(clusters)]
        problems = self._known.problems
        refuse_twice(problems, "pod", ((pod.name, pod.where) for pod in pods))
        refuse_twice(problems, "host", ((host.name, host.where) for host in hosts))
        refuse_twice(problems, "pool", ((pool.name, pool.where) for pool in every_pool))
        refuse_twice(problems, "load", ((load.name, load.where) for one in clusters for load in one.loads))
        self._check_addresses(hosts)
        return pods, pools

    def _check_addresses(self, hosts: list[Host]) -> None:
        """No address twice; of a group of hosts only the first is told."""
        first: dict[str, Host] = {}
        told: set[Where] = set()
        for host in hosts:
            other = first.setdefault(host.ip_address, host)
            alike = other is host or other.name == host.name or host.ip_address == NO_IP
            if not alike and host.where not in told:
                told.add(host.where)
                rule = f"host {host.name} has address {host.ip_address}, which is {other.name}'s"
                self._known.problems.add(host.where, rule)

    def _read_pod(self, keys: Keys) -> Pod:
        pod = Pod(
            name=keys.need("name", name()),
            gateway=keys.get("gateway", ip_address(), None),
            netmask=keys.get("netmask", netmask(), None),
            start_ip=keys.get("start_ip", ip_address(), None),
            end_ip=keys.get("end_ip", ip_address(), None),
            allocation_state=keys.get("allocation_state", choice(AllocationState), AllocationState.ENABLED),
            dedicated_to=keys.get("dedicated_to", dedication(self._known), None),
            clusters=keys.each("clusters", "a cluster", self._read_cluster),
            where=keys.where,
        )
        described = ((cluster.name, cluster.where) for cluster in pod.clusters)
        refuse_twice(self._known.problems, "cluster", described)
        if (pod.gateway is None) is not (pod.netmask is None):
            keys.refuse("netmask", "must be given together with gateway")
        elif pod.gateway is not None and pod.netmask != NO_NETMASK:
            self._check_subnet(pod, IPv4Network(f"{pod.gateway}/{pod.netmask}", strict=False))
        return pod

    def _check_subnet(self, pod: Pod, subnet: IPv4Network) -> None:
        """Hosts have addresses of the pod's management network; of a group only the first is told."""
        told: set[Where] = set()
        for host in (host for cluster in pod.clusters for host in cluster.hosts):
            inside = IPv4Address(host.ip_address) in subnet and host.ip_address != pod.gateway
            if not inside and host.ip_address != NO_IP and host.where not in told:
                told.add(host.where)
                rule = f"host {host.name} has address {host.ip_address}, not one of the pod's network {subnet}"
                self._known.problems.add(host.where, rule)

    def _read_cluster(self, keys: Keys) -> Cluster:
        hypervisor = keys.need("hypervisor", choice(HypervisorType))
        groups = keys.each("hosts", "a group of hosts", lambda item: self._hosts.read_group(item, hypervisor))
        hosts = tuple(host for group in groups for host in group)
        offered = self._offered
        return Cluster(
            name=keys.need("name", name()),
            hypervisor=hypervisor,
            allocation_state=keys.get("allocation_state", choice(AllocationState), AllocationState.ENABLED),
            cpu_overcommit=keys.get("cpu_overcommit", OVERCOMMIT, offered.cpu_overcommit),
            memory_overcommit=keys.get("memory_overcommit", OVERCOMMIT, offered.memory_overcommit),
            dedicated_to=keys.get("dedicated_to", dedication(self._known), None),
            configuration=keys.get("configuration", settings(Scope.CLUSTER), {}),
            hosts=hosts,
            storage_pools=keys.each("storage_pools", "a pool", lambda item: read_pool(item, PoolScope.CLUSTER)),
            loads=keys.each("load", "a load", lambda item: self._read_load(item, hypervisor, hosts)),
            where=keys.where,
        )

    def _read_load(self, keys: Keys, hypervisor: HypervisorType, hosts: tuple[Host, ...]) -> Load:
        load = Load(
            name=keys.need("name", host_name(LONGEST_LOAD_NAME)),
            account=keys.get("account", self._known.account, ROOT_ADMIN),
            offering=keys.need("offering", reference("a service offering", self._offered.offerings)),
            template=keys.need("template", reference("one template (and not of two)", self._offered.templates)),
            count=keys.need("count", whole(1, 1_000_000)),
            hosts=keys.get("hosts", host_names(), ()),
            network=keys.get("network", reference("a network", self._offered.networks), None),
            cpu_number=keys.get("cpu_number", CORES, None),
            cpu_mhz=keys.get("cpu_mhz", SPEED, None),
            memory_mib=keys.get("memory", MEMORY, None),
            security_groups=keys.get("security_groups", list_of(name()), ()),
            affinity_groups=keys.get("affinity_groups", list_of(name()), ()),
            where=keys.where,
        )
        names = {host.name for host in hosts}
        missing = [host for host in load.hosts if host not in names]
        if missing:
            keys.refuse("hosts", f"the cluster has no host {missing[0]!r}")
        self._check_load(keys, load, hypervisor)
        return load

    def _check_load(self, keys: Keys, load: Load, hypervisor: HypervisorType) -> None:
        """What its VMs are made of must be usable in this cluster, by this account."""
        offering = self._offered.offerings.get(load.offering)
        if offering is not None:
            _check_sizes(keys, load, offering)
        template = self._offered.templates.get(load.template)
        if template is not None and template.hypervisor not in (None, hypervisor):
            keys.refuse("template", f"is a template for {template.hypervisor}, the cluster's is {hypervisor}")
        if template is not None and not template.ready:
            keys.refuse("template", f"template {template.name!r} is not ready")
        _check_owner(keys, load, self._offered.accounts.get(load.account))


def _check_sizes(keys: Keys, load: Load, offering: ServiceOffering) -> None:
    given = (load.cpu_number, load.cpu_mhz, load.memory_mib)
    if not offering.is_custom and any(one is not None for one in given):
        keys.refuse("cpu_number", f"cores, speed and memory are those of offering {offering.name!r}")
    if offering.is_custom and (load.cpu_number is None or load.memory_mib is None):
        keys.refuse("cpu_number", f"offering {offering.name!r} is custom: give cpu_number and memory")
    if offering.is_custom and (load.cpu_mhz is None) is (offering.cpu_mhz is None):
        keys.refuse("cpu_mhz", "give the speed of a core exactly where the custom offering leaves it open")


def _check_owner(keys: Keys, load: Load, account: Account | None) -> None:
    """``account`` None: the admin that every installation has, of whom the file describes nothing."""
    if account is not None and not account.users:
        keys.refuse("account", f"account {account.name!r} has no user who could own VMs")
    for key, groups, owned in (
        ("security_groups", load.security_groups, account.security_groups if account else ()),
        ("affinity_groups", load.affinity_groups, account.affinity_groups if account else ()),
    ):
        for missing in sorted(set(groups) - {group.name for group in owned}):
            keys.refuse(key, f"account {load.account.name!r} has no such group in this file: {missing!r}")


def _pools_of(clusters: list[Cluster]) -> Iterator[StoragePool]:
    for cluster in clusters:
        yield from cluster.storage_pools
        for host in cluster.hosts:
            yield from host.storage_pools
