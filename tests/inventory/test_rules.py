"""Rules that hold everywhere in a file: keys, kinds of values, names; and how refusals are told."""

import pytest

from bulkdeploy.services.inventory.inventory_file import parse_inventory
from tests.inventory.support import BASIC, DEMO, SMALL, TINY, assert_refused, changed, refusals

HOSTS = '{names: "host-{1..2}", first_ip: 10.0.0.11, cpu_cores: 4, cpu_mhz: 2000, memory: 8 GiB}'
LOAD = "{name: web, account: ann, offering: Small, template: Debian, count: 3}"
TEMPLATE = "{name: Debian, hypervisor: KVM, size: 2 GiB}"
RANGES = "ranges: [{start: 10.1.0.10, end: 10.1.0.20}]"
USERS = "users: [{username: ann}]"

BROKEN = [
    # what is known at all
    ("version: 1\n", "version: 2\n", "1: version: must be a whole number from 1 to 1, not '2'"),
    ("version: 1\n", "", "1: key 'version' is missing: an inventory must have one"),
    ("zone: {name: tiny}", "zones: {name: tiny}", "2: zones: an inventory has no such key; did you mean 'zone'?"),
    (
        "hypervisor: KVM\n",
        "hypervisor: KVM\n        cpu_overcomit: 2\n",
        "22: pods[0].clusters[0].cpu_overcomit: a cluster has no such key; did you mean 'cpu_overcommit'?",
    ),
    ("zone: {name: tiny}", "zone:", "2: zone: must be a mapping with the keys of a zone"),
    ("{name: tiny}", "{name: ~}", "2: zone.name: is empty: give a value or leave the key out"),
    ("{name: tiny}", "{name: [a]}", "2: zone.name: must be a name: 1 to 255 characters in one line"),
    ("{name: tiny}", "{name: ' tiny'}", "2: zone.name: must be a name: 1 to 255 characters in one line"),
    ("{name: tiny}", "{description: x}", "2: zone: key 'name' is missing: a zone must have one"),
    # kinds of values
    ("{name: tiny}", "{name: tiny, local_storage: yes}", "2: zone.local_storage: must be true or false, not 'yes'"),
    (
        "{name: tiny}",
        "{name: tiny, network_type: Flat}",
        "2: zone.network_type: must be one of Basic, Advanced, not 'Flat'",
    ),
    ("{name: tiny}", "{name: tiny, dns1: 8.8.8}", "2: zone.dns1: must be an IPv4 address, not '8.8.8'"),
    (
        "{name: tiny}",
        "{name: tiny, guest_cidr: 10.1.1.1/24}",
        "2: zone.guest_cidr: must be an IPv4 network such as 10.1.0.0/16, not '10.1.1.1/24'",
    ),
    (
        "cpu_cores: 4",
        "cpu_cores: 1e3",
        "22: pods[0].clusters[0].hosts[0].cpu_cores: must be a whole number from 1 to 4096, not '1e3'",
    ),
    ("cpu_cores: 4", "cpu_cores: 0", "22: pods[0].clusters[0].hosts[0].cpu_cores: must be a whole number from 1"),
    ("cpu_cores: 4", "cpu_cores: ٤", "22: pods[0].clusters[0].hosts[0].cpu_cores: must be a whole number"),
    (
        "cpu_cores: 4",
        f"cpu_cores: {'9' * 5000}",
        "22: pods[0].clusters[0].hosts[0].cpu_cores: must be a whole number from 1 to 4096, not '999",
    ),
    (
        "memory: 8 GiB",
        "memory: 8 GB",
        "22: pods[0].clusters[0].hosts[0].memory: must be a size from 1 MiB to 64 TiB, such as 512 GiB, not '8 GB'",
    ),
    ("memory: 8 GiB", "memory: 8192", "22: pods[0].clusters[0].hosts[0].memory: must be a size from"),
    ("memory: 8 GiB", "memory: 0.0001 GiB", "22: pods[0].clusters[0].hosts[0].memory: must be a size from"),
    (
        "hypervisor: KVM\n",
        "hypervisor: KVM\n        cpu_overcommit: 0.5\n",
        "22: pods[0].clusters[0].cpu_overcommit: must be a number from 1 to 100 with at most 3 decimals, not '0.5'",
    ),
    (
        "hypervisor: KVM\n",
        "hypervisor: KVM\n        memory_overcommit: 1.23456\n",
        "22: pods[0].clusters[0].memory_overcommit: must be a number from 1 to 100",
    ),
    (
        "hypervisor: KVM\n",
        "hypervisor: Qemu\n",
        "21: pods[0].clusters[0].hypervisor: must be one of XenServer, KVM",
    ),
    # names that stand for something
    (
        "account: ann",
        "account: bob",
        "24: pods[0].clusters[0].load[0].account: must be the name of an account (name",
    ),
    (
        "offering: Small",
        "offering: Smal",
        "24: pods[0].clusters[0].load[0].offering: must be the name of a service offering in this file: did",
    ),
    (
        "template: Debian",
        "template: Suse",
        "24: pods[0].clusters[0].load[0].template: must be the name of one template",
    ),
    ("domain: ROOT/web", "domain: ROOT/wb", "7: accounts[0].domain: must be the name of a domain in this file"),
    ("path: ROOT/web", "path: web", "4: domains[0].path: must be the path of a domain: ROOT, or ROOT/name/name"),
    ("path: ROOT/web", "path: ROOT/a/b", "4: domains[0]: its parent 'ROOT/a' is not described in this file"),
    (
        f"[{HOSTS}]",
        f"[{HOSTS[:-1]}, size: big}}]",
        "22: pods[0].clusters[0].hosts[0].size: must be the name of a host",
    ),
    (
        f"{LOAD[:-1]}}}",
        f"{LOAD[:-1]}, hosts: host-9}}",
        "24: pods[0].clusters[0].load[0].hosts: the cluster has no host 'host-9'",
    ),
    (
        LOAD,
        f"{LOAD[:-1]}, affinity_groups: [near]}}",
        "24: pods[0].clusters[0].load[0].affinity_groups: account 'ann' has no such group in this file: 'near'",
    ),
    (
        LOAD,
        f"{LOAD[:-1]}, network: dmz}}",
        "24: pods[0].clusters[0].load[0].network: must be the name of a network",
    ),
    (
        RANGES,
        f"{RANGES[:-2]}, pod: attic}}]",
        "16: networks[0].ranges[0]: pod 'attic' is not described in this file",
    ),
    (
        "{name: tiny}",
        "{name: tiny, dedicated_to: ROOT/none}",
        "2: zone.dedicated_to: must be the name of a domain (its path) or an account in this file",
    ),
    # names given twice
    (
        "  - {path: ROOT/web}\n",
        "  - {path: ROOT/web}\n  - {path: ROOT/WEB}\n",
        "5: domains[1]: domain 'ROOT/WEB' is described twice: the first one is in line 4",
    ),
    (
        "  - {name: Custom}\n",
        "  - {name: Custom}\n  - {name: custom}\n",
        "13: service_offerings[2]: service offering 'custom' is described twice: the first one is in line 12",
    ),
    (
        f"  - {TEMPLATE}",
        f"  - {TEMPLATE}\n  - {TEMPLATE}",
        "15: templates[1]: template 'Debian@admin@ROOT' is described",
    ),
    (f"[{HOSTS}]", f"[{HOSTS}, {HOSTS}]", "22: pods[0].clusters[0].hosts[1]: host 'host-1' is described twice"),
    (f"[{LOAD}]", f"[{LOAD}, {LOAD}]", "24: pods[0].clusters[0].load[1]: load 'web' is described twice"),
    (
        USERS,
        "users: [{username: ann}, {username: Ann}]",
        "8: accounts[0].users[1]: user 'Ann@ROOT/web' is described twice",
    ),
    (
        "[{name: primary, capacity: 100 GiB}]",
        "[{name: primary, capacity: 100 GiB}, {name: Primary, capacity: 1 TiB}]",
        "23: pods[0].clusters[0].storage_pools[1]: pool 'Primary' is described twice",
    ),
    (
        f"[{HOSTS}]",
        f"[{HOSTS}, {HOSTS.replace('host-{1..2}', 'other')}]",
        "22: pods[0].clusters[0].hosts[1]: host other has address 10.0.0.11, which is host-1's",
    ),
]


@pytest.mark.parametrize(("old", "new", "problem"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_rule_of_values_and_names_is_told_with_line_key_and_rule(old: str, new: str, problem: str) -> None:
    """A mistake is told with file, line, key and rule."""
    assert_refused(old, new, problem)


def test_a_basic_zone_has_one_network() -> None:
    """A second guest network in a Basic zone is refused."""
    basic = changed("{name: tiny}", "{name: tiny, network_type: Basic}")
    assert refusals(changed("pods:\n", "  - {name: other}\npods:\n", basic)) == (
        "f.yaml:17: networks[1]: a Basic zone has one guest network",
    )


def test_all_mistakes_are_told_at_once() -> None:
    """Mistakes in different parts of a file are all in one answer, in the order of lines."""
    broken = changed("cpu_cores: 4", "cpu_cores: four", changed("path: ROOT/web", "path: ROOT/a/b"))
    lines = [int(problem.split(":")[1]) for problem in refusals(changed("count: 3", "count: many", broken))]
    assert lines == sorted(lines)
    assert set(lines) == {4, 7, 22, 24}


def test_secrets_are_not_repeated_in_refusals() -> None:
    """A refused password or key does not appear in the text that goes to terminals and logs."""
    users = "users: [{username: ann, password: '%s', api_key: '%s', secret_key: '%s'}]"
    secret = "s3cret " * 200
    problems = refusals(changed("users: [{username: ann}]", users % (secret, secret, secret)))
    assert len(problems) == 3
    assert "s3cret" not in " ".join(problems)


def test_the_samples_are_read() -> None:
    """The zones that come with the product break no rule."""
    for path in (DEMO, BASIC, SMALL):
        assert parse_inventory(path.name, path.read_bytes()).pods


def test_an_account_of_two_domains_is_named_with_its_domain() -> None:
    """Where two accounts have one name, the name alone is refused and name@domain is taken."""
    twins = changed("    users: [{username: ann}]\n", "    users: [{username: ann}]\n  - name: ann\n", TINY)
    twins = changed(
        "  - name: ann\n    affinity", "  - name: ann\n    users: [{username: ann}]\n    affinity", twins
    )
    assert "must be the name of an account" in refusals(twins)[0]
    named = parse_inventory("f.yaml", changed("account: ann", "account: ann@ROOT/web", twins).encode())
    assert str(named.pods[0].clusters[0].loads[0].account) == "ann@ROOT/web"
