"""Permission checks for the administration of users. Callers can neither grant nor take over rights that they lack.

A caller who can set a user's password or keys, or choose an account's role, could act with the rights of this user
or role. Therefore all such calls use these checks. Source: CloudStack's checks against role escalation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.domain.accounts.accounts import AccountType, Apis, Caller, Owner, Rights, RoleType
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, PermissionDenied
from bulkdeploy.services.ownership import named_accounts, require_all_access, require_domains
from bulkdeploy.store.accounts.accounts import SYSTEM_ACCOUNT_ID, lock_accounts
from bulkdeploy.store.accounts.domains import lock_domains
from bulkdeploy.store.accounts.roles import rights_of


@dataclass(frozen=True, slots=True)
class AccountParameters:
    """The parameters that name the account of a call: either its id, or its name and its domain."""

    account: EntityRef | None = None
    name: str | None = None
    domain: EntityRef | None = None


def require_rights(caller: Caller, rights: Rights, apis: Apis, what: str) -> None:
    """Raise PermissionDenied if ``rights`` permit anything that the caller's rights do not permit.

    Raises:
        PermissionDenied: the caller lacks a right. The error's text contains ``what``, the owner of the rights.
    """
    beyond = rights.beyond(caller.rights, apis)
    if beyond is not None:
        raise PermissionDenied(
            f"{caller.username} may not administer {what}, whose role permits more: it may {beyond}"
        )


def lock_administered(
    connection: Connection, caller: Caller, requested: AccountParameters, apis: Apis
) -> tuple[Owner, Row[Any]]:
    """Lock an account that a call changes, and return its owner and its row.

    The account must be the caller's own account or an account that the caller administers. The domain of the
    account is locked before the account.

    Raises:
        InvalidCombination: neither an id nor a name of an account is given.
        InvalidParameter: there is no such account, it was deleted, or it is the account of a project.
        PermissionDenied: the account is outside the caller's domains, or has rights that the caller lacks.
    """
    ((owner, row),) = lock_all_administered(connection, caller, [requested], apis)
    return owner, row


def lock_all_administered(
    connection: Connection, caller: Caller, requested: Sequence[AccountParameters], apis: Apis
) -> list[tuple[Owner, Row[Any]]]:
    """Lock several accounts and return their owners and rows in order, as ``lock_administered`` does for one.

    All domains are locked first, and then all accounts.
    """
    owners = _named(connection, caller, list(dict.fromkeys(requested)))
    lock_domains(connection, {owner.domain_id for owner in owners.values()})
    rows = lock_accounts(connection, {owner.account_id for owner in owners.values()})
    rights = rights_of(connection, {row.role_id for row in rows.values()})
    for one, owner in owners.items():
        row = rows.get(owner.account_id)
        name, value = ("account", one.name) if one.account is None else ("id", str(one.account.uuid))
        if row is None:
            raise InvalidParameter(name, value, "the account was deleted")
        if owner.account_type is AccountType.PROJECT or owner.account_id == SYSTEM_ACCOUNT_ID:
            raise InvalidParameter(name, value, "the account is an internal account of the service")
        require_administered(caller, owner, rights[row.role_id], apis, f"account {owner.account_name}")
    return [(owners[one], rows[owners[one].account_id]) for one in requested]


def require_administered(caller: Caller, owner: Owner, rights: Rights, apis: Apis, what: str) -> None:
    """Raise PermissionDenied unless the caller may administer an account.

    An account may administer itself. Other callers must be admins of a domain above the account and must have all
    of the account's ``rights``.

    Raises:
        PermissionDenied: the caller may not administer the account. The error's text contains ``what``, the object
            of the account that the caller named.
    """
    if owner.account_id == caller.owner.account_id:
        return
    above = caller.is_root_admin or owner.lineage.startswith(caller.owner.lineage)
    if caller.role_type is RoleType.USER or not above:
        raise PermissionDenied(f"{caller.username} does not have permission to operate with resource {what}")
    require_rights(caller, rights, apis, f"account {owner.account_name}")


def check_name(parameter: str, value: str, *, forbidden: str = "") -> None:
    """Raise InvalidParameter if a new name is not valid.

    A name must not be empty, begin or end with blanks, or contain a forbidden character.
    """
    if not value or value != value.strip():
        raise InvalidParameter(parameter, value, "it must not be empty, nor begin or end with blanks")
    wrong = sorted(set(forbidden) & set(value))
    if wrong:
        raise InvalidParameter(parameter, value, f"it must not contain {' '.join(wrong)}")


def _named(
    connection: Connection, caller: Caller, requested: Sequence[AccountParameters]
) -> dict[AccountParameters, Owner]:
    by_id = {one: f"account {one.account.uuid}" for one in requested if one.account is not None}
    found = require_all_access(connection, caller, {by_id[one]: one.account.id for one in by_id if one.account})
    by_name = [one for one in requested if one.account is None]
    if any(one.name is None for one in by_name):
        raise InvalidCombination(
            ("id", "account"), "id, or account and domainid, must be given to name the account"
        )
    require_domains(connection, caller, [one.domain for one in by_name if one.domain is not None])
    named = named_accounts(connection, caller, [(one.name or "", one.domain) for one in by_name])
    return {one: found[what] for one, what in by_id.items()} | dict(zip(by_name, named, strict=True))
