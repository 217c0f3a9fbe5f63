"""docs/inventory.md: what it says of keys is what the reader takes."""

import re

import pytest

from tests.inventory.support import ROOT, changed, refusals

PAGE = (ROOT / "docs" / "inventory.md").read_text(encoding="utf-8")
ODD = "zzzzzzzzzz: 1"

PLACES = {
    "an inventory": ("version: 1\n", f"version: 1\n{ODD}\n"),
    "a zone": ("{name: tiny}", f"{{name: tiny, {ODD}}}"),
    "a physical network": ("{name: tiny}", f"{{name: tiny, physical_networks: [{{name: a, {ODD}}}]}}"),
    "a domain": ("{path: ROOT/web}", f"{{path: ROOT/web, {ODD}}}"),
    "limits": ("{path: ROOT/web}", f"{{path: ROOT/web, limits: {{{ODD}}}}}"),
    "an account": ("    domain: ROOT/web\n", f"    domain: ROOT/web\n    {ODD}\n"),
    "a user": ("{username: ann}", f"{{username: ann, {ODD}}}"),
    "an SSH key pair": ("{username: ann}]", f"{{username: ann}}]\n    ssh_key_pairs: [{{{ODD}}}]"),
    "a security group": ("{username: ann}]", f"{{username: ann}}]\n    security_groups: [{{{ODD}}}]"),
    "a security group rule": (
        "{username: ann}]",
        f"{{username: ann}}]\n    security_groups: [{{name: a, rules: [{{{ODD}}}]}}]",
    ),
    "an affinity group": ("type: host anti-affinity}", f"type: host anti-affinity, {ODD}}}"),
    "a service offering": ("{name: Custom}", f"{{name: Custom, {ODD}}}"),
    "a disk offering": ("templates:\n", f"disk_offerings: [{{{ODD}}}]\ntemplates:\n"),
    "a template": ("size: 2 GiB}", f"size: 2 GiB, {ODD}}}"),
    "a network": ("{name: net,", f"{{{ODD}, name: net,"),
    "an address range": ("{start: 10.1.0.10,", f"{{{ODD}, start: 10.1.0.10,"),
    "a pod": ("  - name: pod\n", f"  - name: pod\n    {ODD}\n"),
    "a cluster": ("hypervisor: KVM\n", f"hypervisor: KVM\n        {ODD}\n"),
    "a group of hosts": ("first_ip:", f"{ODD}, first_ip:"),
    "a host size": ("pods:\n", f"host_sizes: [{{{ODD}}}]\npods:\n"),
    "a pool": ("pods:\n", f"storage_pools: [{{{ODD}}}]\npods:\n"),
    "a local storage pool": ("first_ip:", f"local_storage: [{{{ODD}}}], first_ip:"),
    "a load": ("count: 3}", f"count: 3, {ODD}}}"),
}


def section(noun: str) -> str:
    """What the page says under a heading."""
    found = re.search(rf"^### {re.escape(noun)}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the page has no section {noun!r}"
    return found.group(1)


@pytest.mark.parametrize("noun", PLACES)
def test_every_key_is_documented(noun: str) -> None:
    """The keys that the reader knows in a place stand in the section about it."""
    known = next(
        re.search(r"has no such key; known are (.*)$", one)
        for one in refusals(changed(*PLACES[noun]))
        if "zz" in one
    )
    assert known is not None
    words = set(re.findall(r"[a-z_0-9]+", section(noun)))
    assert [key for key in known.group(1).split(", ") if key not in words] == []


@pytest.mark.parametrize("noun", PLACES)
def test_every_required_key_is_marked(noun: str) -> None:
    """A key that the reader misses where it is not given is bold on the page."""
    marked = set(re.findall(r"\*\*([a-z_0-9]+)\*\*", section(noun)))
    old, new = PLACES[noun]
    missed = {
        key
        for one in refusals(changed(old, new))
        for key in re.findall(rf"key '([a-z_0-9]+)' is missing: {noun} must have one", one)
    }
    assert missed <= marked
