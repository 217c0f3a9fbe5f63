"""Accounts of their own for tests, each with a user, keys and, where wanted, a password."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST
from sqlalchemy import Engine, insert

from bulkdeploy.services import passwords
from bulkdeploy.services.system import Cipher
from bulkdeploy.store.database.default_rows import ROLES, ROOT_DOMAIN_ID
from bulkdeploy.store.tables.accounts import accounts, api_keys, domains, role_rules, roles, users

USER_ROLE, DOMAIN_ADMIN_ROLE, ROOT_ADMIN_ROLE, READ_ONLY_ADMIN_ROLE = 4, 3, 1, 5
ACCOUNT_TYPES = {"Admin": 1, "DomainAdmin": 2, "ResourceAdmin": 3, "User": 0}


@dataclass(frozen=True, slots=True)
class TestUser:
    """A user, with what it takes to call as that user."""

    __test__ = False

    user_id: int
    account_id: int
    username: str
    api_key: str
    secret_key: str


def cheap_hash(password: str) -> str:
    """A hash for rows that tests write themselves: to check it costs nothing, where a real one takes 0.2 s."""
    return PasswordHasher.from_parameters(CHEAPEST).hash(password)


def hash_passwords_cheaply() -> None:
    """From now on hashes that the service makes in this process cost nothing either."""
    vars(passwords)["PasswordHasher"] = partial(PasswordHasher.from_parameters, CHEAPEST)


@contextmanager
def costly_hashes() -> Iterator[None]:
    """Meanwhile passwords are hashed as the product does it."""
    vars(passwords)["PasswordHasher"] = PasswordHasher
    try:
        yield
    finally:
        hash_passwords_cheaply()


def add_user(
    engine: Engine,
    cipher: Cipher,
    username: str,
    *,
    role_id: int = USER_ROLE,
    domain_id: int = ROOT_DOMAIN_ID,
    password: str | None = None,
) -> TestUser:
    """An account and its user, both called ``username``, enabled, with fresh keys."""
    role_type = next((role.role_type for role in ROLES if role.id == role_id), None)
    account_type = 0 if role_type is None else ACCOUNT_TYPES[role_type]
    api_key, secret_key = secrets.token_urlsafe(64), secrets.token_urlsafe(64)
    with engine.begin() as connection:
        account = insert(accounts).values(
            name=username, domain_id=domain_id, account_type=account_type, role_id=role_id
        )
        account_id = connection.execute(account.returning(accounts.c.id)).scalar_one()
        user = insert(users).values(
            username=username,
            account_id=account_id,
            password_hash=None if password is None else cheap_hash(password),
        )
        user_id = connection.execute(user.returning(users.c.id)).scalar_one()
        key = {"user_id": user_id, "api_key": api_key, "secret_key_encrypted": cipher.encrypt(secret_key)}
        connection.execute(insert(api_keys), key)
    return TestUser(user_id, account_id, username, api_key, secret_key)


def add_role(engine: Engine, name: str, role_type: str, rules: tuple[tuple[str, str], ...]) -> int:
    """A role with rules (API pattern, permission) in this order; its internal id."""
    with engine.begin() as connection:
        role = insert(roles).values(name=name, role_type=role_type)
        role_id: int = connection.execute(role.returning(roles.c.id)).scalar_one()
        rows = [
            {"role_id": role_id, "rule": rule, "permission": permission, "sort_order": position}
            for position, (rule, permission) in enumerate(rules)
        ]
        connection.execute(insert(role_rules), rows)
    return role_id


def add_domain(engine: Engine, name: str) -> int:
    """A domain below ROOT; its internal id."""
    with engine.begin() as connection:
        made = insert(domains).values(name=name, parent_id=ROOT_DOMAIN_ID, path=f"ROOT/{name}", lineage="", level=1)
        domain_id = connection.execute(made.returning(domains.c.id)).scalar_one()
        lineage = f"/{ROOT_DOMAIN_ID}/{domain_id}/"
        connection.execute(domains.update().where(domains.c.id == domain_id).values(lineage=lineage))
    return int(domain_id)
