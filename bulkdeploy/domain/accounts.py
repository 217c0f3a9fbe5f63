"""Who calls and who owns: roles, account types, the caller of a request and the owner of a resource.

Pure values. Looked up by ``store.accounts``; used by every layer above.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from uuid import UUID

from bulkdeploy.domain.permissions import RoleRule, verdict


class RoleType(StrEnum):
    """Role types as CloudStack writes them (``roletype`` on the wire)."""

    ADMIN = "Admin"
    RESOURCE_ADMIN = "ResourceAdmin"
    DOMAIN_ADMIN = "DomainAdmin"
    USER = "User"


class AccountType(IntEnum):
    """Account types by their wire number (``accounttype``)."""

    USER = 0
    ADMIN = 1
    DOMAIN_ADMIN = 2
    RESOURCE_DOMAIN_ADMIN = 3
    READ_ONLY_ADMIN = 4
    PROJECT = 5


class AccountState(StrEnum):
    """States of users and accounts; only ``enabled`` may call or be deployed for."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    LOCKED = "locked"


EVERY_ROLE = frozenset(RoleType)
EVERY_ADMIN = EVERY_ROLE - {RoleType.USER}
ROOT_ADMIN_ONLY = frozenset({RoleType.ADMIN})


@dataclass(frozen=True, slots=True)
class Owner:
    """The account that a resource belongs to, with its place in the domain tree.

    ``lineage`` is the path of internal domain ids from ROOT down, such as ``/1/4/9/``: a
    domain is inside another when its lineage starts with the other's.
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
        """True for accounts that resource limits never bind (CloudStack's ``checkResourceLimit``)."""
        return self.account_type is AccountType.ADMIN


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated user of one request, with the account and the role it acts in.

    ``rules`` are the role's own, in their order.
    """

    user_id: int
    user_uuid: UUID
    username: str
    owner: Owner
    role_id: int
    role_type: RoleType
    rules: tuple[RoleRule, ...] = ()

    @property
    def is_root_admin(self) -> bool:
        """True when the caller's role is of type Admin: nothing is hidden from it."""
        return self.role_type is RoleType.ADMIN

    def may_call(self, api: str, roles: frozenset[RoleType]) -> bool:
        """Whether the caller may use an API that is meant for ``roles`` where no rule of its role decides."""
        decided = verdict(self.rules, api)
        return self.role_type in roles if decided is None else decided
