"""Writing the owners of an inventory: domains, accounts, users with keys, limits, what accounts own."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlalchemy import Connection, select, text

from bulkdeploy.domain.accounts import ACCOUNT_TYPES, RoleType
from bulkdeploy.domain.inventory_owners import ROOT, Account, AccountName, Domain, User
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.store.accounts.resource_limits import note_use
from bulkdeploy.store.inventory.inventory_staging import Changes, InventoryConflict, Upsert, merge
from bulkdeploy.store.tables.accounts import accounts as accounts_table
from bulkdeploy.store.tables.accounts import api_keys, roles, users
from bulkdeploy.store.tables.accounts import domains as domains_table
from bulkdeploy.store.tables.ledger import resource_limits

DOMAINS = Upsert(domains_table, ("parent_id", "name"), folded=("name",), once=("path", "lineage", "level"))
ACCOUNTS = Upsert(accounts_table, ("domain_id", "name"), folded=("name",))
USERS = Upsert(users, ("account_id", "username"), folded=("username",), kept=("password_hash",))
API_KEYS = Upsert(api_keys, ("api_key",), once=("user_id",))


class Secrets(Protocol):
    """How secrets are kept: keys encrypted so that they can be read again, passwords as hashes."""

    def encrypt(self, secret: str) -> bytes:
        """The secret, unreadable at rest."""

    def decrypt(self, token: bytes) -> str:
        """The secret again."""

    def hash_password(self, password: str) -> str:
        """A hash with a salt of its own."""

    def is_password(self, password_hash: str, password: str) -> bool:
        """Whether the hash is of this password."""


def write_domains(connection: Connection, domains: Sequence[Domain], changes: Changes) -> dict[str, int]:
    """The domains, parents first; ids by path."""
    root = connection.execute(select(domains_table.c.id).where(domains_table.c.parent_id.is_(None))).scalar_one()
    ids = {ROOT: root}
    for level in range(1 + max((domain.path.count("/") for domain in domains), default=0)):
        of_level = [domain for domain in domains if domain.path.count("/") == level]
        rows = [_domain_row(domain, ids, level) for domain in of_level]
        found = DOMAINS.write(connection, rows, changes, "domains")
        ids.update(zip((domain.path for domain in of_level), found, strict=True))
        connection.execute(
            text(
                "UPDATE domains d SET lineage = p.lineage || d.id || '/' FROM domains p"
                " WHERE p.id = d.parent_id AND d.lineage = ''"
            )
        )
    limits = [("domain", ids[domain.path], domain.limits) for domain in domains]
    _write_limits(connection, limits, changes)
    return ids


def _domain_row(domain: Domain, ids: Mapping[str, int], level: int) -> dict[str, object]:
    parent, _, called = domain.path.rpartition("/")
    return {
        "parent_id": ids[parent] if parent else None,
        "name": called,
        "path": domain.path,
        "lineage": "",
        "level": level,
        "network_domain": domain.network_domain,
    }


def _write_limits(
    connection: Connection, limits: Sequence[tuple[str, int, Mapping[ResourceType, int]]], changes: Changes
) -> None:
    rows = [
        {"owner_kind": kind, "owner_id": owner, "resource_type": resource, "max": most}
        for kind, owner, given in limits
        for resource, most in given.items()
    ]
    merge(connection, resource_limits, rows, changes, "limits")
    note_use(connection)


def write_accounts(
    connection: Connection, accounts: Sequence[Account], domain_ids: Mapping[str, int], changes: Changes
) -> dict[AccountName, int]:
    """The accounts and their limits; ids by full name, of every account that there is.

    Raises:
        InventoryConflict: a role does not exist.
    """
    known = {row.name: row for row in connection.execute(select(roles).where(roles.c.removed.is_(None)))}
    for account in accounts:
        if account.role not in known:
            raise InventoryConflict(
                account.where, f"there is no role {account.role!r}; there are {', '.join(known)}"
            )
    rows = [
        {
            "domain_id": domain_ids[account.domain],
            "name": account.name,
            "account_type": ACCOUNT_TYPES[RoleType(known[account.role].role_type)],
            "role_id": known[account.role].id,
            "state": account.state,
            "network_domain": account.network_domain,
        }
        for account in accounts
    ]
    found = ACCOUNTS.write(connection, rows, changes, "accounts")
    ids = dict(zip((account.full_name for account in accounts), found, strict=True))
    limits = [("account", ids[account.full_name], account.limits) for account in accounts]
    _write_limits(connection, limits, changes)
    return existing_accounts(connection) | ids


def existing_accounts(connection: Connection) -> dict[AccountName, int]:
    """Ids of the accounts of ROOT: its admin may be named without being described."""
    rows = connection.execute(
        select(accounts_table.c.name, accounts_table.c.id)
        .join(domains_table, domains_table.c.id == accounts_table.c.domain_id)
        .where(domains_table.c.parent_id.is_(None), accounts_table.c.removed.is_(None))
    )
    return {AccountName(row.name, ROOT): row.id for row in rows}


def write_users(
    connection: Connection,
    accounts: Sequence[Account],
    account_ids: Mapping[AccountName, int],
    secrets: Secrets,
    changes: Changes,
) -> None:
    """The users with passwords and API keys.

    Raises:
        InventoryConflict: a user name or an API key belongs to somebody else.
    """
    owned = [(account_ids[account.full_name], user) for account in accounts for user in account.users]
    if not owned:
        return
    hashes = {
        (row.account_id, row.username.lower()): row.password_hash
        for row in connection.execute(
            select(users.c.account_id, users.c.username, users.c.password_hash).where(
                users.c.account_id.in_({account for account, _ in owned}), users.c.removed.is_(None)
            )
        )
    }
    rows = [
        {
            "account_id": account,
            "username": user.username,
            "firstname": user.firstname,
            "lastname": user.lastname,
            "email": user.email,
            "timezone": user.timezone,
            "state": user.state,
            "password_hash": _password_hash(user, hashes.get((account, user.username.lower())), secrets),
        }
        for account, user in owned
    ]
    ids = USERS.write(connection, rows, changes, "users")
    _refuse_taken_names(connection, ids, [user for _, user in owned])
    _write_keys(connection, dict(zip(ids, (user for _, user in owned), strict=True)), secrets, changes)


def _password_hash(user: User, stored: str | None, secrets: Secrets) -> str | None:
    """The hash to store; the stored one where it already is of this password."""
    if user.password is None:
        return user.password_hash
    if stored is not None and secrets.is_password(stored, user.password):
        return stored
    return secrets.hash_password(user.password)


def _refuse_taken_names(connection: Connection, ids: Sequence[int], written: Sequence[User]) -> None:
    """User names are unique in a domain, whatever the account: people log in with name and domain."""
    taken = connection.execute(
        text(
            "SELECT u.id FROM users u JOIN accounts a ON a.id = u.account_id JOIN accounts b ON"
            " b.domain_id = a.domain_id JOIN users v ON v.account_id = b.id AND v.id <> u.id"
            " AND lower(v.username) = lower(u.username) AND v.removed IS NULL"
            " WHERE u.id = ANY(:ids) ORDER BY u.id LIMIT 1"
        ),
        {"ids": list(ids)},
    ).scalar_one_or_none()
    if taken is not None:
        user = written[list(ids).index(taken)]
        raise InventoryConflict(user.where, f"another account of the domain has a user {user.username!r}")


def _write_keys(connection: Connection, by_id: Mapping[int, User], secrets: Secrets, changes: Changes) -> None:
    """Write the API keys whose secret is not stored already; older keys of a user stay valid."""
    wanted = {user.api_key: (user_id, user) for user_id, user in by_id.items() if user.api_key is not None}
    stored = connection.execute(
        select(api_keys.c.api_key, api_keys.c.secret_key_encrypted, api_keys.c.user_id).where(
            api_keys.c.api_key.in_(list(wanted))
        )
    )
    for row in stored:
        user_id, user = wanted[row.api_key]
        if row.user_id != user_id:
            raise InventoryConflict(user.where, "its api_key is another user's")
        if secrets.decrypt(row.secret_key_encrypted) == user.secret_key:
            del wanted[row.api_key]
    rows = [
        {"api_key": key, "user_id": user_id, "secret_key_encrypted": secrets.encrypt(user.secret_key or "")}
        for key, (user_id, user) in wanted.items()
    ]
    API_KEYS.write(connection, rows, changes, "API keys")
