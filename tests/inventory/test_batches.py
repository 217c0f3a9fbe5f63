"""Whatever a zone file says many of is written as one: statements for many entries are those for few."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import pytest
from sqlalchemy import Connection, Engine, make_url

from bulkdeploy.commands.registry import every_api, find_nouns
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.networks.security_group_rules import Direction
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.services.accounts.accounts import delete_accounts
from bulkdeploy.services.accounts.domains import delete_domains
from bulkdeploy.services.accounts.roles import delete_roles
from bulkdeploy.services.accounts.users import delete_users
from bulkdeploy.services.catalog import network_offerings
from bulkdeploy.services.catalog.disk_offerings import DISK_OFFERING
from bulkdeploy.services.catalog.offerings import delete_offerings
from bulkdeploy.services.catalog.service_offerings import SERVICE_OFFERING
from bulkdeploy.services.catalog.templates import ISO, TEMPLATE, delete_templates
from bulkdeploy.services.deployments.registered_user_data import delete_user_data
from bulkdeploy.services.infrastructure import physical_networks
from bulkdeploy.services.infrastructure.clusters import delete_clusters
from bulkdeploy.services.infrastructure.dedications import release_places
from bulkdeploy.services.infrastructure.hosts import delete_hosts
from bulkdeploy.services.infrastructure.pods import delete_pods
from bulkdeploy.services.infrastructure.storage.storage_pools import delete_pools
from bulkdeploy.services.infrastructure.zones import delete_zones
from bulkdeploy.services.networks.networks import delete_networks
from bulkdeploy.services.networks.security_group_rules import revoke
from bulkdeploy.services.networks.security_groups import delete_security_groups
from bulkdeploy.services.networks.vlan_ip_ranges import delete_ranges
from bulkdeploy.services.virtual_machines.affinity_groups import delete_affinity_groups
from bulkdeploy.services.virtual_machines.ssh_key_pairs import delete_ssh_key_pairs
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.database.engine import create_engine, run_transaction
from bulkdeploy.store.rows.entities import SOURCES
from bulkdeploy.store.rows.live_rows import reader
from bulkdeploy.wiring.cipher import FernetCipher
from tests.inventory.test_zone_files import load
from tests.support.processes.services import database_clone
from tests.support.processes.statements import Statements

FEW, MANY = 2, 11

GROUND = """\
domains:
  - name: customers
    domains: [{domains}]
    accounts: [{accounts}]
serviceofferings: [{{name: s, displaytext: s}}]
zones:
{zones}
"""
"""What the entries of all sections stand in, with one of each for each entry."""

ZONE = """\
  - name: z#
    networktype: Advanced
    dns1: 10.0.0.2
    internaldns1: 10.0.0.3
    physicalnetworks: [{name: p, state: Enabled, vlan: 100-199}]
    networks:
      - {name: shared, networkofferingid: DefaultSharedNetworkOffering, vlan: "99",
         gateway: 10.1.0.1, netmask: 255.255.255.0, startip: 10.1.0.10, endip: 10.1.0.20}
    pods:
      - name: pod
        clusters:
          - {clustername: c-#, clustertype: CloudManaged, hypervisor: KVM,
             hosts: [{hypervisor: KVM, url: "http://10.0.1.1/h-#"}]}
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDAs3LyV9oXbyyHP2K9cJ6k/+/WbwtxbYbEIsrgoCwkc"
IMAGE = "zoneid: z#, size: 1 GiB"
OWNED = "account: a#, domainid: ROOT/customers"
ISOLATED = "DefaultIsolatedNetworkOfferingWithSourceNatService"
RULES = "securitygroupid: web-#, protocol: tcp, startport: 80, endport: 80"

ENTRIES: Mapping[str, tuple[str, str | None]] = {
    "domains": ("{name: d-#}", "{name: d-#, networkdomain: example.org}"),
    "roles": ("{name: r-#, type: User}", "{name: r-#, type: User, description: new}"),
    "zones": (
        "{name: y-#, networktype: Basic, dns1: 10.0.0.2, internaldns1: 10.0.0.3}",
        "{name: y-#, networktype: Basic, dns1: 10.0.0.4, internaldns1: 10.0.0.3, allocationstate: Enabled}",
    ),
    "accounts": (
        "{account: b#, roleid: User, domainid: ROOT/customers}",
        "{account: b#, roleid: User, domainid: ROOT/customers, networkdomain: example.org, state: locked}",
    ),
    "diskofferings": (
        "{name: o-#, displaytext: old, disksize: 1 GiB, zoneid: [z#], domainid: [ROOT/customers]}",
        "{name: o-#, displaytext: new, zoneid: [z#, z0], domainid: [ROOT]}",
    ),
    "serviceofferings": (
        "{name: o-#, displaytext: old, zoneid: [z#], domainid: [ROOT/customers]}",
        "{name: o-#, displaytext: new, zoneid: [z#, z0], domainid: [ROOT]}",
    ),
    "physicalnetworks": (
        "{name: p-#, zoneid: z#}",
        "{name: p-#, zoneid: z#, vlan: 100-200}",
    ),
    "pods": ("{name: p-#, zoneid: z#}", "{name: p-#, zoneid: z#, allocationstate: Disabled}"),
    "users": (
        f"{{username: u#, {OWNED}}}",
        f"{{username: u#, {OWNED}, lastname: new, state: locked}}",
    ),
    "templates": (
        f"{{name: t-#, format: RAW, hypervisor: KVM, {IMAGE}, {OWNED}}}",
        (
            f"{{name: t-#, format: RAW, hypervisor: KVM, {IMAGE}, {OWNED}, displaytext: new, isready: false,"
            " accountids: [ROOT/customers/a0]}"
        ),
    ),
    "isos": (
        f"{{name: i-#, {IMAGE}, {OWNED}}}",
        f"{{name: i-#, {IMAGE}, {OWNED}, bootable: false, accountids: [ROOT/customers/a0]}}",
    ),
    "securitygroups": (f"{{name: g-#, {OWNED}}}", None),
    "affinitygroups": (f"{{name: g-#, type: host affinity, {OWNED}}}", None),
    "sshkeypairs": (
        f"{{name: k-#, publickey: {KEY}, {OWNED}}}",
        f"{{name: k-#, publickey: {KEY} new, {OWNED}}}",
    ),
    "userdata": (
        f"{{name: d-#, userdata: aGVsbG8=, {OWNED}}}",
        f"{{name: d-#, userdata: d29ybGQ=, {OWNED}}}",
    ),
    "networkofferings": (
        "{name: o-#, traffictype: Guest, guestiptype: L2, enable: true}",
        "{name: o-#, traffictype: Guest, guestiptype: L2, displaytext: new}",
    ),
    "clusters": (
        "{clustername: k-#, podid: z#/pod, zoneid: z#, clustertype: CloudManaged, hypervisor: KVM}",
        (
            "{clustername: k-#, podid: z#/pod, zoneid: z#, clustertype: CloudManaged, hypervisor: XenServer,"
            " allocationstate: Disabled}"
        ),
    ),
    "storagepools": (
        '{name: s-#, zoneid: z#, hypervisor: KVM, url: "nfs://10.0.0.9/#", capacitybytes: 1 GiB}',
        '{name: s-#, zoneid: z#, hypervisor: KVM, url: "nfs://10.0.0.9/#", capacitybytes: 2 GiB, tags: x}',
    ),
    "configuration": ('{allow.public.user.templates: "false"}', '{allow.public.user.templates: "true"}'),
    "limits": ("{user_vm: 5}", "{user_vm: 6}"),
    "hosts": (
        '{clusterid: c-#, podid: z#/pod, zoneid: z#, hypervisor: KVM, url: "http://10.0.1.1/x-#"}',
        (
            '{clusterid: c-#, podid: z#/pod, zoneid: z#, hypervisor: KVM, url: "http://10.0.1.1/x-#",'
            " allocationstate: Disabled, hosttags: [new]}"
        ),
    ),
    "dedicatedzones": ("{zoneid: z#, domainid: ROOT/customers/x#}", None),
    "dedicatedpods": (f"{{podid: z#/pod, {OWNED}}}", None),
    "dedicatedclusters": (f"{{clusterid: c-#, {OWNED}}}", None),
    "dedicatedhosts": ("{hostid: h-#, domainid: ROOT/customers/x#}", None),
    "ingressrules": (
        f"{{{RULES}, cidrlist: [10.0.0.0/8]}}",
        f"{{{RULES}, cidrlist: [10.0.0.0/8, 10.1.0.0/16], usersecuritygrouplist: [{{account: a#, group: web-#}}]}}",
    ),
    "egressrules": (
        f"{{{RULES}, usersecuritygrouplist: [{{account: a#, group: web-#}}]}}",
        f"{{{RULES}, cidrlist: [10.1.0.0/16]}}",
    ),
    "networks": (
        f"{{name: n-#, zoneid: z#, networkofferingid: {ISOLATED}, {OWNED}}}",
        f"{{name: n-#, zoneid: z#, networkofferingid: {ISOLATED}, {OWNED}, displaytext: new, dns1: 10.0.0.7}}",
    ),
    "vlanipranges": ("{zoneid: z#, networkid: z#/shared, startip: 10.1.0.30, endip: 10.1.0.40}", None),
}
"""An entry of each section as it is made, and as it is changed: None where nothing can be changed."""

NO_JOBS = cast("JobQueue", None)
"""Nothing that is deleted here has VMs."""

Delete: TypeAlias = Callable[[Connection, Caller, Sequence[EntityRef]], object]

DELETIONS: Mapping[str, tuple[Entity, Delete]] = {
    "domains": (Entity.DOMAIN, lambda c, by, refs: delete_domains(c, NO_JOBS, by, refs, cleanup=False)),
    "roles": (Entity.ROLE, lambda c, by, refs: delete_roles(c, by, every_api(), refs)),
    "zones": (Entity.ZONE, delete_zones),
    "accounts": (Entity.ACCOUNT, lambda c, by, refs: delete_accounts(c, NO_JOBS, by, every_api(), refs)),
    "diskofferings": (Entity.DISK_OFFERING, lambda c, by, refs: delete_offerings(c, by, DISK_OFFERING, refs)),
    "serviceofferings": (
        Entity.SERVICE_OFFERING,
        lambda c, by, refs: delete_offerings(c, by, SERVICE_OFFERING, refs),
    ),
    "physicalnetworks": (Entity.PHYSICAL_NETWORK, physical_networks.delete_networks),
    "pods": (Entity.POD, delete_pods),
    "users": (Entity.USER, lambda c, by, refs: delete_users(c, by, every_api(), refs)),
    "templates": (Entity.TEMPLATE, lambda c, by, refs: delete_templates(c, by, TEMPLATE, refs)),
    "isos": (Entity.ISO, lambda c, by, refs: delete_templates(c, by, ISO, refs)),
    "securitygroups": (Entity.SECURITY_GROUP, delete_security_groups),
    "affinitygroups": (Entity.AFFINITY_GROUP, delete_affinity_groups),
    "sshkeypairs": (Entity.SSH_KEY_PAIR, delete_ssh_key_pairs),
    "userdata": (Entity.USER_DATA, delete_user_data),
    "networkofferings": (Entity.NETWORK_OFFERING, network_offerings.delete_offerings),
    "clusters": (Entity.CLUSTER, delete_clusters),
    "storagepools": (Entity.STORAGE_POOL, lambda c, by, refs: delete_pools(c, by, refs, forced=True)),
    "hosts": (Entity.HOST, lambda c, by, refs: delete_hosts(c, by, refs, forced=True)),
    "dedicatedzones": (Entity.ZONE, release_places),
    "dedicatedpods": (Entity.POD, release_places),
    "dedicatedclusters": (Entity.CLUSTER, release_places),
    "dedicatedhosts": (Entity.HOST, release_places),
    "ingressrules": (Entity.SECURITY_GROUP_RULE, lambda c, by, refs: revoke(c, by, Direction.INGRESS, refs)),
    "egressrules": (Entity.SECURITY_GROUP_RULE, lambda c, by, refs: revoke(c, by, Direction.EGRESS, refs)),
    "networks": (Entity.NETWORK, delete_networks),
    "vlanipranges": (Entity.VLAN_IP_RANGE, delete_ranges),
}
"""What each section's entries are, and what deletes them; settings and limits are set, never deleted."""

NESTED = ("configuration", "limits")
"""Sections that are mappings, told here for accounts."""


def ground(number: int) -> str:
    """Zones, domains and accounts for this many entries."""
    return GROUND.format(
        domains=", ".join(f"{{name: x{i}}}" for i in range(number)),
        accounts=", ".join(
            f"{{account: a{i}, roleid: User, securitygroups: [{{name: web-{i}}}]}}" for i in range(number)
        ),
        zones="".join(_numbered(ZONE, i) for i in range(number)),
    )


def _numbered(text: str, number: int) -> str:
    return text.replace("#", str(number))


def file_of(section: str, entry: str, numbers: range) -> str:
    """A file with these entries of a section."""
    entries = [_numbered(entry, i) for i in numbers]
    if section not in NESTED:
        return f"{section}:\n" + "".join(f"  - {one}\n" for one in entries)
    accounts = (
        f"      - {{account: a{i}, roleid: User, {section}: {one}}}\n"
        for i, one in zip(numbers, entries, strict=True)
    )
    return "domains:\n  - name: customers\n    accounts:\n" + "".join(accounts)


@pytest.fixture(scope="module")
def template_database(
    postgres_url: str, bare_database: str, cipher: FernetCipher, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A database with what all entries stand in."""
    with database_clone(postgres_url, bare_database) as url:
        engine = create_engine(url, pool_size=1)
        try:
            load(engine, cipher, tmp_path_factory.mktemp("ground"), ground(FEW + MANY))
        finally:
            engine.dispose()
        yield str(make_url(url).database)


@pytest.mark.long
@pytest.mark.parametrize("section", find_nouns())
def test_many_entries_take_the_statements_of_few(
    section: str, engine: Engine, cipher: FernetCipher, tmp_path: Path
) -> None:
    """Entries of a section are created, changed and deleted by as many statements however many they are."""
    statements = Statements(engine)
    there = things(section, engine)
    for entry in ENTRIES[section]:
        if entry is not None:
            load(engine, cipher, tmp_path, file_of(section, entry, range(FEW)))
            few = statements.seen.copy()
            statements.clear()
            load(engine, cipher, tmp_path, file_of(section, entry, range(FEW, FEW + MANY)))
            assert not statements.more_than(few)
            statements.clear()
    if section not in NESTED:
        made = [one for one in things(section, engine) if one not in there or section.startswith("dedicated")]
        statements.clear()
        delete(section, engine, made[:FEW])
        few = statements.seen.copy()
        statements.clear()
        delete(section, engine, made[FEW:])
        assert len(made) >= FEW + MANY
        assert not statements.more_than(few)
        assert section.startswith("dedicated") or things(section, engine) == there


def things(section: str, engine: Engine) -> list[EntityRef]:
    """What there is of what a section's entries are, or are about."""
    if section in NESTED:
        return []
    entity, _ = DELETIONS[section]
    with engine.begin() as connection:
        rows = reader(entity, {"_name": SOURCES[entity].table.c[SOURCES[entity].name]})(connection)
    return [EntityRef(entity, row["_id"], row["_uuid"], str(row["_name"])) for row in rows]


def delete(section: str, engine: Engine, refs: Sequence[EntityRef]) -> None:
    """Delete these, as a call does."""
    _, work = DELETIONS[section]
    run_transaction(engine, lambda connection: work(connection, default_admin(connection), refs))
