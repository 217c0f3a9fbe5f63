"""Making an inventory true in the database: everything in one transaction, in the order of the locks."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from bulkdeploy.domain.inventory import Inventory
from bulkdeploy.services.inventory.inventory_placing import LoadPlacer
from bulkdeploy.services.inventory.inventory_resolving import LoadResolver, Named
from bulkdeploy.store.configuration.configuration import read_configuration
from bulkdeploy.store.inventory import inventory_accounts as accounts
from bulkdeploy.store.inventory import inventory_catalog as catalog
from bulkdeploy.store.inventory import inventory_groups as groups
from bulkdeploy.store.inventory import inventory_networks as networks
from bulkdeploy.store.inventory import inventory_rooms as rooms
from bulkdeploy.store.inventory import inventory_topology as topology
from bulkdeploy.store.inventory.inventory_load_rows import LoadWriter
from bulkdeploy.store.inventory.inventory_loads import LoadToPlace, add_counts
from bulkdeploy.store.inventory.inventory_staging import Changes, serialize_loads
from bulkdeploy.store.ledger.zone_locks import change_zone_rules, lock_zone


def write_inventory(connection: Connection, inventory: Inventory, secrets: accounts.Secrets) -> Changes:
    """Write what is missing and update what differs; nothing is ever removed.

    The order is that of the locks: zone, resource counts, affinity groups, host capacity, pools,
    address ranges, VMs. Loads of inventories wait for each other.

    Raises:
        InventoryConflict: something cannot be made true; the transaction must be given up.
    """
    changes = Changes()
    serialize_loads(connection)
    domain_ids = accounts.write_domains(connection, inventory.domains, changes)
    account_ids = accounts.write_accounts(connection, inventory.accounts, domain_ids, changes)
    accounts.write_users(connection, inventory.accounts, account_ids, secrets, changes)
    groups.write_key_pairs(connection, inventory.accounts, account_ids, changes)
    zone_id = topology.write_zone(connection, inventory.zone, domain_ids, changes)
    change_zone_rules(connection, zone_id)
    lock_zone(connection, zone_id)
    places = topology.write_places(connection, inventory, zone_id, changes)
    catalog.write_disk_offerings(connection, inventory.disk_offerings, zone_id, domain_ids, changes)
    named = Named(
        accounts=account_ids,
        places=places,
        offerings=catalog.write_service_offerings(
            connection, inventory.service_offerings, zone_id, domain_ids, changes
        ),
        templates=catalog.write_templates(connection, inventory.templates, zone_id, account_ids, changes),
        networks=networks.write_networks(
            connection, inventory.zone, zone_id, inventory.networks, account_ids, domain_ids, changes
        ),
        security_groups=groups.write_security_groups(connection, inventory.accounts, account_ids, changes),
    )
    pending = LoadResolver(connection, inventory, named).pending()
    add_counts(connection, pending)
    affinity_ids = groups.write_affinity_groups(connection, inventory.accounts, account_ids, domain_ids, changes)
    dedicated = topology.dedicated_places(inventory, places)
    groups.write_dedications(connection, dedicated, account_ids, domain_ids, changes)
    _write_room(connection, inventory, places, changes)
    networks.write_ranges(connection, inventory.networks, named.networks, places.pods, changes)
    _write_loads(connection, zone_id, [_with_affinity(one, affinity_ids) for one in pending], changes)
    return changes


def _write_room(connection: Connection, inventory: Inventory, places: topology.Places, changes: Changes) -> None:
    """What hosts and pools can hold, and the settings that go with them."""
    topology.write_capacity(connection, inventory, places, changes)
    described = {places.hosts[host.name]: host.where for _, _, host in topology.hosts_of(inventory)}
    rooms.refuse_overfull_hosts(connection, described)
    topology.write_pools(connection, inventory, places, changes)
    networks.write_settings(connection, topology.settings_of(inventory, places), changes)


def _with_affinity(wanted: LoadToPlace, ids: groups.GroupIds) -> LoadToPlace:
    load = wanted.load
    return replace(wanted, affinity_group_ids=tuple(ids[load.account, group] for group in load.affinity_groups))


def _write_loads(connection: Connection, zone_id: int, pending: Sequence[LoadToPlace], changes: Changes) -> None:
    """Place and write the VMs that are still to be made."""
    if not pending:
        return
    configuration = read_configuration(connection)
    hosts = rooms.host_rooms(connection, zone_id)
    pools = rooms.pool_rooms(connection, zone_id, configuration)
    groups_named = {group for wanted in pending for group in wanted.affinity_group_ids}
    placer = LoadPlacer(hosts, pools, rooms.strict_anti_affinity_hosts(connection, sorted(groups_named)))
    placed = [placer.place(wanted) for wanted in pending]
    made = LoadWriter(connection, zone_id, placed).write(configuration.text("instance.name"))
    changes.count("virtual machines", made, 0)
