"""Callers and owners: roles, account types, the caller of a request and the owner of a resource.

These are values without behaviour of their own. ``store.accounts`` reads them, and every layer above uses them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from uuid import UUID

from bulkdeploy.domain.accounts.permissions import NO_RULES, RoleRules


class RoleType(StrEnum):
    """The role types in CloudStack's spelling (response field ``roletype``)."""

    ADMIN = "Admin"
    RESOURCE_ADMIN = "ResourceAdmin"
    DOMAIN_ADMIN = "DomainAdmin"
    USER = "User"


class AccountType(IntEnum):
    """The account types by CloudStack's numbers (response field ``accounttype``)."""

    USER = 0
    ADMIN = 1
    DOMAIN_ADMIN = 2
    RESOURCE_DOMAIN_ADMIN = 3
    READ_ONLY_ADMIN = 4
    PROJECT = 5


ACCOUNT_TYPE_NAMES: Mapping[AccountType, str] = {
    AccountType.USER: "NORMAL",
    **{kind: kind.name for kind in AccountType if kind is not AccountType.USER},
}
"""Names of account types as CloudStack's extensions get them."""


class AccountState(StrEnum):
    """The states of users and accounts. Only enabled ones can call the API and get new VMs."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    LOCKED = "locked"


PROJECT_ADMIN, PROJECT_REGULAR = "Admin", "Regular"
"""The kinds of members of a project: only Admin members manage the project."""

EVERY_ROLE = frozenset(RoleType)
EVERY_ADMIN = EVERY_ROLE - {RoleType.USER}
ROOT_ADMIN_ONLY = frozenset({RoleType.ADMIN})
INFRASTRUCTURE_ADMINS = frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN})
ADMINS = frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN, RoleType.DOMAIN_ADMIN})

ACCOUNT_TYPES: Mapping[RoleType, AccountType] = {
    RoleType.ADMIN: AccountType.ADMIN,
    RoleType.RESOURCE_ADMIN: AccountType.RESOURCE_DOMAIN_ADMIN,
    RoleType.DOMAIN_ADMIN: AccountType.DOMAIN_ADMIN,
    RoleType.USER: AccountType.USER,
}
"""The type of an account by the type of its role (cloudstack-protocol.md 2.3)."""

RANKS: Mapping[RoleType, int] = {
    RoleType.USER: 0,
    RoleType.DOMAIN_ADMIN: 1,
    RoleType.RESOURCE_ADMIN: 2,
    RoleType.ADMIN: 3,
}
"""How far role types reach, whatever their rules."""

NETWORK_DOMAIN = re.compile(
    r"(?=.{1,190}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.I
)
"""What the DNS domain of networks may look like."""

Apis = Mapping[str, frozenset[RoleType]]
"""All APIs by name, each with the role types that may call it if no rule of their role matches it."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The permissions of a role: its type and its own rules in their order."""

    role_type: RoleType
    rules: RoleRules = NO_RULES

    def may_call(self, api: str, authorized: frozenset[RoleType]) -> bool:
        """Return whether the role may call an API; ``authorized`` decides only if no rule matches the API."""
        verdict = self.rules.verdict(api)
        return self.role_type in authorized if verdict is None else verdict

    def beyond(self, other: "Rights", apis: Apis) -> str | None:
        """Return one permission of this role that the other role lacks, in words, or None if it lacks none."""
        if RANKS[self.role_type] > RANKS[other.role_type]:
            return f"reach as far as role type {self.role_type.value}"
        for api, authorized in apis.items():
            if self.may_call(api, authorized) and not other.may_call(api, authorized):
                return f"call {api}"
        return None


@dataclass(frozen=True, slots=True)
class Owner:
    """The account that owns a resource, with its domain.

    ``lineage`` is the path of internal domain ids from ROOT down, such as ``/1/4/9/``. A domain is inside another
    domain if its lineage starts with the other's lineage.
    """

    account_id: int
    account_uuid: UUID
    account_name: str
    account_type: AccountType
    domain_id: int
    domain_uuid: UUID
    lineage: str

    @property
    def is_root_admin(self) -> bool:
        """True for accounts to which resource limits do not apply (CloudStack's ``checkResourceLimit``)."""
        return self.account_type is AccountType.ADMIN


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated user of one request, with the account and the role of the request.

    Attributes:
        rules: the rules of the role, in their order.
        project_rules: the rules that restrict the caller in projects, by the id of the account behind the project.
        closed_projects: the accounts behind projects in which these rules deny the call.
    """

    user_id: int
    user_uuid: UUID
    username: str
    owner: Owner
    role_id: int
    role_type: RoleType
    rules: RoleRules = NO_RULES
    project_rules: tuple[tuple[int, RoleRules], ...] = ()
    closed_projects: frozenset[int] = frozenset()

    @property
    def is_root_admin(self) -> bool:
        """True if the role of the caller has the type Admin. Such a caller may see everything."""
        return self.role_type is RoleType.ADMIN

    @property
    def rights(self) -> Rights:
        """The permissions of the caller's role."""
        return Rights(self.role_type, self.rules)

    def may_call(self, api: str, authorized: frozenset[RoleType]) -> bool:
        """Return whether the caller's role may call an API, by the rules of ``Rights.may_call``."""
        return self.rights.may_call(api, authorized)

    def calling(self, api: str) -> "Caller":
        """Return a copy of the caller for a call of ``api``.

        ``closed_projects`` of the copy are the projects whose rules deny the caller this API.
        """
        if not self.project_rules:
            return self
        denied = (account for account, rules in self.project_rules if rules.verdict(api) is False)
        return replace(self, closed_projects=frozenset(denied))
