"""Ids and what they name, on a real database."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, Engine, event, func, insert, update

from bulkdeploy.domain.accounts.accounts import AccountType, Caller, Owner, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.rows.entities import SOURCES, resolve, resolve_known
from bulkdeploy.store.tables.accounts import accounts, domains
from bulkdeploy.store.tables.offerings import templates
from bulkdeploy.store.tables.topology import zones

OWNER = Owner(2, UUID(int=2), "admin", AccountType.ADMIN, 1, UUID(int=1), "/1/")
ROOT = Caller(2, UUID(int=2), "admin", OWNER, 1, RoleType.ADMIN)


def make_zone(connection: Connection, name: str) -> tuple[int, UUID]:
    """A zone's internal id and uuid."""
    made = insert(zones).values(name=name, network_type="Advanced").returning(zones.c.id, zones.c.uuid)
    row = connection.execute(made).one()
    return row.id, row.uuid


def make_template(connection: Connection, kind: str) -> UUID:
    """The uuid of a template or ISO of the default admin."""
    made = insert(templates).values(
        name=kind, display_text=kind, kind=kind, format="QCOW2", size_bytes=1, physical_size_bytes=1, account_id=2
    )
    uuid: UUID = connection.execute(made.returning(templates.c.uuid)).scalar_one()
    return uuid


def test_uuid_and_internal_id_name_the_same(engine: Engine) -> None:
    """A row is found by its uuid in any case and by its number, under the text that was given."""
    with engine.begin() as connection:
        number, uuid = make_zone(connection, "zone-1")
        texts = (str(uuid), str(uuid).upper(), str(number), f"00{number}")
        found = resolve(connection, ROOT, (Entity.ZONE,), texts)
    assert tuple(found) == texts
    assert {(ref.id, ref.uuid, ref.name, ref.removed) for ref in found.values()} == {
        (number, uuid, "zone-1", False)
    }


def test_unknown_ids_are_left_out(engine: Engine) -> None:
    """What names nothing, however large, is simply not there."""
    with engine.begin() as connection:
        assert resolve(connection, ROOT, (Entity.ZONE,), (str(uuid4()), str(2**63 - 1))) == {}
        assert resolve(connection, ROOT, (Entity.ZONE,), ()) == {}


def test_removed_rows_resolve(engine: Engine) -> None:
    """A removed zone is still named by its id, and marked."""
    with engine.begin() as connection:
        number, uuid = make_zone(connection, "zone-1")
        connection.execute(update(zones).where(zones.c.id == number).values(removed=func.now()))
        assert resolve(connection, ROOT, (Entity.ZONE,), (str(uuid),))[str(uuid)].removed


def test_templates_and_isos_share_a_table(engine: Engine) -> None:
    """A template's id names no ISO and the reverse; a parameter that takes both learns which it was."""
    with engine.begin() as connection:
        template, iso = (str(make_template(connection, kind)) for kind in ("template", "iso"))
        both = resolve(connection, ROOT, (Entity.TEMPLATE, Entity.ISO), (template, iso))
        assert {text: ref.entity for text, ref in both.items()} == {template: Entity.TEMPLATE, iso: Entity.ISO}
        assert list(resolve(connection, ROOT, (Entity.ISO,), (template, iso))) == [iso]


def test_many_kinds_in_one_statement(engine: Engine) -> None:
    """Ids of several kinds cost one statement, however many they are."""
    statements: list[str] = []
    with engine.begin() as connection:
        made = [str(make_zone(connection, f"zone-{position}")[1]) for position in range(20)]
        event.listen(connection, "before_cursor_execute", lambda *args: statements.append(args[2]))
        wanted: dict[tuple[Entity, ...], Sequence[str]] = {
            (Entity.ZONE,): made,
            (Entity.DOMAIN,): ("1",),
            (Entity.ACCOUNT,): ("1", "2"),
        }
        found = resolve_known(connection, ROOT, wanted)
    assert len(statements) == 1
    assert {kinds: len(refs) for kinds, refs in found.items()} == {
        (Entity.ZONE,): 20,
        (Entity.DOMAIN,): 1,
        (Entity.ACCOUNT,): 2,
    }


def test_first_kind_that_has_the_id_wins(engine: Engine) -> None:
    """A number that two kinds have names the one declared first."""
    with engine.begin() as connection:
        assert connection.execute(domains.select()).first() is not None
        assert connection.execute(accounts.select()).first() is not None
        assert resolve(connection, ROOT, (Entity.DOMAIN, Entity.ACCOUNT), ("1",))["1"].entity is Entity.DOMAIN
        assert resolve(connection, ROOT, (Entity.ACCOUNT, Entity.DOMAIN), ("1",))["1"].entity is Entity.ACCOUNT


@pytest.mark.parametrize("kind", list(Entity))
def test_every_kind_can_be_looked_up(engine: Engine, kind: Entity) -> None:
    """No kind of entity lacks a table, a name or an index-able id."""
    assert kind in SOURCES
    with engine.begin() as connection:
        assert resolve(connection, ROOT, (kind,), (str(uuid4()), "4611686018427387904")) == {}
