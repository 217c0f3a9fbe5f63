"""Reading who an inventory file names: domains, accounts, users and what accounts own."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_network

from bulkdeploy.domain.accounts import AccountState
from bulkdeploy.domain.inventory_owners import (
    ROOT,
    ROOT_ADMIN,
    Account,
    AccountName,
    AffinityGroup,
    Domain,
    SecurityGroup,
    SecurityGroupRule,
    SshKeyPair,
    User,
    Where,
)
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.domain.ssh_keys import fingerprint
from bulkdeploy.domain.topology import AffinityType
from bulkdeploy.domain.units import MIB
from bulkdeploy.services.inventory.inventory_document import Keys, Problems, Value
from bulkdeploy.services.inventory.inventory_values import (
    MISSING,
    choice,
    domain_path,
    matching,
    name,
    one_of,
    or_word,
    reference,
    size,
    text,
    whole,
)

MOST_COUNTED = 10**15
MOST_BYTES = 2**62
PROTOCOL_NUMBER = re.compile(r"1?[0-9]?[0-9]|2[0-4][0-9]|25[0-5]", re.ASCII)
API_KEY = re.compile(r"[A-Za-z0-9_-]{16,256}", re.ASCII)
ROOT_ADMIN_ROLE = "Root Admin"
PORT = whole(0, 65535)
PROTOCOL = matching(
    "must be tcp, udp, icmp, all or the number of a protocol",
    lambda written: (
        written if written in ("tcp", "udp", "icmp", "all") or PROTOCOL_NUMBER.fullmatch(written) else None
    ),
    "tcp",
)
PEER = matching(
    "must be an IPv4 or IPv6 network such as 10.0.0.0/8",
    lambda written: written if _is_network(written) else None,
    "",
)
PASSWORD = matching(
    "must be a password of 1 to 1024 characters",
    lambda written: written if 0 < len(written) <= 1024 else None,
    "",
    secret=True,
)
PASSWORD_HASH = matching(
    "must be an argon2id hash as an export writes it",
    lambda written: written if written.startswith("$argon2id$") and len(written) <= 1024 else None,
    "",
    secret=True,
)


def refuse_twice(problems: Problems, noun: str, described: Iterable[tuple[str, Where]]) -> None:
    """Refuse names that are given to two things of a kind; capitals do not make a difference.

    Of things that one line describes, only the first is told.
    """
    first: dict[str, Where] = {}
    told: set[Where] = set()
    for called, where in described:
        if MISSING in called:
            continue
        other = first.setdefault(called.lower(), where)
        if other is not where and where not in told:
            told.add(where)
            problems.add(where, f"{noun} {called!r} is described twice: the first one is in line {other.line}")


def read_domains(keys: Keys, problems: Problems) -> tuple[Domain, ...]:
    """The domains; parents must be described before or after their children."""
    domains = keys.each("domains", "a domain", _read_domain)
    refuse_twice(problems, "domain", ((domain.path, domain.where) for domain in domains))
    paths = {ROOT, *(domain.path for domain in domains)}
    for domain in domains:
        parent = domain.path.rpartition("/")[0] or ROOT
        if parent not in paths:
            problems.add(domain.where, f"its parent {parent!r} is not described in this file")
    return domains


def _read_domain(keys: Keys) -> Domain:
    domain = Domain(
        path=keys.need("path", domain_path()),
        network_domain=keys.get("network_domain", name(), None),
        limits=read_limits(keys),
        where=keys.where,
    )
    if domain.path == ROOT and domain.limits:
        keys.refuse("limits", "ROOT is never limited")
    return domain


def read_accounts(keys: Keys, problems: Problems, domains: Collection[str]) -> tuple[Account, ...]:
    """The accounts with all they own; every name must be unique among its kind and owner."""
    accounts = keys.each("accounts", "an account", lambda item: _read_account(item, problems, domains))
    refuse_twice(problems, "account", ((str(account.full_name), account.where) for account in accounts))
    users = [(f"{user.username}@{account.domain}", user.where) for account in accounts for user in account.users]
    refuse_twice(problems, "user", users)
    keys_given = [
        (user.api_key, user.where) for account in accounts for user in account.users if user.api_key is not None
    ]
    first: dict[str, Where] = {}
    for api_key, where in keys_given:
        if first.setdefault(api_key, where) is not where:
            problems.add(where, f"its api_key is that of line {first[api_key].line} too")
    return accounts


def accounts_by_name(accounts: Iterable[Account]) -> dict[str, AccountName]:
    """What names an account: ``name@ROOT/domain``, or its name alone where only one account has it."""
    full = dict.fromkeys([ROOT_ADMIN, *(account.full_name for account in accounts)])
    alike = Counter(account.name for account in full)
    known = {str(account): account for account in full}
    for account in full:
        if alike[account.name] == 1:
            known.setdefault(account.name, account)
    return known


def read_limits(keys: Keys) -> Mapping[ResourceType, int]:
    """``limits``: most of each resource type that the owner may have, or ``unlimited``."""

    def read(items: Keys) -> dict[ResourceType, int]:
        given = {kind: items.get(kind.wire_name, _limit(kind), None) for kind in ResourceType}
        return {kind: most for kind, most in given.items() if most is not None}

    return keys.one("limits", "limits", read) or {}


def _limit(kind: ResourceType) -> Value[int]:
    if kind.counted_in_bytes:
        return or_word("unlimited", UNLIMITED, size(0, MOST_BYTES, 1))
    if kind is ResourceType.MEMORY:
        return or_word("unlimited", UNLIMITED, size(0, MOST_BYTES // MIB, MIB))
    return or_word("unlimited", UNLIMITED, whole(0, MOST_COUNTED))


def _read_account(keys: Keys, problems: Problems, domains: Collection[str]) -> Account:
    groups = keys.each("security_groups", "a security group", _read_security_group)
    group_names = {group.name for group in groups}
    for group in groups:
        for rule in group.rules:
            if rule.group is not None and rule.group not in group_names:
                problems.add(group.where, f"a rule names group {rule.group!r}, which the account does not have")
    called, domain = keys.need("name", name()), keys.get("domain", reference("a domain", domains), ROOT)
    is_admin = AccountName(called.lower(), domain) == ROOT_ADMIN
    account = Account(
        name=called,
        domain=domain,
        role=keys.get("role", name(), ROOT_ADMIN_ROLE if is_admin else "User"),
        state=keys.get("state", choice(AccountState), AccountState.ENABLED),
        network_domain=keys.get("network_domain", name(), None),
        limits=read_limits(keys),
        users=keys.each("users", "a user", _read_user),
        ssh_key_pairs=keys.each("ssh_key_pairs", "an SSH key pair", _read_key_pair),
        security_groups=groups,
        affinity_groups=keys.each("affinity_groups", "an affinity group", _read_affinity_group),
        where=keys.where,
    )
    if is_admin and account.role != ROOT_ADMIN_ROLE:
        keys.refuse("role", f"the admin of ROOT keeps its role, {ROOT_ADMIN_ROLE}")
    if account.role == ROOT_ADMIN_ROLE and account.limits:
        keys.refuse("limits", "root admins are never limited")
    owned: dict[str, Iterable[SshKeyPair | SecurityGroup | AffinityGroup]] = {
        "SSH key pair": account.ssh_key_pairs,
        "security group": account.security_groups,
        "affinity group": account.affinity_groups,
    }
    for noun, items in owned.items():
        refuse_twice(problems, noun, ((item.name, item.where) for item in items))
    return account


def _read_user(keys: Keys) -> User:
    user = User(
        username=keys.need("username", name()),
        firstname=keys.get("firstname", text(255), ""),
        lastname=keys.get("lastname", text(255), ""),
        email=keys.get("email", text(255), ""),
        timezone=keys.get("timezone", name(), None),
        state=keys.get("state", choice(AccountState), AccountState.ENABLED),
        password=keys.get("password", PASSWORD, None),
        password_hash=keys.get("password_hash", PASSWORD_HASH, None),
        api_key=keys.get("api_key", _key("an API key"), None),
        secret_key=keys.get("secret_key", _key("a secret key"), None),
        where=keys.where,
    )
    if user.password is not None and user.password_hash is not None:
        keys.refuse("password_hash", "is given together with a password: give one of them")
    if (user.api_key is None) is not (user.secret_key is None):
        keys.refuse("secret_key", "must be given together with api_key")
    return user


def _key(noun: str) -> Value[str]:
    return matching(
        f"must be {noun}: 16 to 256 letters, digits, hyphens and underscores",
        lambda written: written if API_KEY.fullmatch(written) else None,
        "",
        secret=True,
    )


def _is_network(written: str) -> bool:
    try:
        ip_network(written, strict=False)
    except ValueError:
        return False
    return "/" in written


def _public_key(written: str) -> str | None:
    try:
        fingerprint(written)
    except ValueError:
        return None
    return written


def _read_key_pair(keys: Keys) -> SshKeyPair:
    return SshKeyPair(
        name=keys.need("name", name()),
        public_key=keys.need(
            "public_key",
            matching("must be a public key in OpenSSH's one-line form", _public_key, MISSING),
        ),
        where=keys.where,
    )


def _read_security_group(keys: Keys) -> SecurityGroup:
    return SecurityGroup(
        name=keys.need("name", name()),
        description=keys.get("description", text(), ""),
        rules=keys.each("rules", "a security group rule", _read_rule),
        where=keys.where,
    )


def _read_rule(keys: Keys) -> SecurityGroupRule:
    rule = SecurityGroupRule(
        direction=keys.get("direction", one_of("ingress", "egress"), "ingress"),
        protocol=keys.get("protocol", PROTOCOL, "tcp"),
        start_port=keys.get("start_port", PORT, None),
        end_port=keys.get("end_port", PORT, None),
        icmp_type=keys.get("icmp_type", whole(-1, 255), None),
        icmp_code=keys.get("icmp_code", whole(-1, 255), None),
        cidr=keys.get("cidr", PEER, None),
        group=keys.get("group", name(), None),
    )
    if (rule.cidr is None) is (rule.group is None):
        keys.refuse("cidr", "a rule has either a cidr or a group")
    if (rule.start_port is None) is not (rule.end_port is None):
        keys.refuse("end_port", "must be given together with start_port")
    elif rule.start_port is not None and rule.end_port is not None and rule.start_port > rule.end_port:
        keys.refuse("end_port", f"must not be below start_port {rule.start_port}")
    return rule


def _read_affinity_group(keys: Keys) -> AffinityGroup:
    return AffinityGroup(
        name=keys.need("name", name()),
        type=keys.need("type", choice(AffinityType)),
        description=keys.get("description", text(), ""),
        where=keys.where,
    )
