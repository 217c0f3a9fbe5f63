"""Exporting: what a zone is now, as a file that loads back to the same."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.domain.errors import InvalidInventory, InvalidParameter
from bulkdeploy.services.inventory.inventory import load_inventory
from bulkdeploy.services.inventory.inventory_export import ExportUnreadable, export_inventory
from bulkdeploy.services.inventory.inventory_file import parse_inventory
from bulkdeploy.services.system import Cipher
from bulkdeploy.store.database.engine import create_engine
from tests.inventory.support import BASIC, DEMO, SMALL, TINY, all_rows, changed, value, write
from tests.support.services import database_clone


@pytest.mark.parametrize("path", [SMALL, DEMO, BASIC], ids=lambda path: path.stem)
def test_loading_an_export_changes_nothing(engine: Engine, cipher: Cipher, tmp_path: Path, path: Path) -> None:
    """With or without secrets, an export says nothing that is not so already."""
    load_inventory(engine, cipher, path)
    before = all_rows(engine)
    for secrets in (cipher, None):
        export = export_inventory(engine, cipher=secrets)
        assert export.left_out == ()
        report = load_inventory(engine, cipher, write(tmp_path, export.text))
        assert (dict(report.added), dict(report.changed)) == ({}, {})
    assert all_rows(engine) == before


@pytest.mark.parametrize("path", [SMALL, DEMO, BASIC], ids=lambda path: path.stem)
def test_an_export_loads_into_an_empty_database_to_the_same(
    engine: Engine, cipher: Cipher, tmp_path: Path, path: Path, postgres_url: str, template_database: str
) -> None:
    """The export of a database that an export was loaded into is that export, letter by letter."""
    load_inventory(engine, cipher, path)
    export = export_inventory(engine, cipher=cipher)
    with database_clone(postgres_url, template_database) as url:
        other = create_engine(url)
        load_inventory(other, cipher, write(tmp_path, export.text))
        assert export_inventory(other, cipher=cipher).text == export.text
        query = "SELECT count(*), sum(cpu_mhz_used), sum(memory_mib_used) FROM host_capacity"
        with engine.connect() as here, other.connect() as there:
            assert here.execute(text(query)).one() == there.execute(text(query)).one()
        other.dispose()


def test_an_export_says_what_the_file_said(engine: Engine, cipher: Cipher) -> None:
    """Zone, pods, offerings, templates and networks come back as they were described."""
    load_inventory(engine, cipher, DEMO)
    described = parse_inventory("demo.yaml", DEMO.read_bytes())
    exported = parse_inventory("export", export_inventory(engine).text.encode())
    assert exported.zone == described.zone
    assert exported.pods == described.pods
    assert exported.storage_pools == described.storage_pools
    assert exported.service_offerings == described.service_offerings
    assert exported.disk_offerings == described.disk_offerings
    assert exported.templates == described.templates
    assert exported.networks == described.networks
    assert exported.domains == described.domains
    assert exported.configuration == described.configuration


def test_an_export_keeps_secrets_to_itself(engine: Engine, cipher: Cipher) -> None:
    """Without being asked for secrets, no key and no hash of a password is written."""
    load_inventory(engine, cipher, SMALL)
    plain = export_inventory(engine).text
    assert "acme-secret-key" not in plain
    assert "argon2id" not in plain
    assert "acme-api-key" not in plain
    assert "acme-secret-key-0000000000000000000001" in export_inventory(engine, cipher=cipher).text


def test_an_export_follows_what_happened_since(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Changed hosts and destroyed VMs are exported as they are now."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    with engine.begin() as connection:
        connection.execute(text("UPDATE hosts SET resource_state = 'Disabled' WHERE name = 'host-2'"))
        connection.execute(text("UPDATE virtual_machines SET state = 'Destroyed' WHERE name = 'web-1'"))
    cluster = parse_inventory("export", export_inventory(engine).text.encode()).pods[0].clusters[0]
    assert [host.resource_state for host in cluster.hosts] == ["Enabled", "Disabled"]
    assert [(load.name, load.count) for load in cluster.loads] == [("web", 2)]


def test_a_load_with_everything_comes_back(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Hosts, sizes of a custom offering and groups of running VMs are exported as they were described."""
    file = changed(
        "count: 3}",
        "count: 2, hosts: 'host-{1..2}', cpu_number: 2, cpu_mhz: 700, memory: 1 GiB, affinity_groups: [apart]}",
    )
    load_inventory(engine, cipher, write(tmp_path, changed("offering: Small", "offering: Custom", file)))
    described = parse_inventory("f.yaml", changed("offering: Small", "offering: Custom", file).encode())
    exported = parse_inventory("export", export_inventory(engine).text.encode())
    assert exported.pods == described.pods


def test_dedication_comes_back(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Who has a pod or a host alone is exported; the groups that dedication made are the account's."""
    file = changed("  - name: pod\n", "  - name: pod\n    dedicated_to: ann\n")
    file = changed("first_ip: 10.0.0.11", "first_ip: 10.0.0.11, dedicated_to: ROOT/web", file)
    load_inventory(engine, cipher, write(tmp_path, file))
    export = export_inventory(engine)
    assert parse_inventory("export", export.text.encode()).pods == parse_inventory("f.yaml", file.encode()).pods
    before = all_rows(engine)
    load_inventory(engine, cipher, write(tmp_path, export.text))
    assert all_rows(engine) == before


def test_the_zone_must_be_named_where_there_are_two(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """With one zone no name is needed; with none or several, or an unknown one, the names are told."""
    with pytest.raises(InvalidParameter, match="there is none"):
        export_inventory(engine)
    load_inventory(engine, cipher, write(tmp_path, TINY))
    load_inventory(engine, cipher, BASIC)
    with pytest.raises(InvalidParameter, match="tiny, basic"):
        export_inventory(engine)
    with pytest.raises(InvalidParameter, match="tiny, basic"):
        export_inventory(engine, zone_name="nowhere")
    assert "basic-1-nfs" in export_inventory(engine, zone_name="basic").text


def test_what_a_file_cannot_say_is_left_out_and_told(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Of two offerings with one name the older is exported; templates of the system are not described."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO service_offerings (name, display_text, cpu_number) VALUES ('small', 'x', 9)")
        )
        connection.execute(text("UPDATE templates SET account_id = 1"))
    export = export_inventory(engine)
    assert [reason.partition(" (")[0] for reason in export.left_out] == [
        "service offering 'small'",
        "template 'Debian'",
        "load 'web'",
    ]
    assert "cpu_number: 9" not in export.text


def test_an_offering_for_a_domain_that_is_gone_is_not_given_to_everybody(
    engine: Engine, cipher: Cipher, tmp_path: Path
) -> None:
    """An offering whose domains were all removed is left out: without domains it would be public."""
    file = changed("{name: Custom}", "{name: Custom, domains: [ROOT/gone]}")
    load_inventory(
        engine, cipher, write(tmp_path, changed("accounts:\n", "  - {path: ROOT/gone}\naccounts:\n", file))
    )
    with engine.begin() as connection:
        connection.execute(text("UPDATE domains SET removed = now() WHERE name = 'gone'"))
    export = export_inventory(engine)
    assert "name: Custom" not in export.text
    assert [reason.partition(" (")[0] for reason in export.left_out] == ["service offering 'Custom'"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE zones SET name = ' spaced '",
        "UPDATE hosts SET name = 'two words' WHERE name = 'host-1'",
        "UPDATE service_offerings SET display_text = repeat('x', 5000)",
        "UPDATE clusters SET cpu_overcommit = 0.5",
    ],
)
def test_an_export_that_could_not_be_read_is_refused(
    engine: Engine, cipher: Cipher, tmp_path: Path, statement: str
) -> None:
    """What breaks a rule of files is told when it is exported, not when the file is needed."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    with engine.begin() as connection:
        connection.execute(text(statement))
    with pytest.raises((InvalidInventory, ExportUnreadable)):
        export_inventory(engine)


def test_vms_of_calls_are_no_part_of_an_inventory(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Only VMs that an inventory brought are exported."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    with engine.begin() as connection:
        connection.execute(text("UPDATE deployments SET plan = '{}'"))
    assert "load:" not in export_inventory(engine).text
    assert value(engine, "SELECT count(*) FROM virtual_machines") == 3
