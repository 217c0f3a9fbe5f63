"""Rules of pods, clusters, hosts, pools, running VMs and settings."""

import pytest

from tests.inventory.support import assert_refused

LOAD = "{name: web, account: ann, offering: Small, template: Debian, count: 3}"
TEMPLATE = "{name: Debian, hypervisor: KVM, size: 2 GiB}"
USERS = "users: [{username: ann}]"

BROKEN = [
    # places
    (
        "  - name: pod\n",
        "  - name: pod\n    gateway: 10.9.0.1\n    netmask: 255.255.255.0\n",
        "24: pods[0].clusters[0].hosts[0]: host host-1 has address 10.0.0.11, not one of the pod's",
    ),
    (
        "  - name: pod\n",
        "  - name: pod\n    gateway: 10.9.0.1\n",
        "18: pods[0].netmask: must be given together with",
    ),
    (
        "  - name: pod\n",
        "  - name: pod\n    gateway: 10.9.0.1\n    netmask: 255.0.255.0\n",
        "20: pods[0].netmask: must be a netmask such as 255.255.0.0, not '255.0.255.0'",
    ),
    (
        '"host-{1..2}"',
        '"host-{2..1}"',
        "22: pods[0].clusters[0].hosts[0].names: must be a host name, or a pattern of at most 10000",
    ),
    (
        '"host-{1..2}"',
        '"host-{1..20000}"',
        "22: pods[0].clusters[0].hosts[0].names: must be a host name, or a pattern",
    ),
    ('"host-{1..2}"', '"-host"', "22: pods[0].clusters[0].hosts[0].names: must be a host name, or a pattern"),
    (
        "first_ip: 10.0.0.11",
        "first_ip: 255.255.255.255",
        "22: pods[0].clusters[0].hosts[0].first_ip: there are no 2 addresses from here on",
    ),
    (
        "{name: primary, capacity: 100 GiB}",
        "{name: primary, capacity: 100 GiB, hypervisor: KVM}",
        "23: pods[0].clusters[0].storage_pools[0].hypervisor: is for pools of the zone",
    ),
    # loads
    (LOAD, LOAD.replace("web", "9web"), "24: pods[0].clusters[0].load[0].name: must be a host name: a letter"),
    (
        LOAD,
        LOAD.replace("count: 3", "count: 0"),
        "24: pods[0].clusters[0].load[0].count: must be a whole number from 1",
    ),
    (
        LOAD,
        f"{LOAD[:-1]}, cpu_number: 2}}",
        "24: pods[0].clusters[0].load[0].cpu_number: cores, speed and memory are those of offering 'Small'",
    ),
    (
        "offering: Small",
        "offering: Custom",
        "24: pods[0].clusters[0].load[0].cpu_number: offering 'Custom' is custom: give cpu_number and memory",
    ),
    (
        "offering: Small",
        "offering: Custom, cpu_number: 1, memory: 1 GiB",
        "24: pods[0].clusters[0].load[0].cpu_mhz: give the speed of a core exactly where",
    ),
    (
        "hypervisor: KVM\n",
        "hypervisor: XenServer\n",
        "24: pods[0].clusters[0].load[0].template: is a template for KVM, the cluster's is XenServer",
    ),
    (
        TEMPLATE,
        f"{TEMPLATE[:-1]}, ready: false}}",
        "24: pods[0].clusters[0].load[0].template: template 'Debian' is not",
    ),
    (f"    {USERS}\n", "", "23: pods[0].clusters[0].load[0].account: account 'ann' has no user who could own VMs"),
    # settings
    (
        "version: 1\n",
        "version: 1\nconfiguration: {no.such.setting: 1}\n",
        "2: configuration.no.such.setting: is not a setting that can be given here",
    ),
    (
        "version: 1\n",
        "version: 1\nconfiguration: {start.retry: 0}\n",
        "2: configuration.start.retry: must be a whole number from 1 to 100, not '0'",
    ),
    (
        "version: 1\n",
        "version: 1\nconfiguration: {vm.allocation.algorithm: best}\n",
        "2: configuration.vm.allocation.algorithm: must be one of random, firstfit",
    ),
    (
        "hypervisor: KVM\n",
        "hypervisor: KVM\n        configuration: {start.retry: 3}\n",
        "22: pods[0].clusters[0].configuration.start.retry: is not a setting that can be given here",
    ),
    (
        "hypervisor: KVM\n",
        "hypervisor: KVM\n        configuration: {cpu.overprovisioning.factor: 3}\n",
        "22: pods[0].clusters[0].configuration.cpu.overprovisioning.factor: is given by the",
    ),
]


@pytest.mark.parametrize(("old", "new", "problem"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_rule_of_places_is_told_with_line_key_and_rule(old: str, new: str, problem: str) -> None:
    """A mistake is told with file, line, key and rule."""
    assert_refused(old, new, problem)
