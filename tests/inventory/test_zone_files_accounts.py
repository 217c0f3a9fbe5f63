"""Zone files: who may do what, with which limits and settings."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.manage.zone_files.exporting import export_zone
from bulkdeploy.manage.zone_files.loading import LoadReport
from bulkdeploy.wiring.cipher import FernetCipher
from tests.inventory.support import all_rows
from tests.inventory.test_zone_files import load, refusals

ZONE = "zones:\n  - {name: small, networktype: Advanced, dns1: 10.0.0.2, internaldns1: 10.0.0.3}\n"

ROLES = """\
roles:
  - name: Auditor
    type: User
    description: Looks, and changes nothing
    rules: [{rule: "list*", permission: allow}, {rule: "*", permission: deny, description: nothing else}]
  - {name: Second, roleid: Auditor}
"""


def table(engine: Engine, query: str) -> list[tuple[object, ...]]:
    """What a query finds."""
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def stays(engine: Engine, cipher: FernetCipher, folder: Path, file: str) -> None:
    """Loading the file again, and loading what is written out, change nothing."""
    before = all_rows(engine)
    assert load(engine, cipher, folder, file) == LoadReport()
    assert load(engine, cipher, folder, export_zone(engine)) == LoadReport()
    assert load(engine, cipher, folder, export_zone(engine, decrypt=cipher.decrypt)) == LoadReport()
    assert all_rows(engine) == before


RULES = (
    "SELECT r.name, r.role_type, p.rule, p.permission FROM roles r JOIN role_rules p ON p.role_id = r.id"
    " WHERE NOT r.is_default ORDER BY r.id, p.sort_order"
)


def test_roles_come_with_their_rules(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """In the order of the file; a role that is made of another begins with that one's."""
    assert load(engine, cipher, tmp_path, ROLES + ZONE).created == {"roles": 2, "zones": 1}
    assert table(engine, RULES) == [
        (name, "User", rule, permission)
        for name in ("Auditor", "Second")
        for rule, permission in (("list*", "allow"), ("*", "deny"))
    ]
    stays(engine, cipher, tmp_path, ROLES + ZONE)


def test_rules_follow_the_file(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Another rule, or another order, is what holds from then on."""
    load(engine, cipher, tmp_path, ROLES + ZONE)
    changed = ROLES.replace('[{rule: "list*", permission: allow}', "[{rule: getUser, permission: Allow}")
    assert load(engine, cipher, tmp_path, changed + ZONE).changed == {"roles": 1}
    assert table(engine, RULES)[:2] == [("Auditor", "User", "getUser", "allow"), ("Auditor", "User", "*", "deny")]
    stays(engine, cipher, tmp_path, changed + ZONE)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            'rule: "list*"',
            'rule: "list VMs"',
            "5: roles[0].rules: Invalid value 'list VMs' for parameter rule: must",
        ),
        ("permission: allow", "permission: maybe", "5: roles[0].rules: "),
        ("description: nothing else", "why: nothing else", "5: roles[0].rules: must have the keys"),
        ("name: Second, roleid: Auditor", "name: User, type: User, description: x", "6: roles[1]: Role User came"),
        ("name: Second", "name: ' x'", "6: roles[1].name: must be a name"),
    ],
)
def test_roles_that_cannot_be(
    engine: Engine, cipher: FernetCipher, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    """Rules are checked as createRolePermission checks them; roles of the installation stay as they are."""
    found = refusals(engine, cipher, tmp_path, ROLES.replace(old, new) + ZONE)
    assert [one for one in found if one.startswith(f"zone.yaml:{problem}")], found
