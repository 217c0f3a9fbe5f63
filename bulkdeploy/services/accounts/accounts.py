"""Operations on accounts: create, update, enable, disable, lock and delete.

Lock order: the domain's row, the account's row, the rows of its users, and then the order of ADR 5.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import (
    ACCOUNT_TYPES,
    AccountState,
    Apis,
    Caller,
    Owner,
    Rights,
    RoleType,
)
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.services.accounts.account_removal import (
    RemovedAccounts,
    removal_job,
    remove,
    stop_vms,
    stopping_job,
)
from bulkdeploy.services.accounts.authority import (
    AccountParameters,
    lock_administered,
    lock_all_administered,
    require_rights,
)
from bulkdeploy.services.live_entities import given_refs, unique_name
from bulkdeploy.services.ownership import require_domains
from bulkdeploy.store.accounts import accounts, roles
from bulkdeploy.store.accounts.account_removal import projects_only_managed_by
from bulkdeploy.store.accounts.domains import lock_domains
from bulkdeploy.store.database.default_rows import DEFAULT_ROLE_IDS, ROOT_DOMAIN_ID
from bulkdeploy.store.deployments.deployment_facts import ensure_default_security_groups
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, columns_of, insert_rows

ROLE_OF_TYPE = {kind.value: role for role, kind in ACCOUNT_TYPES.items()}
OF_THE_DOMAIN = "another account of the domain"
COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.account.{}"


def create_accounts(
    connection: Connection, caller: Caller, apis: Apis, batch: Sequence[Arguments]
) -> list[EntityRef]:
    """Create accounts, each with its ``default`` security group.

    No users are created: a separate call adds users to the accounts.

    Raises:
        InvalidCombination: neither a role nor an account type is given.
        InvalidParameter: there is no such type or role, a name is already used, or a domain was deleted.
        PermissionDenied: the caller may not access a domain, or lacks rights of a role.
    """
    require_domains(connection, caller, given_refs(batch, "domainid"))
    domain_ids = [given["domainid"].id if "domainid" in given else caller.owner.domain_id for given in batch]
    live = lock_domains(connection, domain_ids)
    role_ids = [_role_id(given) for given in batch]
    locked = roles.lock_roles(connection, role_ids)
    rows = []
    for given, domain_id, role_id in zip(batch, domain_ids, role_ids, strict=True):
        if domain_id not in live:
            shown = str(given["domainid"].uuid) if "domainid" in given else ""
            raise InvalidParameter("domainid", shown, "it was deleted")
        role = _live(locked.get(role_id), given.get("roleid"))
        columns = {"domain_id": domain_id, **columns_of(accounts.FIELDS, given), **_of_role(role)}
        rows.append(columns)
    rights = roles.rights_of(connection, locked)
    for role_id, domain_id in dict.fromkeys(zip(role_ids, domain_ids, strict=True)):
        _check_role(caller, apis, locked[role_id], rights[role_id], domain_id)
    with unique_name("account", rows[0]["name"], OF_THE_DOMAIN):
        made = insert_rows(connection, Entity.ACCOUNT, rows)
    ensure_default_security_groups(connection, [account.id for account in made])
    texts = (f"created account {account.name}" for account in made)
    record_events(connection, caller, (Happened(EventType.ACCOUNT_CREATE, text) for text in texts))
    return made


def account_of(connection: Connection, caller: Caller, apis: Apis, requested: AccountParameters) -> EntityRef:
    """Lock and return the account that a call names by id, or by name and domain.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: under the same conditions as
        ``authority.lock_administered``.
    """
    _, row = lock_administered(connection, caller, requested, apis)
    return EntityRef(Entity.ACCOUNT, row.id, row.uuid, row.name)


def update_accounts(connection: Connection, caller: Caller, apis: Apis, changes: Sequence[Change]) -> None:
    """Change the names, roles, network domains or states of accounts. No VM is stopped.

    Raises:
        InvalidParameter: a name is already used, a role was deleted, or the call would change the role or state of
            the default admin's account or of the caller's own account.
        PermissionDenied: the caller may not administer an account, or lacks rights of a role.
    """
    requested = [AccountParameters(account) for account, _ in changes]
    locked = lock_all_administered(connection, caller, requested, apis)
    given_roles = roles.lock_roles(connection, [role.id for role in given_refs((c for _, c in changes), "roleid")])
    rights = roles.rights_of(connection, given_roles)
    written, happened = [], []
    for (owner, row), (account, given) in zip(locked, changes, strict=True):
        columns = columns_of(accounts.CHANGES, given)
        if (role := given.get("roleid")) is not None and role.id != row.role_id:
            live = _live(given_roles.get(role.id), role)
            columns |= _new_role(caller, apis, owner, row, role, live, rights[role.id])
        state = AccountState(columns.get("state", row.state))
        if state != row.state:
            _require_changeable(caller, row, state)
            happened.append(_of_state(owner, state))
        written.append((account, columns))
        happened.append(Happened(EventType.ACCOUNT_UPDATE, f"updated account {owner.account_name}"))
    with unique_name("newname", changes[0][1].get("newname"), OF_THE_DOMAIN):
        change_rows(connection, written)
    record_events(connection, caller, happened)


def enable_account(
    connection: Connection, caller: Caller, apis: Apis, requested: AccountParameters
) -> Mapping[str, Any]:
    """Enable an account and return the fields of the account.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: under the same conditions as
        ``authority.lock_administered``.
    """
    return _set_state(connection, caller, apis, requested, AccountState.ENABLED)


def lock_account(
    connection: Connection, caller: Caller, apis: Apis, requested: AccountParameters
) -> Mapping[str, Any]:
    """Lock an account and return the fields of the account. The VMs of the account keep running.

    Raises:
        InvalidParameter, InvalidCombination, PermissionDenied: under the same conditions as ``disable_account``.
    """
    return _set_state(connection, caller, apis, requested, AccountState.LOCKED)


def disable_account(
    connection: Connection,
    job_queue: JobQueue,
    caller: Caller,
    apis: Apis,
    requested: AccountParameters,
    *,
    lock: bool,
) -> JobTicket:
    """Disable or only lock an account, and return the job of the call.

    If the account is disabled, a separate job stops each of its VMs, and the job of the call ends after these. If
    ``lock`` is true, the account is locked, its VMs keep running, and the job has already ended.

    Raises:
        InvalidParameter: the account is the default admin's account or the caller's own.
        InvalidCombination, PermissionDenied: under the same conditions as ``authority.lock_administered``.
    """
    state = AccountState.LOCKED if lock else AccountState.DISABLED
    owner, row = lock_administered(connection, caller, requested, apis)
    _write_state(connection, caller, owner, row, state)
    stops = [] if lock else stop_vms(connection, job_queue, caller, [row.id])
    answer = accounts.read_account(connection, caller, row.id)
    cmd = COMMAND_CLASS.format("DisableAccountCmd")
    instance = Instance("Account", row.id, row.uuid)
    return stopping_job(connection, caller, cmd, instance, ("account", answer), stops)


def delete_accounts(
    connection: Connection, job_queue: JobQueue, caller: Caller, apis: Apis, refs: Sequence[EntityRef]
) -> RemovedAccounts:
    """Delete accounts with everything that they own. Their users can no longer log in.

    Raises:
        InvalidParameter: one of the accounts is the default admin's or the caller's own account, or was deleted.
        PermissionDenied: the caller may not delete one of the accounts.
        ResourceInUse: a project would be left without an account that manages it.
    """
    locked = lock_all_administered(connection, caller, [AccountParameters(ref) for ref in refs], apis)
    ids = [row.id for _, row in locked]
    projects = projects_only_managed_by(connection, ids)
    for _, row in locked:
        _require_other(caller, row, "delete")
        if row.id in projects:
            raise ResourceInUse(
                f"Account {row.name} is the only account that manages these projects:"
                f" {', '.join(projects[row.id][:10])}. Delete these projects, or add other managers, first"
            )
    record_events(
        connection,
        caller,
        (Happened(EventType.ACCOUNT_DELETE, f"deleted account {owner.account_name}") for owner, _ in locked),
    )
    return remove(connection, job_queue, caller, ids)


def deleted(connection: Connection, caller: Caller, account: EntityRef, removed: RemovedAccounts) -> JobTicket:
    """Return the job of a call that deleted an account. The job ends when the account's last VM is deleted."""
    instance = Instance("Account", account.id, account.uuid)
    return removal_job(connection, caller, COMMAND_CLASS.format("DeleteAccountCmd"), instance, removed)


def _role_id(given: Arguments) -> int:
    """Return the internal id of a new account's role: the given role, or the default of the account type."""
    if "roleid" in given:
        return int(given["roleid"].id)
    if "accounttype" not in given:
        raise InvalidCombination(("roleid", "accounttype"), "One of roleid and accounttype must be given")
    kind = ROLE_OF_TYPE.get(given["accounttype"])
    if kind is None:
        raise InvalidParameter(
            "accounttype", given["accounttype"], "must be 0 user, 1 root admin, 2 domain admin or 3 resource admin"
        )
    return DEFAULT_ROLE_IDS[kind]


def _live(role: Row[Any] | None, given: EntityRef | None) -> Row[Any]:
    if role is None:
        raise InvalidParameter("roleid", None if given is None else str(given.uuid), "the role was deleted")
    return role


def _of_role(role: Row[Any]) -> dict[str, Any]:
    return {"role_id": role.id, "account_type": ACCOUNT_TYPES[RoleType(role.role_type)]}


def _check_role(caller: Caller, apis: Apis, role: Row[Any], rights: Rights, domain_id: int) -> None:
    """Raise an error if the caller lacks rights of the role, or if a root admin's account is not in ROOT.

    In another domain, a domain admin above the account could administer a root admin.
    """
    require_rights(caller, rights, apis, f"accounts with role {role.name}")
    if role.role_type == RoleType.ADMIN and domain_id != ROOT_DOMAIN_ID:
        raise InvalidCombination(
            ("roleid", "domainid"), f"domainid must be that of ROOT for accounts with role {role.name}"
        )


def _new_role(
    caller: Caller, apis: Apis, owner: Owner, row: Row[Any], ref: EntityRef, role: Row[Any], rights: Rights
) -> dict[str, Any]:
    if row.id in (caller.owner.account_id, *accounts.DEFAULT_ACCOUNT_IDS):
        raise InvalidParameter(
            "roleid", str(ref.uuid), "an account cannot change its own role, nor that of the default admin"
        )
    _check_role(caller, apis, role, rights, owner.domain_id)
    return _of_role(role)


def _set_state(
    connection: Connection, caller: Caller, apis: Apis, requested: AccountParameters, state: AccountState
) -> Mapping[str, Any]:
    owner, row = lock_administered(connection, caller, requested, apis)
    _write_state(connection, caller, owner, row, state)
    return accounts.read_account(connection, caller, row.id)


STATE_EVENTS = {
    AccountState.ENABLED: EventType.ACCOUNT_ENABLE,
    AccountState.DISABLED: EventType.ACCOUNT_DISABLE,
    AccountState.LOCKED: EventType.ACCOUNT_LOCK,
}


def _write_state(connection: Connection, caller: Caller, owner: Owner, row: Row[Any], state: AccountState) -> None:
    _require_changeable(caller, row, state)
    accounts.update_account(connection, row.id, {"state": state.value})
    record_events(connection, caller, [_of_state(owner, state)])


def _of_state(owner: Owner, state: AccountState) -> Happened:
    return Happened(STATE_EVENTS[state], f"account {owner.account_name} is now {state.value}")


def _require_changeable(caller: Caller, row: Row[Any], state: AccountState) -> None:
    if state is not AccountState.ENABLED:
        _require_other(caller, row, "disable or lock")


def _require_other(caller: Caller, row: Row[Any], action: str) -> None:
    if row.id in accounts.DEFAULT_ACCOUNT_IDS:
        raise InvalidParameter("id", str(row.uuid), f"cannot {action} the default admin's account")
    if row.id == caller.owner.account_id:
        raise InvalidParameter("id", str(row.uuid), f"cannot {action} the caller's own account")
