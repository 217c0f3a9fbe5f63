"""Reading a whole inventory file: one zone as a person describes it in YAML.

A file is taken or refused as a whole: every rule that it breaks is reported at once, with line
and key. What a file names must be described in it, so that reading needs no database; only ROOT
and its ``admin`` are always there. docs/inventory.md tells the format.
"""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from bulkdeploy.domain.configuration import BY_NAME, Scope
from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.domain.inventory import Inventory, Zone
from bulkdeploy.domain.inventory_catalog import Template
from bulkdeploy.domain.inventory_owners import ROOT
from bulkdeploy.domain.topology import TemplateKind
from bulkdeploy.services.inventory.inventory_catalog import (
    Known,
    read_disk_offerings,
    read_service_offerings,
    read_templates,
)
from bulkdeploy.services.inventory.inventory_document import Entries, Keys, Problems, read_document
from bulkdeploy.services.inventory.inventory_networks import (
    check_pods_of_ranges,
    read_networks,
    read_zone,
    settings,
)
from bulkdeploy.services.inventory.inventory_owners import accounts_by_name, read_accounts, read_domains
from bulkdeploy.services.inventory.inventory_topology import Offered, TopologyReader
from bulkdeploy.services.inventory.inventory_values import MISSING, whole

VERSION = whole(1, 1)


def read_inventory_file(path: Path) -> Inventory:
    """The inventory that a file describes.

    Raises:
        InvalidInventory: the file cannot be read, or breaks rules; each is named with line and key.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInventory([f"{path.name}: the file cannot be read: {error.strerror}"]) from error
    return parse_inventory(path.name, data)


def parse_inventory(file: str, data: bytes) -> Inventory:
    """The inventory that ``data`` describes; ``file`` is what problems call it.

    Raises:
        InvalidInventory: as ``read_inventory_file``.
    """
    problems = Problems(file)
    document = read_document(file, data, problems)
    keys = Keys(document, "", "an inventory", problems)
    if not isinstance(document, Entries):
        problems.refuse_if_any()
    inventory = _read(keys, problems)
    keys.close()
    problems.refuse_if_any()
    return inventory


def _read(keys: Keys, problems: Problems) -> Inventory:
    """Parts in the order in which they name each other; the file may have them in any order."""
    keys.need("version", VERSION)
    configuration: Mapping[str, str] = keys.get("configuration", settings(Scope.GLOBAL), {})
    domains = read_domains(keys, problems)
    paths = list(dict.fromkeys([ROOT, *(domain.path for domain in domains)]))
    accounts = read_accounts(keys, problems, paths)
    known = Known(problems, paths, accounts_by_name(accounts))
    zone = keys.one("zone", "a zone", lambda item: read_zone(item, known))
    if zone is None:
        problems.add(keys.where, "key 'zone' is missing: an inventory describes one zone")
        zone = Zone(name=MISSING)
    service_offerings = read_service_offerings(keys, known)
    disk_offerings = read_disk_offerings(keys, known)
    templates = read_templates(keys, known)
    networks = read_networks(keys, known, zone)
    offered = Offered(
        offerings={offering.name: offering for offering in service_offerings},
        templates=_by_name(templates),
        networks=tuple(network.name for network in networks),
        accounts={account.full_name: account for account in accounts},
        cpu_overcommit=_factor(configuration, "cpu.overprovisioning.factor"),
        memory_overcommit=_factor(configuration, "mem.overprovisioning.factor"),
    )
    pods, pools = TopologyReader(keys, known, offered).read()
    check_pods_of_ranges(known, networks, {pod.name for pod in pods})
    return Inventory(
        zone=zone,
        configuration=configuration,
        domains=domains,
        accounts=accounts,
        service_offerings=service_offerings,
        disk_offerings=disk_offerings,
        templates=templates,
        networks=networks,
        pods=pods,
        storage_pools=pools,
    )


def _by_name(templates: tuple[Template, ...]) -> dict[str, Template]:
    """Templates that a name alone can tell apart."""
    usable = [one for one in templates if one.kind is TemplateKind.TEMPLATE]
    alike = Counter(one.name for one in usable)
    return {one.name: one for one in usable if alike[one.name] == 1}


def _factor(configuration: Mapping[str, str], setting: str) -> Decimal:
    """Over-commit of clusters that give none."""
    return Decimal(configuration.get(setting, BY_NAME[setting].default))
