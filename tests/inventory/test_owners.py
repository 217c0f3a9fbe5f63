"""Owners as a file describes them: the tree, who may log in and sign, what accounts own."""

from pathlib import Path

import pytest
from argon2 import PasswordHasher
from sqlalchemy import Engine

from bulkdeploy.domain.errors import InvalidInventory
from bulkdeploy.services.inventory.inventory import load_inventory
from bulkdeploy.services.system import Cipher
from tests.inventory.support import SMALL, TINY, all_rows, changed, rows, value, write

KEYS = "api_key: 0123456789abcdef, secret_key: fedcba9876543210"


def test_domains_form_a_tree(engine: Engine, cipher: Cipher) -> None:
    """Paths and lineages of ids lead from ROOT to every domain."""
    load_inventory(engine, cipher, SMALL)
    found = rows(engine, "SELECT path, lineage, level, id FROM domains WHERE level > 0 ORDER BY level")
    customers, acme = found[0][3], found[1][3]
    assert found == [
        ("ROOT/customers", f"/1/{customers}/", 1, customers),
        ("ROOT/customers/acme", f"/1/{customers}/{acme}/", 2, acme),
    ]


def test_children_may_be_described_before_their_parents(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """The order of domains in a file does not matter."""
    file = changed("  - {path: ROOT/web}\n", "  - {path: ROOT/a/b/c}\n  - {path: ROOT/a/b}\n  - {path: ROOT/a}\n")
    load_inventory(engine, cipher, write(tmp_path, file.replace("ROOT/web", "ROOT/a/b/c")))
    assert value(engine, "SELECT count(*) FROM domains WHERE lineage LIKE '/1/_%/'") == 3


def test_accounts_get_the_type_of_their_role(engine: Engine, cipher: Cipher) -> None:
    """A role's name decides what kind of account it is."""
    load_inventory(engine, cipher, SMALL)
    query = (
        "SELECT a.name, r.name, a.account_type FROM accounts a JOIN roles r ON r.id = a.role_id"
        " WHERE a.name LIKE '%acme%' OR a.name LIKE 'customers%' ORDER BY 1"
    )
    assert rows(engine, query) == [("acme", "User", 0), ("customers-admin", "Domain Admin", 2)]


def test_passwords_are_hashed_and_keys_encrypted(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Nothing that a file says in secret is stored in the clear, and both still work."""
    user = f"{{username: ann, password: anns password, {KEYS}}}"
    load_inventory(engine, cipher, write(tmp_path, changed("{username: ann}", user)))
    ((password_hash, token),) = rows(
        engine,
        "SELECT u.password_hash, k.secret_key_encrypted FROM users u JOIN api_keys k ON k.user_id = u.id"
        " WHERE u.username = 'ann'",
    )
    assert PasswordHasher().verify(password_hash, "anns password")
    assert not PasswordHasher().check_needs_rehash(password_hash)
    assert cipher.decrypt(bytes(token)) == "fedcba9876543210"
    assert "anns password" not in str(all_rows(engine))


def test_a_hash_is_kept_as_it_was_exported(engine: Engine, cipher: Cipher) -> None:
    """A hash in the file is the user's from then on, whatever it cost to make."""
    load_inventory(engine, cipher, SMALL)
    stored = value(engine, "SELECT password_hash FROM users WHERE username = 'acme'")
    assert stored in SMALL.read_text()
    assert PasswordHasher().verify(stored, "alices password")


def test_a_new_password_replaces_the_old_one(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Another password in the file is the user's from then on; the same one, or none, keeps what is stored."""
    first = write(tmp_path, changed("{username: ann}", "{username: ann, password: first}"))
    load_inventory(engine, cipher, first)
    assert dict(load_inventory(engine, cipher, first).changed) == {}
    changed_file = write(tmp_path, changed("{username: ann}", "{username: ann, password: second}"))
    assert dict(load_inventory(engine, cipher, changed_file).changed) == {"users": 1}
    without = load_inventory(engine, cipher, write(tmp_path, TINY))
    assert dict(without.changed) == {}
    stored = value(engine, "SELECT password_hash FROM users WHERE username = 'ann'")
    assert PasswordHasher().verify(stored, "second")


def test_another_secret_for_the_same_key_replaces_it(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A changed secret key is stored; an unchanged one is not written again, though encryption is salted."""
    load_inventory(engine, cipher, write(tmp_path, changed("{username: ann}", f"{{username: ann, {KEYS}}}")))
    renewed = KEYS.replace("fedcba9876543210", "f" * 16)
    report = load_inventory(
        engine, cipher, write(tmp_path, changed("{username: ann}", f"{{username: ann, {renewed}}}"))
    )
    assert dict(report.changed) == {"API keys": 1}
    token = value(engine, "SELECT secret_key_encrypted FROM api_keys WHERE api_key = '0123456789abcdef'")
    assert cipher.decrypt(bytes(token)) == "f" * 16


def test_a_key_of_somebody_else_is_refused(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """An API key that another user has cannot be taken over."""
    load_inventory(engine, cipher, write(tmp_path, changed("{username: ann}", f"{{username: ann, {KEYS}}}")))
    thief = changed("{username: ann}", f"{{username: bob, {KEYS}}}")
    with pytest.raises(InvalidInventory, match="its api_key is another user's"):
        load_inventory(engine, cipher, write(tmp_path, thief))


def test_a_user_name_is_unique_in_its_domain(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A name that a user of another account of the domain has is refused: people log in by it."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    other = changed("  - name: ann\n", "  - name: bob\n", TINY.replace("account: ann", "account: bob"))
    with pytest.raises(InvalidInventory, match="another account of the domain has a user 'ann'"):
        load_inventory(engine, cipher, write(tmp_path, other))


def test_names_in_any_script_are_found_again(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Names beyond ASCII, with quotes, tabs of YAML and backslashes in them, load twice like any other."""
    strange = 'Ω\'s \\"quoted\\" 東京 🦆 \\\\N %s {1}'
    file = TINY.replace("name: tiny", f'name: "{strange}"').replace("{name: Custom}", f'{{name: "{strange}"}}')
    file = file.replace("ROOT/web", "ROOT/Über-Ärzte").replace("{username: ann}", '{username: "ann \\"O\'Hara\\""}')
    load_inventory(engine, cipher, write(tmp_path, file))
    before = all_rows(engine)
    report = load_inventory(engine, cipher, write(tmp_path, file))
    assert (dict(report.added), dict(report.changed)) == ({}, {})
    assert all_rows(engine) == before
    assert value(engine, "SELECT name FROM zones") == 'Ω\'s "quoted" 東京 🦆 \\N %s {1}'


def test_capitals_do_not_make_another_account(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """Domains, accounts and users are the same whatever their capitals; the stored spelling stays."""
    load_inventory(engine, cipher, write(tmp_path, TINY))
    shouted = (
        TINY.replace("ROOT/web", "ROOT/WEB")
        .replace("name: ann", "name: ANN")
        .replace("account: ann", "account: ANN")
    )
    report = load_inventory(engine, cipher, write(tmp_path, shouted))
    assert (dict(report.added), dict(report.changed)) == ({}, {})


def test_limits_are_kept_in_the_units_of_counts(engine: Engine, cipher: Cipher) -> None:
    """Limits of memory are stored in MiB, of storage in bytes, others as numbers."""
    load_inventory(engine, cipher, SMALL)
    query = (
        "SELECT l.resource_type, l.max FROM resource_limits l JOIN accounts a ON a.id = l.owner_id"
        " WHERE l.owner_kind = 'account' AND a.name = 'acme' ORDER BY 1"
    )
    assert rows(engine, query) == [(0, 1000), (2, 2000), (8, 4000), (9, 4 * 1024**2), (10, 100 * 1024**4)]


def test_groups_and_keys_belong_to_their_account(engine: Engine, cipher: Cipher) -> None:
    """Affinity groups of all five types, security groups with rules and key pairs are the account's."""
    load_inventory(engine, cipher, SMALL)
    owner = "JOIN accounts a ON a.id = g.account_id WHERE a.name = 'acme'"
    kinds = {kind for (kind,) in rows(engine, f"SELECT g.affinity_type FROM affinity_groups g {owner}")}
    assert len(kinds) == 5
    rules = rows(
        engine,
        "SELECT r.direction, r.protocol, r.start_port, r.end_port, r.cidr, p.name FROM security_group_rules r"
        f" JOIN security_groups g ON g.id = r.security_group_id"
        f" LEFT JOIN security_groups p ON p.id = r.peer_group_id {owner} ORDER BY r.id",
    )
    assert rules == [("ingress", "tcp", 80, 443, "0.0.0.0/0", None), ("egress", "all", None, None, None, "default")]
    fingerprint = value(engine, f"SELECT g.fingerprint FROM ssh_key_pairs g {owner}")
    assert len(fingerprint.split(":")) == 16


def test_dedication_makes_the_group_that_deployments_name(engine: Engine, cipher: Cipher, tmp_path: Path) -> None:
    """A pod for an account and a host for a domain are dedicated, each with an ExplicitDedication group."""
    file = changed("  - name: pod\n", "  - name: pod\n    dedicated_to: ann\n")
    file = changed("first_ip: 10.0.0.11", "first_ip: 10.0.0.11, dedicated_to: ROOT/web", file)
    load_inventory(engine, cipher, write(tmp_path, file))
    query = (
        "SELECT d.pod_id IS NOT NULL, d.host_id IS NOT NULL, a.name, o.path, g.name, g.affinity_type"
        " FROM dedicated_resources d JOIN domains o ON o.id = d.domain_id"
        " JOIN affinity_groups g ON g.id = d.affinity_group_id"
        " LEFT JOIN accounts a ON a.id = d.account_id ORDER BY d.id"
    )
    assert rows(engine, query) == [
        (True, False, "ann", "ROOT/web", "DedicatedGrp-ann", "ExplicitDedication"),
        (False, True, None, "ROOT/web", "DedicatedGrp-web", "ExplicitDedication"),
        (False, True, None, "ROOT/web", "DedicatedGrp-web", "ExplicitDedication"),
    ]
    again = load_inventory(engine, cipher, write(tmp_path, file))
    assert (dict(again.added), dict(again.changed)) == ({}, {})
