"""Whatever a zone file says many of is written as one: statements for many entries are those for few."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url

from bulkdeploy.commands.registry import find_nouns
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from tests.inventory.test_zone_files import load
from tests.support.services import database_clone
from tests.support.statements import Statements

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
    pods:
      - {name: pod, clusters: [{clustername: c-#, clustertype: CloudManaged, hypervisor: KVM}]}
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDAs3LyV9oXbyyHP2K9cJ6k/+/WbwtxbYbEIsrgoCwkc"
IMAGE = "zoneid: z#, size: 1 GiB"
OWNED = "account: a#, domainid: ROOT/customers"

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
}
"""An entry of each section as it is made, and as it is changed: None where nothing can be changed."""

ONE_BY_ONE = {
    **dict.fromkeys(
        ("dedicatedzones", "dedicatedpods", "dedicatedclusters", "dedicatedhosts"),
        "whether a place may be dedicated depends on those that were dedicated before it",
    ),
    **dict.fromkeys(("ingressrules", "egressrules"), "rules of a group are compared with those it has by then"),
    **dict.fromkeys(("networks", "vlanipranges"), "VLANs and addresses are those that the ones before left"),
}
"""Sections whose entries are written one after the other, and why; operators have few of them."""

NESTED = ("configuration", "limits")
"""Sections that are mappings, told here for accounts."""


def ground(number: int) -> str:
    """Zones, domains and accounts for this many entries."""
    return GROUND.format(
        domains=", ".join(f"{{name: x{i}}}" for i in range(number)),
        accounts=", ".join(f"{{account: a{i}, roleid: User}}" for i in range(number)),
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


@pytest.mark.parametrize("section", [name for name in find_nouns() if name not in ONE_BY_ONE])
def test_many_entries_take_the_statements_of_few(
    section: str, engine: Engine, cipher: FernetCipher, tmp_path: Path
) -> None:
    """Entries of a section are created, and changed, by as many statements however many they are."""
    statements = Statements(engine)
    for entry in ENTRIES[section]:
        if entry is not None:
            load(engine, cipher, tmp_path, file_of(section, entry, range(FEW)))
            few = statements.seen.copy()
            statements.clear()
            load(engine, cipher, tmp_path, file_of(section, entry, range(FEW, FEW + MANY)))
            assert not statements.more_than(few)
            statements.clear()
