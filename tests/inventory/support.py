"""What inventory tests share: short files, refusals as text, the whole database as a value."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.commands.registry import find_nouns
from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.manage.zone_files.loading import read_entries
from bulkdeploy.store.tables.catalog import metadata

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "tests" / "zones" / "small.yaml"
DEMO = ROOT / "config" / "zones" / "demo.yaml"

TINY = """\
domains:
  - name: web
    accounts:
      - {account: ann, roleid: User, users: [{username: ann}],
         affinitygroups: [{name: apart, type: host anti-affinity}]}
serviceofferings:
  - {name: Small, displaytext: Small, cpunumber: 1, cpuspeed: 500, memory: 512 MiB}
zones:
  - name: tiny
    networktype: Advanced
    allocationstate: Enabled
    dns1: 10.0.0.2
    internaldns1: 10.0.0.3
    templates: [{name: Debian, hypervisor: KVM, format: QCOW2, size: 2 GiB, ispublic: true}]
    networks:
      - {name: net, networkofferingid: DefaultSharedNetworkOffering, isdefault: true, vlan: "100",
         gateway: 10.1.0.1, netmask: 255.255.255.0, startip: 10.1.0.10, endip: 10.1.0.20}
    pods:
      - name: pod
        clusters:
          - clustername: cluster
            clustertype: CloudManaged
            hypervisor: KVM
            hosts: [{hypervisor: KVM, url: "http://10.0.0.{11..12}/host-{1..2}?cpu_cores=4&memory_mib=8192"}]
            storagepools: [{name: primary, url: "nfs://10.0.0.9/primary", capacitybytes: 100 GiB}]
"""
"""The smallest zone that VMs can be deployed in."""


def changed(old: str, new: str, file: str = TINY) -> str:
    """A file with one passage replaced, which must be there once."""
    assert file.count(old) == 1, f"{old!r} is there {file.count(old)} times"
    return file.replace(old, new)


def refusals(file: str | bytes) -> tuple[str, ...]:
    """Why the file is refused."""
    with pytest.raises(InvalidInventory) as refused:
        read_entries(find_nouns(), "f.yaml", file if isinstance(file, bytes) else file.encode())
    return refused.value.problems


def write(directory: Path, file: str, name: str = "zone.yaml") -> Path:
    """A file of this text."""
    path = directory / name
    path.write_text(file, encoding="utf-8")
    return path


def all_rows(engine: Engine) -> dict[str, list[str]]:
    """Every row of every table as text, in an order of its own."""
    with engine.connect() as connection:
        return {
            name: sorted(connection.execute(text(f'SELECT t::text FROM "{name}" t')).scalars())
            for name in metadata.tables
        }


def rows(engine: Engine, query: str, **parameters: object) -> list[Any]:
    """The rows of one query, as tuples."""
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query), parameters)]


def value(engine: Engine, query: str, **parameters: object) -> Any:
    """The one value of a query."""
    ((found,),) = rows(engine, query, **parameters)
    return found
