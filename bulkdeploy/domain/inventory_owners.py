"""Who an inventory names: domains, accounts, their users and what accounts own.

A part of ``domain.inventory``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bulkdeploy.domain.accounts import AccountState
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.topology import AffinityType

ROOT = "ROOT"
ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Where:
    """The line and key at which a file describes something; line 0: it is not from a file."""

    line: int = 0
    path: str = ""


NOWHERE = Where()
"""The place of what was not read from a file. It is never part of a comparison."""


@dataclass(frozen=True, slots=True, order=True)
class AccountName:
    """An account is named together with the path of its domain: two domains may have a ``web`` each."""

    name: str
    domain: str

    def __str__(self) -> str:
        return f"{self.name}@{self.domain}"


ROOT_ADMIN = AccountName(ADMIN, ROOT)
"""The one account that every installation has and a file need not describe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A domain by its path from ROOT; limits are in the unit of counts (bytes, MiB), -1: unlimited."""

    path: str
    network_domain: str | None = None
    limits: Mapping[ResourceType, int] = field(default_factory=dict)
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user; ``password`` as written by a person or ``password_hash`` (argon2id) as exported, or neither."""

    username: str
    firstname: str = ""
    lastname: str = ""
    email: str = ""
    timezone: str | None = None
    state: AccountState = AccountState.ENABLED
    password: str | None = field(default=None, repr=False)
    password_hash: str | None = field(default=None, repr=False)
    api_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKeyPair:
    """The public half of a key pair, in OpenSSH's one-line form."""

    name: str
    public_key: str
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityGroupRule:
    """One rule; its peer is a CIDR or a group (by name) of the same account."""

    direction: str
    protocol: str
    start_port: int | None = None
    end_port: int | None = None
    icmp_type: int | None = None
    icmp_code: int | None = None
    cidr: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityGroup:
    """A security group of the account it stands in."""

    name: str
    description: str = ""
    rules: tuple[SecurityGroupRule, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityGroup:
    """An affinity group of the account it stands in."""

    name: str
    type: AffinityType
    description: str = ""
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account with everything it owns; ``role`` is the name of a role, such as ``Domain Admin``."""

    name: str
    domain: str
    role: str
    state: AccountState = AccountState.ENABLED
    network_domain: str | None = None
    limits: Mapping[ResourceType, int] = field(default_factory=dict)
    users: tuple[User, ...] = ()
    ssh_key_pairs: tuple[SshKeyPair, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    affinity_groups: tuple[AffinityGroup, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)

    @property
    def full_name(self) -> AccountName:
        """The account's name with its domain."""
        return AccountName(self.name, self.domain)
