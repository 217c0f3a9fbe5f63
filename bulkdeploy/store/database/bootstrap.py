"""The first rows of a new database: the ROOT domain, roles, the admin with keys, and default offerings.

``bootstrap`` may run at every start and in several processes at once: existing rows are not changed, except the
rules of default roles.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from argon2 import PasswordHasher
from sqlalchemy import Connection, Engine, Table, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.accounts.accounts import AccountType, Apis
from bulkdeploy.security.random_texts import random_text
from bulkdeploy.store.database.default_rows import (
    ADMIN_ACCOUNT_ID,
    ADMIN_USER_ID,
    ADMIN_USERNAME,
    ALLOW,
    NETWORK_OFFERINGS,
    ROLES,
    ROOT_ADMIN_ROLE_ID,
    ROOT_DOMAIN_ID,
    SYSTEM_ACCOUNT_ID,
    SYSTEM_USER_ID,
    DefaultRole,
    os_types_by_category,
)
from bulkdeploy.store.locks import Lock, take_lock
from bulkdeploy.store.tables.accounts import accounts, api_keys, domains, role_rules, roles, users
from bulkdeploy.store.tables.networks import network_offerings
from bulkdeploy.store.tables.offerings import os_categories, os_types

KEY_BYTES = 64
"""Gives keys of 86 base64url characters, as CloudStack's are (cloudstack-protocol.md 2.3)."""


@dataclass(frozen=True, slots=True)
class AdminRow:
    """The stored default admin. The secret key is encrypted with the installation's key."""

    username: str
    password_hash: str | None
    api_key: str
    secret_key_encrypted: bytes


def bootstrap(
    engine: Engine, rights: Apis, *, encrypt: Callable[[str], bytes], admin_password: Callable[[], str]
) -> None:
    """Insert the missing default rows in one transaction.

    ``rights`` maps each API to the role types that may call it; the rules of the default roles are made from it.
    ``admin_password`` is called, and new API keys are created, only if there is no admin yet. The password is
    stored as an argon2id hash.
    """
    with engine.begin() as connection:
        take_lock(connection, Lock.BOOTSTRAP)
        _write_roles(connection, rights)
        _write_accounts(connection, encrypt, admin_password)
        _write_os_types(connection)
        _write_network_offerings(connection)


def admin_row(connection: Connection) -> AdminRow | None:
    """Return the default admin with its newest keys, or None before ``bootstrap``."""
    row = connection.execute(
        select(users.c.username, users.c.password_hash, api_keys.c.api_key, api_keys.c.secret_key_encrypted)
        .join(api_keys, api_keys.c.user_id == users.c.id)
        .where(users.c.id == ADMIN_USER_ID)
        .order_by(api_keys.c.id.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else AdminRow(*row)


def _write_roles(connection: Connection, rights: Apis) -> None:
    """Write the default roles, and replace their rules by the rules of this release.

    No call can change a default role, so different rules can only be those of another release. Programs of that
    release can read the new rules as well, because all releases evaluate rules in the same way.
    """
    existing = set(connection.execute(select(roles.c.id)).scalars())
    fresh = [
        {
            "id": role.id,
            "name": role.name,
            "role_type": role.role_type.value,
            "description": role.description,
            "is_default": True,
        }
        for role in ROLES
        if role.id not in existing
    ]
    _insert(connection, roles, fresh)
    of_default_roles = role_rules.c.role_id.in_([role.id for role in ROLES])
    written: dict[int, list[tuple[str, str]]] = {role.id: [] for role in ROLES}
    found = select(role_rules.c.role_id, role_rules.c.rule, role_rules.c.permission).where(of_default_roles)
    for row in connection.execute(found.order_by(role_rules.c.role_id, role_rules.c.sort_order, role_rules.c.id)):
        written[row.role_id].append((row.rule, row.permission))
    wanted = {role.id: default_rules(role, rights) for role in ROLES}
    changed = [role_id for role_id, rules in wanted.items() if written[role_id] != rules]
    if not changed:
        return
    connection.execute(delete(role_rules).where(role_rules.c.role_id.in_(changed)))
    rows = [
        {"role_id": role_id, "rule": rule, "permission": permission, "sort_order": position}
        for role_id in changed
        for position, (rule, permission) in enumerate(wanted[role_id])
    ]
    _insert(connection, role_rules, rows)


def default_rules(role: DefaultRole, rights: Apis) -> list[tuple[str, str]]:
    """Return the ordered rules of a default role: its declared rules, or else one rule per allowed API."""
    if role.rules:
        return list(role.rules)
    return [(api, ALLOW) for api, types in sorted(rights.items()) if role.role_type in types]


def _write_accounts(
    connection: Connection, encrypt: Callable[[str], bytes], admin_password: Callable[[], str]
) -> None:
    root = {"id": ROOT_DOMAIN_ID, "name": "ROOT", "path": "ROOT", "lineage": f"/{ROOT_DOMAIN_ID}/", "level": 0}
    _insert(connection, domains, [root])
    if connection.execute(select(users.c.id).where(users.c.id == ADMIN_USER_ID)).one_or_none() is not None:
        return
    shared = {
        "domain_id": ROOT_DOMAIN_ID,
        "account_type": AccountType.ADMIN.value,
        "role_id": ROOT_ADMIN_ROLE_ID,
    }
    _insert(
        connection,
        accounts,
        [
            {"id": SYSTEM_ACCOUNT_ID, "name": "system", **shared},
            {"id": ADMIN_ACCOUNT_ID, "name": ADMIN_USERNAME, **shared},
        ],
    )
    system = {"id": SYSTEM_USER_ID, "username": "system", "account_id": SYSTEM_ACCOUNT_ID, "firstname": "system"}
    admin = {"id": ADMIN_USER_ID, "username": ADMIN_USERNAME, "account_id": ADMIN_ACCOUNT_ID, "firstname": "Admin"}
    password_hash = PasswordHasher().hash(admin_password())
    _insert(
        connection,
        users,
        [
            {**system, "lastname": "cloud", "password_hash": None, "is_default": True},
            {**admin, "lastname": "User", "password_hash": password_hash, "is_default": True},
        ],
    )
    keys = {
        "user_id": ADMIN_USER_ID,
        "api_key": random_text(KEY_BYTES),
        "secret_key_encrypted": encrypt(random_text(KEY_BYTES)),
    }
    _insert(connection, api_keys, [keys])


def _write_os_types(connection: Connection) -> None:
    _insert_missing(connection, os_categories, [{"name": name} for name in os_types_by_category()])
    found = connection.execute(select(os_categories.c.name, os_categories.c.id))
    categories = {row.name: row.id for row in found}
    rows = [
        {"name": name, "category_id": categories[group]}
        for group, names in os_types_by_category().items()
        for name in names
    ]
    _insert_missing(connection, os_types, rows)


def _write_network_offerings(connection: Connection) -> None:
    rows = [
        {
            "name": offering.name,
            "display_text": offering.display_text,
            "guest_type": offering.guest_type,
            "services": list(offering.services),
            "specify_vlan": offering.specify_vlan,
            "availability": offering.availability,
            "is_default": True,
        }
        for offering in NETWORK_OFFERINGS
    ]
    _insert_missing(connection, network_offerings, rows)


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows that may exist already.

    If rows contain fixed ids, the table's id sequence is set above these ids.
    """
    if not rows:
        return
    connection.execute(insert(table).on_conflict_do_nothing(), rows)
    if "id" in rows[0]:
        sequence = func.pg_get_serial_sequence(table.name, "id")
        highest = select(func.max(table.c.id)).scalar_subquery()
        connection.execute(select(func.setval(sequence, func.greatest(highest, func.nextval(sequence)))))


def _insert_missing(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert those rows whose names the table does not contain yet."""
    existing = set(connection.execute(select(table.c.name)).scalars())
    fresh = [dict(row) for row in rows if row["name"] not in existing]
    if fresh:
        connection.execute(insert(table), fresh)
