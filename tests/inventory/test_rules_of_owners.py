"""Rules of domains, accounts, users and what accounts own."""

import pytest

from tests.inventory.support import assert_refused

USERS = "users: [{username: ann}]"
KEY = "0123456789abcdef"
KEYS = f"api_key: {KEY}, secret_key: {KEY}"

BROKEN = [
    # owners
    (
        USERS,
        f"users: [{{username: a, api_key: {KEY}}}]",
        "8: accounts[0].users[0].secret_key: must be given together",
    ),
    (
        USERS,
        f"users: [{{username: a, api_key: {KEY}, secret_key: short}}]",
        "8: accounts[0].users[0].secret_key: must be a secret key: 16 to 256 letters",
    ),
    (
        USERS,
        f"users: [{{username: a, {KEYS}}}, {{username: b, {KEYS}}}]",
        "8: accounts[0].users[1]: its api_key is that of line 8 too",
    ),
    (USERS, "users: [{username: a, password: ''}]", "8: accounts[0].users[0].password: must be a password of 1"),
    (
        USERS,
        "users: [{username: a, password_hash: plain}]",
        "8: accounts[0].users[0].password_hash: must be an argon2id hash as an export writes it",
    ),
    (
        USERS,
        "users: [{username: a, password: b, password_hash: $argon2id$x}]",
        "8: accounts[0].users[0].password_hash: is given together with a password: give one of them",
    ),
    (
        USERS,
        f"{USERS}\n    ssh_key_pairs: [{{name: k, public_key: ssh-rsa AAAA}}]",
        "9: accounts[0].ssh_key_pairs[0].public_key: must be a public key in OpenSSH's one-line form",
    ),
    (
        "type: host anti-affinity",
        "type: apart",
        "9: accounts[0].affinity_groups[0].type: must be one of host anti-affinity, host affinity",
    ),
    (
        USERS,
        f"{USERS}\n    limits: {{user_vms: 3}}",
        "9: accounts[0].limits.user_vms: limits has no such key; did you mean 'user_vm'?",
    ),
    (
        USERS,
        f"{USERS}\n    limits: {{memory: 3}}",
        "9: accounts[0].limits.memory: must be a size from 0 B to 4096 PiB, such as 512 GiB, not '3'",
    ),
    (
        USERS,
        f"{USERS}\n    limits: {{user_vm: -2}}",
        "9: accounts[0].limits.user_vm: must be a whole number from 0 to 1000000000000000, not '-2' (or unlimited)",
    ),
    (
        USERS,
        f"{USERS}\n    role: Root Admin\n    limits: {{user_vm: 3}}",
        "10: accounts[0].limits: root admins are never limited",
    ),
    (
        USERS,
        f"{USERS}\n    state: enabled\n  - name: admin\n    role: User",
        "11: accounts[1].role: the admin of ROOT keeps its role, Root Admin",
    ),
    (
        USERS,
        f"{USERS}\n    security_groups: [{{name: web, rules: [{{cidr: 0.0.0.0/0, group: web}}]}}]",
        "9: accounts[0].security_groups[0].rules[0].cidr: a rule has either a cidr or a group",
    ),
    (
        USERS,
        f"{USERS}\n    security_groups: [{{name: web, rules: [{{group: other}}]}}]",
        "9: accounts[0].security_groups[0]: a rule names group 'other', which the account does not have",
    ),
    (
        USERS,
        f"{USERS}\n    security_groups: [{{name: web, rules: [{{cidr: 0.0.0.0/0, start_port: 9, end_port: 8}}]}}]",
        "9: accounts[0].security_groups[0].rules[0].end_port: must not be below start_port 9",
    ),
]


@pytest.mark.parametrize(("old", "new", "problem"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_rule_of_owners_is_told_with_line_key_and_rule(old: str, new: str, problem: str) -> None:
    """A mistake is told with file, line, key and rule."""
    assert_refused(old, new, problem)
