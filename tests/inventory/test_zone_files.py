"""Zone files: entries of commands' parameters, loaded whole or not at all, and written out again."""

import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.manage.zone_files.exporting import export_zone
from bulkdeploy.manage.zone_files.loading import LoadReport
from bulkdeploy.wiring.cipher import FernetCipher
from tests.inventory.support import all_rows
from tests.support.zones.zone_files import load_zone

PLACES = """\
domains:
  - name: customers
    domains: [{name: acme, networkdomain: acme.example}]
  - {name: below, parentdomainid: ROOT/customers/acme}
zones:
  - name: small
    networktype: Advanced
    allocationstate: Enabled
    dns1: 10.0.0.2
    internaldns1: 10.0.0.3
    localstorageenabled: true
    sortkey: 3
    storagepools:
      - {name: wide, url: "nfs://10.0.0.50/zone", hypervisor: KVM, capacitybytes: 10 TiB, tags: [zone, x]}
    pods:
      - name: pod-a
        gateway: 10.0.1.1
        netmask: 255.255.255.0
        clusters:
          - clustername: a-1
            clustertype: CloudManaged
            hypervisor: KVM
            hosts:
              - {hypervisor: KVM, url: "http://10.0.1.{11..13}/a-{1..3}?cpu_cores=16", hosttags: [fast]}
            storagepools:
              - {name: a-1-primary, url: "nfs://10.0.1.201/export/a-1", capacitybytes: 5 TiB}
            configuration:
              cpu.overprovisioning.factor: "2.5"
              cluster.memory.allocated.capacity.disablethreshold: "0.7"
configuration: {vm.allocation.algorithm: firstfit}
"""


def load(engine: Engine, cipher: FernetCipher, folder: Path, file: str) -> LoadReport:
    """Load a file of this text."""
    path = folder / "zone.yaml"
    path.write_text(file)
    return load_zone(engine, cipher, path)


def refusals(engine: Engine, cipher: FernetCipher, folder: Path, file: str) -> tuple[str, ...]:
    """Why a file is refused; nothing was written."""
    before = all_rows(engine)
    with pytest.raises(InvalidInventory) as refused:
        load(engine, cipher, folder, file)
    assert all_rows(engine) == before
    return refused.value.problems


def test_a_closed_standard_input_is_refused(
    engine: Engine, cipher: FernetCipher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file that cannot be read."""
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it then
    with pytest.raises(InvalidInventory) as refused:
        load_zone(engine, cipher, Path("-"))
    assert refused.value.problems == ("standard input: the file cannot be read: it is closed",)


def test_a_file_is_loaded_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """What it describes is created, with the patterns it has; a second load finds it all there."""
    report = load(engine, cipher, tmp_path, PLACES)
    assert report.created == {
        "domains": 3, "zones": 1, "pods": 1, "clusters": 1, "hosts": 3, "storagepools": 2, "configuration": 2,
    }  # fmt: skip
    before = all_rows(engine)
    assert load(engine, cipher, tmp_path, PLACES) == LoadReport()
    assert all_rows(engine) == before
    with engine.connect() as connection:
        hosts = connection.execute(text("SELECT name, ip_address, cpu_cores, tags FROM hosts ORDER BY id")).all()
        pools = set(connection.execute(text("SELECT name, host_id IS NOT NULL FROM storage_pools")).all())
    assert hosts == [(f"a-{n}", f"10.0.1.1{n}", 16, ["fast"]) for n in (1, 2, 3)]
    assert pools == {("wide", False), ("a-1-primary", False), *((f"a-{n}-local", True) for n in (1, 2, 3))}


def test_an_export_loads_back(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Loading what was written out changes nothing."""
    load(engine, cipher, tmp_path, PLACES)
    assert load(engine, cipher, tmp_path, export_zone(engine)) == LoadReport()


def test_changes_are_taken_over(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """What an entry says otherwise is what holds from then on."""
    load(engine, cipher, tmp_path, PLACES)
    changed = PLACES.replace("[fast]", "[slow, gpu]").replace("sortkey: 3", "sortkey: 4").replace("5 TiB", "6 TiB")
    report = load(engine, cipher, tmp_path, changed)
    assert (report.created, report.changed) == ({}, {"zones": 1, "hosts": 3, "storagepools": 1})
    assert load(engine, cipher, tmp_path, changed) == LoadReport()


def test_all_mistakes_are_reported_at_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Each with line, key and rule."""
    bad = (
        PLACES.replace("gateway: 10.0.1.1", "gateway: 10.0.1.x")
        .replace("name: a-1-primary, url", "name: a-1-primary, urll")
        .replace("name: acme", "name: ac/me")
        .replace("localstorageenabled: true", "localstorageenabled: maybe")
    )
    found = refusals(engine, cipher, tmp_path, bad)
    assert [problem.split(" must")[0].split(" is ")[0] for problem in found] == [
        "zone.yaml:3: domains[0].domains[0].name:",
        "zone.yaml:11: zones[0].localstorageenabled:",
        "zone.yaml:17: zones[0].pods[0].gateway:",
        "zone.yaml:26: zones[0].pods[0].clusters[0].storagepools[0]: key 'url'",
        "zone.yaml:26: zones[0].pods[0].clusters[0].storagepools[0].urll:",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "parentdomainid: ROOT/customers/acme",
            "parentdomainid: ROOT/nobody",
            "4: domains[1].parentdomainid: must",
        ),
        (
            "10.0.1.1\n",
            "10.0.2.1\n        startip: 10.9.9.9\n",
            "18: zones[0].pods[0].startip: it must be an address",
        ),
        (
            "a-{1..3}",
            "a-{1..4}",
            (
                "24: zones[0].pods[0].clusters[0].hosts[0].url: "
                "must have patterns that expand to the same number of texts"
            ),
        ),
        ("cpu_cores=16", "cpu_cores=0", "24: zones[0].pods[0].clusters[0].hosts[0].url: cpu_cores"),
        ("nfs://10.0.1.201/export/a-1", "nfs://10.0.0.50/zone", "26: zones[0].pods[0].clusters[0].storagepools[0]"),
    ],
)
def test_what_the_database_knows_is_checked(
    engine: Engine, cipher: FernetCipher, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    """Names that nothing has, addresses and storage that do not fit: told by line, and nothing is written."""
    assert PLACES.count(old) == 1
    found = refusals(engine, cipher, tmp_path, PLACES.replace(old, new))
    assert [one for one in found if one.startswith(f"zone.yaml:{problem}")], found


def test_what_cannot_be_changed_is_refused(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """A zone keeps its network type, a host its hardware's url."""
    load(engine, cipher, tmp_path, PLACES)
    found = refusals(engine, cipher, tmp_path, PLACES.replace("networktype: Advanced", "networktype: Basic"))
    assert found == ("zone.yaml:7: zones[0].networktype: is 'Advanced' and cannot be changed",)
