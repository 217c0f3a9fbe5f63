"""What inventory tests share: short files, refusals as text, the whole database as a value."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.services.inventory.inventory_file import parse_inventory
from bulkdeploy.store.tables.catalog import metadata

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "tests" / "zones" / "small.yaml"
DEMO = ROOT / "config" / "zones" / "demo.yaml"
BASIC = ROOT / "config" / "zones" / "basic.yaml"

TINY = """\
version: 1
zone: {name: tiny}
domains:
  - {path: ROOT/web}
accounts:
  - name: ann
    domain: ROOT/web
    users: [{username: ann}]
    affinity_groups: [{name: apart, type: host anti-affinity}]
service_offerings:
  - {name: Small, cpu_number: 1, cpu_mhz: 500, memory: 512 MiB}
  - {name: Custom}
templates:
  - {name: Debian, hypervisor: KVM, size: 2 GiB}
networks:
  - {name: net, default: true, cidr: 10.1.0.0/24, gateway: 10.1.0.1, ranges: [{start: 10.1.0.10, end: 10.1.0.20}]}
pods:
  - name: pod
    clusters:
      - name: cluster
        hypervisor: KVM
        hosts: [{names: "host-{1..2}", first_ip: 10.0.0.11, cpu_cores: 4, cpu_mhz: 2000, memory: 8 GiB}]
        storage_pools: [{name: primary, capacity: 100 GiB}]
        load: [{name: web, account: ann, offering: Small, template: Debian, count: 3}]
"""
"""The smallest zone with everything that a running VM needs."""


def changed(old: str, new: str, file: str = TINY) -> str:
    """A file with one passage replaced, which must be there once."""
    assert file.count(old) == 1, f"{old!r} is there {file.count(old)} times"
    return file.replace(old, new)


def refusals(file: str | bytes) -> tuple[str, ...]:
    """Why the file is refused."""
    with pytest.raises(InvalidInventory) as refused:
        parse_inventory("f.yaml", file if isinstance(file, bytes) else file.encode())
    return refused.value.problems


def assert_refused(old: str, new: str, problem: str) -> None:
    """TINY with ``new`` in place of ``old`` is refused by ``problem``; a few more may follow from it."""
    found = refusals(changed(old, new))
    assert [one for one in found if one.startswith(f"f.yaml:{problem}")], found
    assert len(found) <= 3


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
