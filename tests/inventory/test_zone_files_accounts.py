"""Zone files: roles, accounts and users: who may do what, and how they log in."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.manage.zone_files.exporting import export_zone
from bulkdeploy.manage.zone_files.loading import LoadReport
from bulkdeploy.services.passwords import password_matches
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
        (
            "description: nothing else",
            "description: [nothing, else]",
            "5: roles[0].rules: must be a value of type map",
        ),
        ("description: nothing else", "description: null", "5: roles[0].rules: must be a value of type map"),
        (
            "name: Second, roleid: Auditor",
            "name: User, type: User, description: x",
            "6: roles[1]: Role User is a default role",
        ),
        ("name: Second", "name: '  '", "6: roles[1].name: must be a name"),
    ],
)
def test_roles_that_cannot_be(
    engine: Engine, cipher: FernetCipher, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    """Rules are checked as createRolePermission checks them; roles of the installation stay as they are."""
    found = refusals(engine, cipher, tmp_path, ROLES.replace(old, new) + ZONE)
    assert [one for one in found if one.startswith(f"zone.yaml:{problem}")], found


HASH = "$argon2id$v=19$m=8,t=1,p=1$AN8JYtpCtQnqVnNfXBpPHA$PvzZQqdw0ZPidZwG6DyuFMpl/xY9EiEROV/G4HMkO+8"
"""Of: alices password."""

KEYS = "userapikey: 0123456789abcdef, usersecretkey: fedcba9876543210"

PEOPLE = f"""\
domains:
  - name: customers
    accounts:
      - account: customers-admin
        roleid: Domain Admin
        users: [{{username: carla, password: carlas password, {KEYS}}}]
    domains:
      - name: acme
        accounts:
          - account: acme
            roleid: Auditor
            networkdomain: acme.example
            state: locked
            users:
              - {{username: alice, firstname: Alice, timezone: Europe/Berlin, passwordhash: "{HASH}"}}
              - {{username: arno, state: disabled}}
accounts:
  - {{account: operator, accounttype: 0, users: [{{username: oli}}]}}
  - {{account: far, roleid: User, domainid: ROOT/customers/acme, users: [{{username: fay}}]}}
"""
ALL = ROLES + PEOPLE + ZONE


def with_users(engine: Engine) -> list[tuple[object, ...]]:
    """Accounts with path, role, type and state, and their users with state."""
    return table(
        engine,
        "SELECT d.path, a.name, r.name, a.account_type, a.state, u.username, u.state FROM users u"
        " JOIN accounts a ON a.id = u.account_id JOIN domains d ON d.id = a.domain_id"
        " JOIN roles r ON r.id = a.role_id WHERE NOT u.is_default ORDER BY u.username",
    )


def test_people_are_loaded_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Accounts in their domains with their roles, users in their accounts; a second load finds it all there."""
    report = load(engine, cipher, tmp_path, ALL)
    assert report.created == {"roles": 2, "domains": 2, "zones": 1, "accounts": 4, "users": 5}
    acme = ("ROOT/customers/acme", "acme", "Auditor", 0, "locked")
    assert with_users(engine) == [
        (*acme, "alice", "enabled"),
        (*acme, "arno", "disabled"),
        ("ROOT/customers", "customers-admin", "Domain Admin", 2, "enabled", "carla", "enabled"),
        ("ROOT/customers/acme", "far", "User", 0, "enabled", "fay", "enabled"),
        ("ROOT", "operator", "User", 0, "enabled", "oli", "enabled"),
    ]
    stays(engine, cipher, tmp_path, ALL)


def test_every_account_of_a_file_has_a_default_group(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """As those have that createAccount makes."""
    load(engine, cipher, tmp_path, ALL)
    groups = table(
        engine, "SELECT count(*) FROM security_groups g JOIN accounts a ON a.id = account_id WHERE a.id > 2"
    )
    assert groups == [(4,)]


def kept(engine: Engine, user: str) -> tuple[str, bytes]:
    """What is kept of a user's password and secret key."""
    query = "SELECT password_hash, secret_key_encrypted FROM users u JOIN api_keys k ON k.user_id = u.id"
    ((password_hash, secret),) = table(engine, f"{query} WHERE username = '{user}'")
    return str(password_hash), bytes(secret)  # type: ignore[call-overload]


def test_secrets_of_a_file_are_kept_unreadable(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Passwords as hashes, secret keys encrypted; hashes as they are given."""
    load(engine, cipher, tmp_path, ALL)
    password_hash, secret = kept(engine, "carla")
    assert password_matches("carlas password", password_hash)
    assert cipher.decrypt(secret) == "fedcba9876543210"
    assert "carlas password" not in str(all_rows(engine))
    assert table(engine, "SELECT password_hash FROM users WHERE username = 'alice'") == [(HASH,)]


def test_a_new_password_is_the_users_from_then_on(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """And so are new keys; a file without them keeps what is there."""
    load(engine, cipher, tmp_path, ALL)
    changed = ALL.replace("carlas password", "another one")
    assert load(engine, cipher, tmp_path, changed).changed == {"users": 1}
    assert load(engine, cipher, tmp_path, changed) == LoadReport()
    assert password_matches("another one", kept(engine, "carla")[0])
    other_keys = changed.replace(KEYS, "userapikey: another-key-00001, usersecretkey: another-secret-1")
    assert load(engine, cipher, tmp_path, other_keys).changed == {"users": 1}
    assert cipher.decrypt(kept(engine, "carla")[1]) == "another-secret-1"
    assert load(engine, cipher, tmp_path, other_keys.replace(", password: another one", "")) == LoadReport()


def test_exports_have_secrets_only_on_request(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Neither hashes nor keys otherwise; with them everybody can go on elsewhere."""
    load(engine, cipher, tmp_path, ALL)
    plain, full = export_zone(engine), export_zone(engine, decrypt=cipher.decrypt)
    secret = {"passwordhash", "userapikey", "usersecretkey"}
    assert not [word for word in (*secret, "password", HASH, "0123456789abcdef") if word in plain]
    assert all(word in full for word in (*secret, HASH, "fedcba9876543210", "carla"))


def test_people_change_with_the_file(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Roles, states, names and network domains."""
    load(engine, cipher, tmp_path, ALL)
    changed = (
        ALL.replace("roleid: Auditor\n ", "roleid: User\n ")
        .replace("state: locked", "state: enabled")
        .replace("firstname: Alice", "firstname: Alicia")
        .replace("acme.example\n", "a.example\n")
    )
    report = load(engine, cipher, tmp_path, changed)
    assert (report.created, report.changed) == ({}, {"accounts": 1, "users": 1})
    assert with_users(engine)[0][2:5] == ("User", 0, "enabled")
    assert load(engine, cipher, tmp_path, changed) == LoadReport()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("username: arno", "username: ALICE", "domains[0].domains[0].accounts[0].users[1]: is the same as in"),
        ("username: fay", "username: alice", "accounts[1].users[0].username: the domain has a user of this"),
        ("account: far", "account: Acme", "accounts[1]: is the same as in line 1"),
        ("accounttype: 0", "accounttype: 7", "accounts[0].accounttype: must be 0 user"),
        ("accounttype: 0, ", "", "accounts[0]: One of roleid and accounttype"),
        (
            "roleid: Domain Admin",
            "roleid: Root Admin",
            "domains[0].accounts[0]: domainid must be that of ROOT for accounts with role",
        ),
        ("roleid: Domain Admin", "roleid: Nobody", "domains[0].accounts[0].roleid: must be the name of a role"),
        ("username: oli", "username: oli, userapikey: x", "accounts[0].users[0]: "),
        ("username: oli", f"username: oli, {KEYS}", "accounts[0].users[0].userapikey: another user has this key"),
        ("username: oli", "username: oli, password: ' '", "accounts[0].users[0].password: must be a password"),
        (
            "username: oli",
            "username: oli, passwordhash: x",
            "accounts[0].users[0].passwordhash: must be an argon",
        ),
        (
            "username: oli",
            "username: oli, timezone: Mars",
            "accounts[0].users[0].timezone: must be a time zone",
        ),
        ("username: oli", f"username: oli, password: x, passwordhash: '{HASH}'", "accounts[0].users[0]: "),
    ],
)
def test_people_who_cannot_be(
    engine: Engine, cipher: FernetCipher, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    """Each rule is told with its line and key, and nothing is written."""
    assert ALL.count(old) == 1
    found = refusals(engine, cipher, tmp_path, ALL.replace(old, new))
    assert [one for one in found if one.partition(": ")[2].startswith(problem)], found


def test_the_default_admin_may_be_described(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Its password and keys are then those of the file; its role and state stay."""
    admin = f"accounts: [{{account: admin, users: [{{username: admin, password: of the file, {KEYS}}}]}}]\n"
    assert load(engine, cipher, tmp_path, admin + ZONE).changed == {"users": 1}
    assert password_matches("of the file", kept(engine, "admin")[0])
    assert load(engine, cipher, tmp_path, admin + ZONE) == LoadReport()
    locked = admin.replace("account: admin,", "account: admin, state: locked,")
    (problem,) = refusals(engine, cipher, tmp_path, locked + ZONE)
    assert "cannot disable or lock the default admin's account" in problem


OWNERS = """\
domains:
  - name: customers
    accounts:
      - account: ann
        roleid: User
        state: disabled
        users: [{username: ann}]
        affinitygroups: [{name: apart, type: host anti-affinity}]
        securitygroups: [{name: web}]
        userdata: [{name: setup, userdata: aGVsbG8=}]
"""


def test_a_disabled_account_is_loaded_with_what_it_owns(
    engine: Engine, cipher: FernetCipher, tmp_path: Path
) -> None:
    """It is disabled when all else is there: calls would add nothing to it any more."""
    load(engine, cipher, tmp_path, OWNERS + ZONE)
    assert table(engine, "SELECT state FROM accounts WHERE name = 'ann'") == [("disabled",)]
    stays(engine, cipher, tmp_path, OWNERS + ZONE)


def test_user_data_is_exported_as_a_secret(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """It often holds passwords, and says nothing without its text."""
    load(engine, cipher, tmp_path, OWNERS + ZONE)
    assert "userdata" not in export_zone(engine)
    assert "userdata: aGVsbG8=" in export_zone(engine, decrypt=cipher.decrypt)
