"""Reading the owners of an inventory back: domains, accounts, users and what accounts own.

What a file cannot say is left out, and ``LeftOut`` tells what and why.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, text

from bulkdeploy.domain.accounts import AccountState, AccountType
from bulkdeploy.domain.inventory_owners import (
    ROOT,
    Account,
    AccountName,
    AffinityGroup,
    Domain,
    SecurityGroup,
    SecurityGroupRule,
    SshKeyPair,
    User,
)
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.store.database.default_rows import SYSTEM_ACCOUNT_ID

T = TypeVar("T")


@dataclass(slots=True)
class LeftOut:
    """What is in the database and cannot be said in a file, with reasons."""

    reasons: list[str] = field(default_factory=list)

    def first_of_each(
        self, noun: str, rows: Iterable[Row[Any]], name: Callable[[Row[Any]], object]
    ) -> list[Row[Any]]:
        """The rows with those left out whose name an earlier one has: a file tells things apart by name."""
        found: dict[object, Row[Any]] = {}
        for row in rows:
            if found.setdefault(name(row), row) is not row:
                self.reasons.append(f"{noun} {row.name!r} ({row.uuid}): an older one has the same name")
        return list(found.values())


@dataclass(frozen=True, slots=True)
class Owners:
    """Domains and accounts, and their names by internal id."""

    domains: tuple[Domain, ...]
    accounts: tuple[Account, ...]
    paths: Mapping[int, str]
    names: Mapping[int, AccountName]


class OwnerReader:
    """Reads all owners in a fixed number of statements.

    Args:
        decrypt: reads API secrets; None leaves secrets and password hashes out.
    """

    def __init__(self, connection: Connection, left_out: LeftOut, decrypt: Callable[[bytes], str] | None) -> None:
        self._connection, self._left_out, self._decrypt = connection, left_out, decrypt

    def read(self) -> Owners:
        """Domains by path (ROOT only where something is said of it), accounts by age."""
        domains = self._rows(
            "SELECT id, uuid, name, path, network_domain FROM domains WHERE removed IS NULL ORDER BY level, id"
        )
        paths = {row.id: row.path for row in domains}
        limits = self._limits()
        described = tuple(
            Domain(path=row.path, network_domain=row.network_domain, limits=limits.get(("domain", row.id), {}))
            for row in domains
            if row.path != ROOT or row.network_domain is not None
        )
        rows = [
            row
            for row in self._rows(
                "SELECT a.id, a.uuid, a.name, a.domain_id, r.name AS role, a.state, a.network_domain,"
                " a.account_type FROM accounts a JOIN roles r ON r.id = a.role_id"
                " WHERE a.removed IS NULL ORDER BY a.id"
            )
            if row.id != SYSTEM_ACCOUNT_ID and row.account_type != AccountType.PROJECT and row.domain_id in paths
        ]
        names = {row.id: AccountName(row.name, paths[row.domain_id]) for row in rows}
        return Owners(described, self._accounts(rows, names, limits), paths, names)

    def _accounts(
        self,
        rows: Sequence[Row[Any]],
        names: Mapping[int, AccountName],
        limits: Mapping[tuple[str, int], Mapping[ResourceType, int]],
    ) -> tuple[Account, ...]:
        users, groups = self._users(), self._security_groups()
        key_pairs = self._owned("ssh_key_pairs", "public_key")
        affinity = self._owned("affinity_groups", "affinity_type, description")
        return tuple(
            Account(
                name=row.name,
                domain=names[row.id].domain,
                role=row.role,
                state=AccountState(row.state),
                network_domain=row.network_domain,
                limits={} if row.account_type == AccountType.ADMIN else limits.get(("account", row.id), {}),
                users=tuple(users.get(row.id, ())),
                ssh_key_pairs=tuple(
                    SshKeyPair(name=pair.name, public_key=pair.public_key) for pair in key_pairs.get(row.id, ())
                ),
                security_groups=tuple(groups.get(row.id, ())),
                affinity_groups=tuple(
                    AffinityGroup(
                        name=group.name, type=AffinityType(group.affinity_type), description=group.description
                    )
                    for group in affinity.get(row.id, ())
                ),
            )
            for row in rows
        )

    def _users(self) -> dict[int, list[User]]:
        rows = self._rows(
            "SELECT u.*, k.api_key, k.secret_key_encrypted FROM users u LEFT JOIN LATERAL ("
            " SELECT api_key, secret_key_encrypted FROM api_keys WHERE user_id = u.id ORDER BY id DESC LIMIT 1) k"
            " ON true WHERE u.removed IS NULL ORDER BY u.id"
        )
        return _by_account(rows, self._user)

    def _user(self, row: Row[Any]) -> User:
        decrypt = self._decrypt
        has_keys = decrypt is not None and row.api_key is not None
        return User(
            username=row.username,
            firstname=row.firstname,
            lastname=row.lastname,
            email=row.email,
            timezone=row.timezone,
            state=AccountState(row.state),
            password_hash=None if decrypt is None else row.password_hash,
            api_key=row.api_key if has_keys else None,
            secret_key=None if decrypt is None or not has_keys else decrypt(row.secret_key_encrypted),
        )

    def _security_groups(self) -> dict[int, list[SecurityGroup]]:
        rules: dict[int, list[SecurityGroupRule]] = {}
        rows = self._rows(
            "SELECT r.*, g.name AS group_name, p.name AS peer,"
            " p.account_id IS DISTINCT FROM g.account_id AS is_foreign"
            " FROM security_group_rules r JOIN security_groups g ON g.id = r.security_group_id"
            " LEFT JOIN security_groups p ON p.id = r.peer_group_id WHERE g.removed IS NULL ORDER BY r.id"
        )
        for row in rows:
            if row.peer is not None and row.is_foreign:
                self._left_out.reasons.append(
                    f"a rule of security group {row.group_name!r} ({row.uuid}): its peer is another account's group"
                )
                continue
            rule = SecurityGroupRule(
                direction=row.direction,
                protocol=row.protocol,
                start_port=row.start_port,
                end_port=row.end_port,
                icmp_type=row.icmp_type,
                icmp_code=row.icmp_code,
                cidr=row.cidr,
                group=row.peer,
            )
            rules.setdefault(row.security_group_id, []).append(rule)
        groups = self._rows("SELECT * FROM security_groups WHERE removed IS NULL ORDER BY id")
        return _by_account(
            groups,
            lambda row: SecurityGroup(
                name=row.name, description=row.description, rules=tuple(rules.get(row.id, ()))
            ),
        )

    def _owned(self, table: str, columns: str) -> dict[int, list[Row[Any]]]:
        rows = self._rows(
            f"SELECT account_id, name, {columns} FROM {table}"  # noqa: S608 - our own names
            " WHERE removed IS NULL AND account_id IS NOT NULL ORDER BY id"
        )
        return _by_account(rows, lambda row: row)

    def _limits(self) -> dict[tuple[str, int], dict[ResourceType, int]]:
        found: dict[tuple[str, int], dict[ResourceType, int]] = {}
        for row in self._rows(
            "SELECT owner_kind, owner_id, resource_type, max FROM resource_limits ORDER BY 1, 2, 3"
        ):
            found.setdefault((row.owner_kind, row.owner_id), {})[ResourceType(row.resource_type)] = row.max
        return found

    def _rows(self, query: str) -> Sequence[Row[Any]]:
        return self._connection.execute(text(query)).all()


def _by_account(rows: Iterable[Row[Any]], make: Callable[[Row[Any]], T]) -> dict[int, list[T]]:
    found: dict[int, list[T]] = {}
    for row in rows:
        found.setdefault(row.account_id, []).append(make(row))
    return found
