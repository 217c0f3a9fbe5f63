"""The lookup of callers: users with their account, domain, role and its rules, by API key or by user name.

Each lookup is one statement. A lookup does not check credentials, nor whether the user is enabled:
``api.authenticate`` and ``services.accounts.sessions`` do that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    Text,
    and_,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by

from bulkdeploy.domain.accounts.accounts import PROJECT_REGULAR, AccountState, AccountType, Caller, Owner, RoleType
from bulkdeploy.domain.accounts.call_guards import NAMES, CallGuards
from bulkdeploy.domain.accounts.permissions import SEPARATOR, parse_rules
from bulkdeploy.domain.configuration import Scope
from bulkdeploy.store.accounts.password_locks import unlocked_password
from bulkdeploy.store.database.arrays import RECORD_SEPARATOR
from bulkdeploy.store.database.compiled_query import CompiledQuery
from bulkdeploy.store.database.default_rows import ADMIN_USER_ID, ALLOW
from bulkdeploy.store.database.request_coalescing import find_coalesced
from bulkdeploy.store.tables.accounts import (
    accounts,
    api_keys,
    domains,
    project_accounts,
    projects,
    role_rules,
    roles,
    users,
)
from bulkdeploy.store.tables.jobs import configuration_values


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The user of an API key. ``enabled`` is true if both the user and the account are enabled.

    ``guards`` are the restrictions that currently apply to the account's calls.
    """

    caller: Caller
    enabled: bool
    guards: CallGuards
    secret_key_encrypted: bytes


@dataclass(frozen=True, slots=True)
class LoginUser:
    """A user who tries to log in.

    ``password_hash`` is None if the user may not log in with a password or the password is locked.
    """

    caller: Caller
    enabled: bool
    guards: CallGuards
    password_hash: str | None
    firstname: str
    lastname: str
    timezone: str | None


def callers(*columns: ColumnElement[Any]) -> Select[Any]:
    """Return a query for all users that are not removed, with the columns of a ``Caller`` and ``columns``.

    Users of removed accounts are omitted.
    """
    value = configuration_values.c
    mine = and_(value.scope == Scope.ACCOUNT.value, value.scope_id == accounts.c.id)
    guards = (
        select(func.jsonb_object_agg(value.scope + literal(" ") + value.name, value.value, type_=JSONB))
        .where(value.name.in_(NAMES), or_(mine, value.scope == Scope.GLOBAL.value))
        .correlate(accounts)
        .scalar_subquery()
    )
    return (
        select(
            users.c.id.label("user_id"),
            users.c.uuid.label("user_uuid"),
            users.c.username,
            users.c.state.label("user_state"),
            accounts.c.id.label("account_id"),
            accounts.c.uuid.label("account_uuid"),
            accounts.c.name.label("account_name"),
            accounts.c.account_type,
            accounts.c.state.label("account_state"),
            domains.c.id.label("domain_id"),
            domains.c.uuid.label("domain_uuid"),
            domains.c.lineage,
            roles.c.id.label("role_id"),
            roles.c.role_type,
            _rules().label("rules"),
            # Every call needs the conditions, so reading them here saves a statement.
            guards.label("guards"),
            _project_rules().label("project_rules"),
            *columns,
        )
        .join(accounts, accounts.c.id == users.c.account_id)
        .join(domains, domains.c.id == accounts.c.domain_id)
        .join(roles, roles.c.id == accounts.c.role_id)
        .where(users.c.removed.is_(None), accounts.c.removed.is_(None))
    )


def _rules() -> ScalarSelect[Any]:
    """Return a subquery for the rules of the caller's role, as the text that ``parse_rules`` reads.

    ``parse_rules`` parses equal texts only once per process, so a role may have hundreds of rules.
    """
    return _rules_of(roles.c.id)


def _rules_of(role_id: ColumnElement[Any]) -> ScalarSelect[Any]:
    rule = role_rules.c
    line = case((rule.permission == ALLOW, "+"), else_="-").op("||")(rule.rule)
    ordered = aggregate_order_by(line, rule.sort_order, rule.id)
    return (
        select(func.array_to_string(func.array_agg(ordered), SEPARATOR))
        .where(rule.role_id == role_id)
        .scalar_subquery()
    )


def _project_rules() -> ScalarSelect[Any]:
    """Return a subquery for the rules that restrict an account in its projects.

    Its value is a JSON object with the id of each project's account as the key and the rules, in the format of
    ``parse_rules``, as the value. An account without a role in a project costs one look-up in a partial index.
    """
    link = project_accounts.c
    return (
        select(func.jsonb_object_agg(projects.c.account_id, _rules_of(link.role_id), type_=JSONB))
        .select_from(project_accounts.join(projects, projects.c.id == link.project_id))
        .where(
            link.account_id == accounts.c.id,
            link.role_id.is_not(None),
            link.role == PROJECT_REGULAR,
            projects.c.removed.is_(None),
        )
        .correlate(accounts)
        .scalar_subquery()
    )


def caller_of(row: Mapping[Any, Any]) -> Caller:
    """Return the caller in a row of ``callers``."""
    return Caller(
        user_id=row["user_id"],
        user_uuid=row["user_uuid"],
        username=row["username"],
        owner=Owner(
            account_id=row["account_id"],
            account_uuid=row["account_uuid"],
            account_name=row["account_name"],
            account_type=AccountType(row["account_type"]),
            domain_id=row["domain_id"],
            domain_uuid=row["domain_uuid"],
            lineage=row["lineage"],
        ),
        role_id=row["role_id"],
        role_type=RoleType(row["role_type"]),
        rules=parse_rules(row["rules"]),
        project_rules=tuple(
            (int(account_id), parse_rules(rules)) for account_id, rules in (row["project_rules"] or {}).items()
        ),
    )


def guards_of(row: Mapping[Any, Any]) -> CallGuards:
    """Return the conditions on the calls of a row of ``callers``."""
    return CallGuards.of(row["guards"] or {})


def is_enabled(row: Mapping[Any, Any]) -> bool:
    """Return whether user and account in a row of ``callers`` are both enabled."""
    return bool(row["user_state"] == row["account_state"] == AccountState.ENABLED)


KEY_HOLDERS = (
    callers(api_keys.c.api_key, api_keys.c.secret_key_encrypted)
    .join(api_keys, api_keys.c.user_id == users.c.id)
    .where(api_keys.c.api_key == func.any(func.string_to_array(bindparam("api_keys", "", Text), RECORD_SEPARATOR)))
)
BY_API_KEY = CompiledQuery(KEY_HOLDERS)

BY_USERNAME = (
    callers(unlocked_password().label("password_hash"), users.c.firstname, users.c.lastname, users.c.timezone)
    .where(func.lower(users.c.username) == func.lower(bindparam("username")), domains.c.id == bindparam("domain"))
    .order_by(users.c.id)
    .limit(1)
)


def caller_by_api_key(connection: Connection, api_key: str) -> KeyHolder | None:
    """Return the user that this API key belongs to, or None if no live user has the key.

    The user may be disabled.
    """
    return find_coalesced(connection, _callers_by_api_key, api_key)


def _callers_by_api_key(connection: Connection, keys: Sequence[str]) -> Mapping[str, KeyHolder]:
    return holders_of(BY_API_KEY.rows(connection, api_keys=RECORD_SEPARATOR.join(keys)))


def holders_of(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, KeyHolder]:
    """Convert rows of KEY_HOLDERS to ``KeyHolder`` objects, by API key."""
    return {
        row["api_key"]: KeyHolder(caller_of(row), is_enabled(row), guards_of(row), row["secret_key_encrypted"])
        for row in rows
    }


def default_admin(connection: Connection) -> Caller:
    """Return the default admin as a caller. The operator's command-line programs act in its name."""
    return caller_of(connection.execute(callers().where(users.c.id == ADMIN_USER_ID)).mappings().one())


def caller_by_id(connection: Connection, user_id: int) -> Caller | None:
    """Return the enabled user with this id, or None if the user or its account is disabled or was deleted."""
    row = connection.execute(callers().where(users.c.id == user_id)).mappings().first()
    return caller_of(row) if row is not None and is_enabled(row) else None


def user_by_name(connection: Connection, username: str, domain_id: int) -> LoginUser | None:
    """Return the user with this name in a domain, ignoring case, or None. Subdomains are not searched."""
    row = connection.execute(BY_USERNAME, {"username": username, "domain": domain_id}).mappings().first()
    if row is None:
        return None
    return LoginUser(
        caller_of(row),
        is_enabled(row),
        guards_of(row),
        row["password_hash"],
        row["firstname"],
        row["lastname"],
        row["timezone"],
    )


def domain_by_path(connection: Connection, path: str) -> int | None:
    """Return the internal id of the live domain at this path, or None if there is none.

    The path consists of the domains' names from ROOT downwards, ignoring case: ``/ROOT/a/b`` or ``a/b``. An empty
    path is ROOT.
    """
    names = [name for name in path.split("/") if name]
    if not names or names[0].lower() != "root":
        names.insert(0, "ROOT")
    query = select(domains.c.id).where(
        func.lower(domains.c.path) == "/".join(names).lower(), domains.c.removed.is_(None)
    )
    return connection.execute(query.order_by(domains.c.id).limit(1)).scalar()
