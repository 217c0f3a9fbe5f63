"""Accounts: made with their first user, changed, enabled, disabled, locked and deleted (reference section 8.13).

Lock order: the domain's row, the account's, its users', and then as ADR 5 has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import (
    ACCOUNT_TYPES,
    AccountState,
    Apis,
    Caller,
    Owner,
    RoleType,
)
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.services.accounts.account_removal import RemovalCall, remove, stop_vms
from bulkdeploy.services.accounts.authority import (
    AccountParameters,
    check_name,
    check_network_domain,
    given_texts,
    lock_administered,
    require_rights,
)
from bulkdeploy.services.accounts.users import add_user
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import require_domain
from bulkdeploy.store.accounts import accounts, roles
from bulkdeploy.store.accounts.account_removal import projects_only_managed_by
from bulkdeploy.store.accounts.domains import lock_domain
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.database.default_rows import DEFAULT_ROLE_IDS, ROOT_DOMAIN_ID
from bulkdeploy.store.deployments.deployment_facts import ensure_default_security_group
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event

ROLE_OF_TYPE = {kind.value: role for role, kind in ACCOUNT_TYPES.items()}
COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.account.{}"


@dataclass(frozen=True, slots=True)
class NewAccount:
    """An account to make, as asked for; ``account_type`` is the wire's number."""

    name: str | None
    domain: EntityRef | None
    role: EntityRef | None
    account_type: int | None
    network_domain: str | None


def create_account(
    connection: Connection, caller: Caller, apis: Apis, asked: NewAccount, user: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Make an account, its ``default`` security group and its first user, and answer the account.

    Without a name the account is called as its user, who was prepared (``services.accounts.users.prepare_user``).

    Raises:
        InvalidCombination: neither a role nor an account type.
        InvalidParameter: no such type or role; a name that is taken or not possible; a deleted domain.
        PermissionDenied: the domain, or the role's rights, are not the caller's to give.
    """
    name = asked.name or user["username"]
    check_name("account", name)
    check_network_domain(asked.network_domain)
    domain_id = _lock_domain(connection, caller, asked.domain)
    role = _role(connection, asked)
    _check_role(connection, caller, apis, role, domain_id)
    if accounts.is_account_name_taken(connection, name, domain_id):
        raise InvalidParameter("account", name, "the domain has an account of this name already")
    columns = {
        "name": name,
        "domain_id": domain_id,
        "role_id": role.id,
        "account_type": ACCOUNT_TYPES[RoleType(role.role_type)],
        "network_domain": asked.network_domain or None,
    }
    account_id = accounts.insert_account(connection, columns)
    add_user(connection, account_id, domain_id, user)
    owner = owners_by_id(connection, [account_id])[account_id]
    ensure_default_security_group(connection, owner)
    record_event(connection, caller, EventType.ACCOUNT_CREATE, f"created account {name}")
    return accounts.read_account(connection, caller, account_id)


def update_account(
    connection: Connection, caller: Caller, apis: Apis, asked: AccountParameters, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Give an account another name, role or network domain, and answer it.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: as for ``create_account``.
    """
    new_name = arguments.get("newname")
    if new_name is not None:
        check_name("newname", new_name)
    check_network_domain(arguments.get("networkdomain"))
    owner, row = lock_administered(connection, caller, asked, apis)
    columns = given_texts(arguments, {"networkdomain": "network_domain"})
    if new_name is not None:
        is_other = new_name.lower() != row.name.lower()
        if is_other and accounts.is_account_name_taken(connection, new_name, row.domain_id):
            raise InvalidParameter("newname", new_name, "the domain has an account of this name already")
        columns["name"] = new_name
    if (ref := arguments.get("roleid")) is not None and ref.id != row.role_id:
        columns |= _new_role(connection, caller, apis, owner, row, ref)
    accounts.update_account(connection, row.id, columns)
    record_event(connection, caller, EventType.ACCOUNT_UPDATE, f"updated account {owner.account_name}")
    return accounts.read_account(connection, caller, row.id)


def enable_account(
    connection: Connection, caller: Caller, apis: Apis, asked: AccountParameters
) -> Mapping[str, Any]:
    """Enable an account, and answer it.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: it is not the caller's to enable.
    """
    return _set_state(connection, caller, apis, asked, AccountState.ENABLED)


def lock_account(connection: Connection, caller: Caller, apis: Apis, asked: AccountParameters) -> Mapping[str, Any]:
    """Lock an account while its VMs keep running, and answer it.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: as for ``disable_account``.
    """
    return _set_state(connection, caller, apis, asked, AccountState.LOCKED)


def disable_account(
    connection: Connection, job_queue: JobQueue, caller: Caller, apis: Apis, asked: AccountParameters, *, lock: bool
) -> JobTicket:
    """Disable an account; unless it is only locked, its VMs are stopped by jobs of their own.

    Raises:
        InvalidParameter: it is the default admin's account or the caller's own.
        InvalidCombination, PermissionDenied: it is not the caller's to disable.
    """
    state = AccountState.LOCKED if lock else AccountState.DISABLED
    owner, row = lock_administered(connection, caller, asked, apis)
    _write_state(connection, caller, owner, row, state)
    if not lock:
        stop_vms(connection, job_queue, caller, [row.id])
    answer = accounts.read_account(connection, caller, row.id)
    cmd = COMMAND_CLASS.format("DisableAccountCmd")
    instance = Instance("Account", row.id, row.uuid)
    return done_with_object(connection, caller, cmd, "account", answer, instance)


def delete_account(
    connection: Connection, job_queue: JobQueue, caller: Caller, apis: Apis, account: EntityRef
) -> JobTicket:
    """Delete an account with all it owns; nobody logs in from the answer on, the job ends with its last VM.

    Raises:
        InvalidParameter: it is the default admin's account or the caller's own, or was deleted.
        PermissionDenied: it is not the caller's to delete.
        ResourceInUse: a project would be left without anybody who manages it.
    """
    owner, row = lock_administered(connection, caller, AccountParameters(account), apis)
    _require_other(caller, row, "delete")
    projects = projects_only_managed_by(connection, row.id)
    if projects:
        raise ResourceInUse(
            f"Account {row.name} is the only one that manages these projects: {', '.join(projects[:10])}. "
            "Delete them, or let others manage them, first"
        )
    call = RemovalCall(COMMAND_CLASS.format("DeleteAccountCmd"), Instance("Account", row.id, row.uuid))
    record_event(connection, caller, EventType.ACCOUNT_DELETE, f"deleted account {owner.account_name}")
    return remove(connection, job_queue, caller, call, [row.id])


def _lock_domain(connection: Connection, caller: Caller, domain: EntityRef | None) -> int:
    domain_id = caller.owner.domain_id
    if domain is not None:
        require_domain(connection, caller, domain)
        domain_id = domain.id
    if lock_domain(connection, domain_id) is None:
        raise InvalidParameter("domainid", domain_id if domain is None else str(domain.uuid), "it was deleted")
    return domain_id


def _role(connection: Connection, asked: NewAccount) -> Row[Any]:
    """The role that is asked for, locked: it is not deleted before an account has it."""
    if asked.role is None and asked.account_type is None:
        raise InvalidCombination(("roleid", "accounttype"), "Give roleid or accounttype: what may the account do?")
    if asked.role is None:
        kind = ROLE_OF_TYPE.get(asked.account_type or 0)
        if kind is None:
            raise InvalidParameter(
                "accounttype",
                asked.account_type,
                "it should be 0 user, 1 root admin, 2 domain admin or 3 resource admin",
            )
        return _locked_role(connection, DEFAULT_ROLE_IDS[kind], "accounttype", asked.account_type)
    role = _locked_role(connection, asked.role.id, "roleid", str(asked.role.uuid))
    if asked.account_type is not None and ACCOUNT_TYPES[RoleType(role.role_type)] != asked.account_type:
        raise InvalidParameter("accounttype", asked.account_type, f"role {role.name} is of type {role.role_type}")
    return role


def _locked_role(connection: Connection, role_id: int, parameter: str, value: object) -> Row[Any]:
    role = roles.lock_role(connection, role_id)
    if role is None:
        raise InvalidParameter(parameter, value, "the role was deleted")
    return role


def _check_role(connection: Connection, caller: Caller, apis: Apis, role: Row[Any], domain_id: int) -> None:
    """Root admins belong to ROOT: elsewhere a domain admin above would administer them."""
    require_rights(caller, roles.rights_of(connection, role.id), apis, f"accounts with role {role.name}")
    if role.role_type == RoleType.ADMIN and domain_id != ROOT_DOMAIN_ID:
        raise InvalidParameter("domainid", domain_id, f"accounts with role {role.name} can only be in ROOT")


def _new_role(
    connection: Connection, caller: Caller, apis: Apis, owner: Owner, row: Row[Any], ref: EntityRef
) -> dict[str, Any]:
    role = _locked_role(connection, ref.id, "roleid", str(ref.uuid))
    if row.id in (caller.owner.account_id, *accounts.DEFAULT_ACCOUNT_IDS):
        raise InvalidParameter(
            "roleid", str(ref.uuid), "nobody changes its own role, nor that of the default admin"
        )
    _check_role(connection, caller, apis, role, owner.domain_id)
    return {"role_id": role.id, "account_type": ACCOUNT_TYPES[RoleType(role.role_type)]}


def _set_state(
    connection: Connection, caller: Caller, apis: Apis, asked: AccountParameters, state: AccountState
) -> Mapping[str, Any]:
    owner, row = lock_administered(connection, caller, asked, apis)
    _write_state(connection, caller, owner, row, state)
    return accounts.read_account(connection, caller, row.id)


STATE_EVENTS = {
    AccountState.ENABLED: EventType.ACCOUNT_ENABLE,
    AccountState.DISABLED: EventType.ACCOUNT_DISABLE,
    AccountState.LOCKED: EventType.ACCOUNT_LOCK,
}


def _write_state(connection: Connection, caller: Caller, owner: Owner, row: Row[Any], state: AccountState) -> None:
    if state is not AccountState.ENABLED:
        _require_other(caller, row, "disable or lock")
    accounts.update_account(connection, row.id, {"state": state.value})
    record_event(connection, caller, STATE_EVENTS[state], f"account {owner.account_name} is now {state.value}")


def _require_other(caller: Caller, row: Row[Any], action: str) -> None:
    if row.id in accounts.DEFAULT_ACCOUNT_IDS:
        raise InvalidParameter(
            "id", str(row.uuid), f"nobody can {action} the account that came with the installation"
        )
    if row.id == caller.owner.account_id:
        raise InvalidParameter("id", str(row.uuid), f"nobody can {action} its own account")
