"""Writing an inventory as the file that describes it: what the reader reads back to the same.

Only what differs from the defaults is written, alike hosts in a row as one group.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from typing import Any

import yaml

from bulkdeploy.domain.inventory import Cluster, Dedication, Host, Inventory, StoragePool
from bulkdeploy.domain.inventory_catalog import IpRange, Network, Template
from bulkdeploy.domain.inventory_owners import ROOT, ROOT_ADMIN, AccountName
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.domain.topology import TemplateKind
from bulkdeploy.domain.units import GIB, MIB
from bulkdeploy.services.inventory.inventory_catalog import FORMATS, READY_STATUS, UNREADY_STATUS
from bulkdeploy.services.inventory.inventory_patterns import compress, continues, word_for
from bulkdeploy.services.inventory.inventory_values import size_text

Written = dict[str, Any]

LINE_WIDTH = 116
LEFT_TO_THE_PLACE = frozenset({"where", "scope", "kind"})
"""Fields that a file says by where an entity stands."""

KEYS = {
    "customized": "custom",
    "ip_address": "ip",
    "is_default": "default",
    "is_extractable": "extractable",
    "is_featured": "featured",
    "is_public": "public",
    "isolation_methods": "isolation",
    "loads": "load",
    "local_storage_enabled": "local_storage",
    "owner": "account",
    "pool_type": "type",
    "security_groups_enabled": "security_groups",
    "template_type": "type",
}
"""Keys of fields that a file calls otherwise; units at the end of a name are left out besides."""

OVERCOMMIT_SETTINGS = {
    "cpu_overcommit": "cpu.overprovisioning.factor",
    "memory_overcommit": "mem.overprovisioning.factor",
}
"""The settings that say what clusters get which give none."""

UNITS = {"_mib": MIB, "_gib": GIB, "_bytes": 1}


class _Dumper(yaml.SafeDumper):
    """Writes everything out: the reader takes no anchors and aliases."""

    def ignore_aliases(self, data: object) -> bool:
        """Never point from one place to another."""
        del data
        return True


def inventory_text(inventory: Inventory) -> str:
    """The file that describes the inventory."""
    written = _Writer(inventory).write()
    return yaml.dump(
        written,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=LINE_WIDTH,
    )


class _Writer:
    """Turns entities into mappings; knows which accounts a name alone can tell apart."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        full = {ROOT_ADMIN, *(account.full_name for account in inventory.accounts)}
        self._alike = Counter(account.name for account in full)

    def write(self) -> Written:
        """The whole file, in the order in which a person would read it."""
        inventory = self._inventory
        parts: Written = {
            "version": 1,
            "zone": self._entity(inventory.zone),
            "configuration": dict(inventory.configuration),
            "domains": self._list(inventory.domains),
            "accounts": self._list(inventory.accounts),
            "service_offerings": self._list(inventory.service_offerings),
            "disk_offerings": self._list(inventory.disk_offerings),
            "templates": self._list([one for one in inventory.templates if one.kind is TemplateKind.TEMPLATE]),
            "isos": self._list([one for one in inventory.templates if one.kind is TemplateKind.ISO]),
            "networks": self._list(inventory.networks),
            "storage_pools": self._list(inventory.storage_pools),
            "pods": self._list(inventory.pods),
        }
        return {key: part for key, part in parts.items() if part}

    def _list(self, entities: Sequence[Any]) -> list[Written]:
        return [self._entity(entity) for entity in entities]

    def _entity(self, entity: Any) -> Written:
        written: Written = {}
        for one in fields(entity):
            value = getattr(entity, one.name)
            if one.name not in LEFT_TO_THE_PLACE and value != _default(one):
                written[_key(one.name)] = self._value(one.name, value)
        if written.get("display_text") == written.get("name"):
            written.pop("display_text", None)
        if isinstance(entity, Template):
            _mend_template(entity, written)
        elif isinstance(entity, Network):
            _mend_network(entity, written)
        elif isinstance(entity, Cluster):
            self._mend_cluster(entity, written)
        return written

    def _value(self, field_name: str, value: Any) -> Any:
        unit = next((UNITS[suffix] for suffix in UNITS if field_name.endswith(suffix)), None)
        if unit is not None:
            return size_text(value * unit)
        if field_name == "limits":
            return {kind.wire_name: _limit(kind, most) for kind, most in value.items()}
        if field_name == "hosts":
            return self._hosts(value)
        if isinstance(value, AccountName):
            return self._account(value)
        if isinstance(value, Dedication):
            return (
                value.domain if value.account is None else self._account(AccountName(value.account, value.domain))
            )
        if is_dataclass(value):
            return self._entity(value)
        if isinstance(value, tuple):
            return [self._value("", item) for item in value]
        if isinstance(value, Decimal):
            return int(value) if value == int(value) else float(value)
        if isinstance(value, Mapping):
            return dict(value)
        return value.value if isinstance(value, Enum) else value

    def _account(self, account: AccountName) -> str:
        """The name alone, where it cannot be mistaken for another account or a domain."""
        plain = self._alike[account.name] == 1 and "@" not in account.name and not account.name.startswith(ROOT)
        return account.name if plain else str(account)

    def _hosts(self, hosts: Sequence[Host] | Sequence[str]) -> list[Any]:
        """Words for host names, or groups of hosts."""
        names = [host for host in hosts if isinstance(host, str)]
        groups = _groups([host for host in hosts if isinstance(host, Host)])
        return [*compress(names), *(self._group(group) for group in groups)]

    def _group(self, group: Sequence[Host]) -> Written:
        """Hosts that differ in names and addresses only, which count up."""
        alike = _anonymous(group[0])
        pools = [self._entity(pool) | {"type": pool.pool_type} for pool in alike.storage_pools]
        shared = self._entity(replace(alike, storage_pools=()))
        for key in ("name", "ip"):
            del shared[key]
        first = {"names": word_for([host.name for host in group]), "first_ip": group[0].ip_address}
        return first | shared | ({"local_storage": pools} if pools else {})

    def _mend_cluster(self, cluster: Cluster, written: Written) -> None:
        """Over-commit that is not written is what the file's settings say, which need not be 1."""
        for name, setting in OVERCOMMIT_SETTINGS.items():
            if setting in self._inventory.configuration:
                written[name] = self._value(name, getattr(cluster, name))


def _groups(hosts: Sequence[Host]) -> list[list[Host]]:
    groups: list[list[Host]] = []
    for host in hosts:
        if groups and _joins(groups[-1], host):
            groups[-1].append(host)
        else:
            groups.append([host])
    return groups


def _joins(group: Sequence[Host], host: Host) -> bool:
    next_ip = int(IPv4Address(group[0].ip_address)) + len(group)
    return (
        int(IPv4Address(host.ip_address)) == next_ip
        and continues([one.name for one in group], host.name)
        and _anonymous(host) == _anonymous(group[0])
    )


def _anonymous(host: Host) -> Host:
    """The host without what tells it from the others of its group."""
    pools = tuple(_unprefixed(pool, host.name) for pool in host.storage_pools)
    return replace(host, name="", ip_address="", storage_pools=pools)


def _unprefixed(pool: StoragePool, host: str) -> StoragePool:
    return replace(pool, name=pool.name.removeprefix(f"{host}-"))


def _mend_template(template: Template, written: Written) -> None:
    """What the reader concludes by itself."""
    if template.physical_size_bytes == template.size_bytes:
        del written["physical_size"]
    if template.kind is TemplateKind.ISO or (
        template.hypervisor is not None and template.format == FORMATS.get(template.hypervisor, "RAW")
    ):
        del written["format"]
    written.pop("status", None)
    if template.status != (READY_STATUS if template.ready else UNREADY_STATUS):
        written["status"] = template.status


def _mend_network(network: Network, written: Written) -> None:
    """What ranges take over from the network, and the network from its owner."""
    written.pop("domain", None)
    if network.domain != network.owner.domain:
        written["domain"] = network.domain
    if network.ranges:
        written["ranges"] = [_range(network, one) for one in network.ranges]


def _range(network: Network, one: IpRange) -> Written:
    written = {"start": one.start_ip, "end": one.end_ip}
    for key in ("gateway", "netmask", "vlan"):
        if getattr(one, key) != getattr(network, key):
            written[key] = getattr(one, key)
    return written if one.pod is None else written | {"pod": one.pod}


def _limit(kind: ResourceType, most: int) -> str | int:
    if most == UNLIMITED:
        return "unlimited"
    if kind.counted_in_bytes:
        return size_text(most)
    return size_text(most * MIB) if kind is ResourceType.MEMORY else most


def _key(field_name: str) -> str:
    for suffix in UNITS:
        field_name = field_name.removesuffix(suffix)
    return KEYS.get(field_name, field_name)


def _default(one: "Field[Any]") -> object:
    if one.default_factory is not MISSING:
        return one.default_factory()
    return one.default
