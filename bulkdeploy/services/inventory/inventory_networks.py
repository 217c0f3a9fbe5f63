"""Reading the zone of an inventory file, its networks with their addresses, and settings."""

from collections.abc import Collection, Mapping
from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise

from bulkdeploy.domain.configuration import Scope
from bulkdeploy.domain.inventory import Dedication, PhysicalNetwork, Zone
from bulkdeploy.domain.inventory_catalog import IpRange, Network
from bulkdeploy.domain.inventory_owners import ROOT, ROOT_ADMIN
from bulkdeploy.domain.topology import AllocationState, NetworkType
from bulkdeploy.scheduling.catalog import settings_by_name
from bulkdeploy.services.inventory.inventory_catalog import SORT_KEY, Known
from bulkdeploy.services.inventory.inventory_document import Keys, Node, Refused, Value
from bulkdeploy.services.inventory.inventory_owners import refuse_twice
from bulkdeploy.services.inventory.inventory_values import (
    NO_IP,
    choice,
    cidr,
    flag,
    ip_address,
    map_of,
    matching,
    name,
    named,
    netmask,
    one_of,
    reference,
    scalar_text,
    shown,
    text,
)

NOT_CONFIGURED_HERE = {
    "cpu.overprovisioning.factor": "cpu_overcommit",
    "mem.overprovisioning.factor": "memory_overcommit",
}
"""Settings of a cluster that have a key of their own."""


def settings(scope: Scope) -> Value[Mapping[str, str]]:
    """Overrides of global settings, or of those that may differ by ``scope``."""

    def value_of(setting_name: str) -> Value[str]:
        setting = settings_by_name().get(setting_name)
        if setting is None or scope not in (Scope.GLOBAL, setting.scope):
            return _never("is not a setting that can be given here")
        if scope is Scope.CLUSTER and setting_name in NOT_CONFIGURED_HERE:
            return _never(f"is given by the cluster's key {NOT_CONFIGURED_HERE[setting_name]}")

        def read(node: Node) -> str:
            written = scalar_text(node, "must be text")
            rule = setting.broken_rule(written)
            if rule is not None:
                raise Refused(node.line, f"{rule}, not {shown(written)}")
            return written

        return Value(read, setting.default)

    return map_of(value_of)


def _never(rule: str) -> Value[str]:
    return matching(rule, lambda _: None, "", secret=True)


def dedication(known: Known) -> Value[Dedication]:
    """``dedicated_to``: the path of a domain, or an account."""
    holders: dict[str, Dedication] = {path: Dedication(domain=path) for path in known.domains}
    for called, account in known.accounts.items():
        holders.setdefault(called, Dedication(domain=account.domain, account=account.name))
    return named("a domain (its path) or an account", holders, Dedication(domain=ROOT))


def read_zone(keys: Keys, known: Known) -> Zone:
    """The zone itself."""
    zone = Zone(
        name=keys.need("name", name()),
        description=keys.get("description", text(), None),
        network_type=keys.get("network_type", choice(NetworkType), NetworkType.ADVANCED),
        security_groups_enabled=keys.get("security_groups", flag(), default=False),
        local_storage_enabled=keys.get("local_storage", flag(), default=False),
        allocation_state=keys.get("allocation_state", choice(AllocationState), AllocationState.ENABLED),
        dns1=keys.get("dns1", ip_address(), None),
        dns2=keys.get("dns2", ip_address(), None),
        internal_dns1=keys.get("internal_dns1", ip_address(), None),
        internal_dns2=keys.get("internal_dns2", ip_address(), None),
        guest_cidr=keys.get("guest_cidr", cidr(), None),
        network_domain=keys.get("network_domain", name(), None),
        domain=keys.get("domain", reference("a domain", known.domains), None),
        sort_key=keys.get("sort_key", SORT_KEY, 0),
        dedicated_to=keys.get("dedicated_to", dedication(known), None),
        physical_networks=keys.each("physical_networks", "a physical network", _read_physical_network),
        where=keys.where,
    )
    described = ((network.name, network.where) for network in zone.physical_networks)
    refuse_twice(known.problems, "physical network", described)
    return zone


def _read_physical_network(keys: Keys) -> PhysicalNetwork:
    return PhysicalNetwork(
        name=keys.need("name", name()),
        isolation_methods=keys.get("isolation", one_of("VLAN", "VXLAN", "GRE", "STT"), "VLAN"),
        vlan_range=keys.get("vlan_range", name(), None),
        where=keys.where,
    )


def read_networks(keys: Keys, known: Known, zone: Zone) -> tuple[Network, ...]:
    """The guest networks; in a Basic zone there is one."""
    networks = keys.each("networks", "a network", lambda item: _read_network(item, known, zone))
    refuse_twice(known.problems, "network", ((network.name, network.where) for network in networks))
    if zone.network_type is NetworkType.BASIC and len(networks) > 1:
        known.problems.add(networks[1].where, "a Basic zone has one guest network")
    return networks


def _read_network(keys: Keys, known: Known, zone: Zone) -> Network:
    called = keys.need("name", name())
    owner = keys.get("account", known.account, ROOT_ADMIN)
    network_cidr = keys.get("cidr", cidr(), None)
    vlan = keys.get("vlan", name(), None)
    gateway = keys.get("gateway", ip_address(), None)
    mask = None if network_cidr is None else str(IPv4Network(network_cidr).netmask)
    network = Network(
        name=called,
        display_text=keys.get("display_text", text(), called),
        offering=keys.get("offering", name(), "DefaultSharedNetworkOffering"),
        owner=owner,
        acl_type=keys.get("acl_type", one_of("Domain", "Account"), "Domain"),
        domain=keys.get("domain", reference("a domain", known.domains), owner.domain),
        subdomain_access=keys.get("subdomain_access", flag(), default=True),
        physical_network=keys.get(
            "physical_network",
            reference("a physical network", [physical.name for physical in zone.physical_networks]),
            None,
        ),
        cidr=network_cidr,
        gateway=gateway,
        vlan=vlan,
        network_domain=keys.get("network_domain", name(), None),
        is_default=keys.get("default", flag(), default=False),
        ranges=keys.each("ranges", "an address range", lambda item: _read_range(item, (gateway, mask, vlan))),
        where=keys.where,
    )
    if gateway is not None and network_cidr is not None and IPv4Address(gateway) not in IPv4Network(network_cidr):
        keys.refuse("gateway", f"must be an address of the network {network_cidr}")
    _check_overlaps(known, network)
    return network


def _read_range(keys: Keys, inherited: tuple[str | None, str | None, str | None]) -> IpRange:
    """A range; gateway, netmask and VLAN are the network's where they are not given."""
    network_gateway, network_mask, network_vlan = inherited
    gateway, mask = keys.get("gateway", ip_address(), network_gateway), keys.get("netmask", netmask(), network_mask)
    found = IpRange(
        start_ip=keys.need("start", ip_address()),
        end_ip=keys.need("end", ip_address()),
        gateway=gateway or "",
        netmask=mask or "",
        vlan=keys.get("vlan", name(), network_vlan),
        pod=keys.get("pod", name(), None),
        where=keys.where,
    )
    for key, value in (("gateway", gateway), ("netmask", mask)):
        if value is None:
            keys.refuse(key, "must be given here where the network gives none")
    if gateway is not None and mask is not None and NO_IP not in (found.start_ip, found.end_ip):
        _check_range(keys, found)
    return found


def _check_range(keys: Keys, found: IpRange) -> None:
    """Addresses of one subnet, the gateway's; neither its first nor its last."""
    subnet = IPv4Network(f"{found.gateway}/{found.netmask}", strict=False)
    usable = (subnet.network_address + 1, subnet.broadcast_address - 1)
    start, end = IPv4Address(found.start_ip), IPv4Address(found.end_ip)
    if start > end:
        keys.refuse("end", f"must not be below start {found.start_ip}")
    for key, ip in (("start", start), ("end", end)):
        if not usable[0] <= ip <= usable[1]:
            keys.refuse(key, f"must be an address of the gateway's network: {usable[0]} to {usable[1]}")


def _check_overlaps(known: Known, network: Network) -> None:
    ranges = sorted(network.ranges, key=lambda one: IPv4Address(one.start_ip))
    for lower, upper in pairwise(ranges):
        if IPv4Address(upper.start_ip) <= IPv4Address(lower.end_ip):
            known.problems.add(upper.where, f"the range overlaps that of line {lower.where.line}")


def check_pods_of_ranges(known: Known, networks: Collection[Network], pods: Collection[str]) -> None:
    """Refuse ranges for pods that the file does not describe."""
    for network in networks:
        for found in network.ranges:
            if found.pod is not None and found.pod not in pods:
                known.problems.add(found.where, f"pod {found.pod!r} is not described in this file")
