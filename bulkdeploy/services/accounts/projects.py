"""Operations on projects, whose objects belong to an account of the project (one file: all operations on projects).

A project is managed by its accounts with the role Admin, and by admins above its domain. Lock order: the rows of
the domain, of the project and of its account, and then the order of ADR 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts.accounts import (
    PROJECT_ADMIN,
    PROJECT_REGULAR,
    AccountState,
    AccountType,
    Caller,
    Owner,
    RoleType,
)
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, PermissionDenied, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.services.accounts.account_removal import (
    RemovedAccounts,
    removal_job,
    remove,
    stop_vms,
    stopping_job,
)
from bulkdeploy.services.accounts.authority import check_name
from bulkdeploy.services.accounts.resource_limits import check_project_limits
from bulkdeploy.services.jobs.done_jobs import done_with_object, done_with_success
from bulkdeploy.services.ownership import require_access, require_domain, resolve_owner
from bulkdeploy.store.accounts import projects
from bulkdeploy.store.accounts.accounts import insert_account, lock_account, lock_accounts, update_account
from bulkdeploy.store.accounts.domains import lock_domain, lock_domains
from bulkdeploy.store.accounts.owners import domain_places, owners_by_name
from bulkdeploy.store.accounts.project_invitations import invite
from bulkdeploy.store.accounts.roles import lock_roles
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.default_rows import DEFAULT_ROLE_IDS
from bulkdeploy.store.deployments.deployment_facts import ensure_default_security_groups
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_event, record_events

CLASS = "org.apache.cloudstack.api.command.user.project.{}Cmd"
ACTIVE, SUSPENDED = "Active", "Suspended"


@dataclass(frozen=True, slots=True)
class NewProject:
    """A project to create.

    Attributes:
        account: the name of the account that manages the project; if None, the caller's account does.
        domain: the domain of that account and of the project.
        manager: the account that manages the project, by id instead of by name.
    """

    name: str
    display_text: str | None
    account: str | None
    domain: EntityRef | None
    manager: EntityRef | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """The membership of an account in a project, existing or requested.

    Attributes:
        account: the name of the account, which is in the project's domain.
        role: Admin or Regular.
        swap: whether the account becomes the only Admin of the project.
        project_role: the project role that restricts the account, or None.
    """

    account: str
    role: str = PROJECT_REGULAR
    swap: bool = False
    project_role: EntityRef | None = None


def create_project(connection: Connection, caller: Caller, requested: NewProject) -> JobTicket:
    """Create a project with its own account. The returned ticket contains the ids of the job and the project.

    Raises:
        InvalidParameter: the name is already used or not valid, or there is no such account.
        PermissionDenied: users may not create projects, or the caller may not act for the account.
        ResourceLimitExceeded: the project limit of the account or of a domain above it would be exceeded.
    """
    check_name("name", requested.name)
    if caller.role_type is RoleType.USER and not read_configuration(connection).flag("allow.user.create.projects"):
        raise PermissionDenied("Users may not create projects: the setting allow.user.create.projects is false")
    owner, domain_id = _manager(connection, caller, requested)
    lock_domain(connection, domain_id)
    check_project_limits(connection, owner)
    _require_free(connection, requested.name, domain_id)
    account_id = insert_account(
        connection,
        {
            "name": f"PrjAcct-{requested.name}-{uuid4().hex[:8]}",
            "domain_id": domain_id,
            "account_type": AccountType.PROJECT,
            "role_id": DEFAULT_ROLE_IDS[RoleType.USER],
        },
    )
    project_id = projects.insert_project(
        connection,
        {
            "name": requested.name,
            "display_text": requested.display_text or requested.name,
            "domain_id": domain_id,
            "account_id": account_id,
        },
    )
    projects.set_member(connection, project_id, owner.account_id, PROJECT_ADMIN)
    ensure_default_security_groups(connection, [account_id])
    record_event(connection, caller, EventType.PROJECT_CREATE, f"created project {requested.name}")
    return _finished_job(connection, caller, project_id, "CreateProject", created=True)


def _manager(connection: Connection, caller: Caller, requested: NewProject) -> tuple[Owner, int]:
    """Return the account that manages a new project, and the internal id of the project's domain.

    If the request names only a domain, the project is created in this domain and the caller's account manages the
    project.
    """
    domain = requested.domain
    if requested.manager is not None:
        if requested.account is not None:
            raise InvalidCombination(("accountid", "account"), "Give accountid or account, not both")
        owner = require_access(connection, caller, requested.manager.id, f"account {requested.manager.uuid}")
        return owner, owner.domain_id
    if domain is not None and requested.account is None:
        require_domain(connection, caller, domain)
        return caller.owner, domain.id
    owner = resolve_owner(connection, caller, requested.account, None if domain is None else domain.id, None)
    return owner, owner.domain_id


def update_project(
    connection: Connection,
    caller: Caller,
    ref: EntityRef,
    *,
    name: str | None,
    display_text: str | None,
    member: Membership | None,
) -> JobTicket:
    """Change the name or description of a project, or the role of an account of its domain in the project.

    Parameters that are None are not changed.

    Raises:
        InvalidParameter: the name is already used or not valid, there is no such account, or no account would be
            left to manage the project.
        PermissionDenied: the caller does not manage the project.
    """
    if name is not None:
        check_name("name", name)
    project = lock_managed(connection, caller, ref)
    if name is not None and name.lower() != project.name.lower():
        _require_free(connection, name, project.domain_id)
    given = {"name": name, "display_text": display_text}
    projects.update_project(
        connection, project.id, {key: value for key, value in given.items() if value is not None}
    )
    if member is not None:
        account = _account_in(connection, project, member.account)
        projects.set_member(connection, project.id, account.account_id, member.role)
        if member.swap:
            projects.demote_others(connection, project.id, account.account_id)
        _require_managed(connection, project, member.account)
    record_event(connection, caller, EventType.PROJECT_UPDATE, f"updated project {project.name}")
    return _finished_job(connection, caller, project.id, "UpdateProject")


def add_account(connection: Connection, caller: Caller, ref: EntityRef, member: Membership) -> JobTicket:
    """Add an account of the project's domain to a project.

    If the setting ``project.invite.required`` is true, the account is only invited. If the account is already in
    the project, its role does not change.

    Raises:
        InvalidParameter: there is no such account, or no such role of the project.
        PermissionDenied: the caller does not manage the project.
    """
    project = lock_managed(connection, caller, ref, "projectid")
    account = _account_in(connection, project, member.account)
    role_id = None
    if member.project_role is not None:
        role_id = _lock_role(connection, project, member.project_role)
    if account.account_id not in projects.roles_in_project(connection, project.id):
        configuration = read_configuration(connection)
        if configuration.flag("project.invite.required"):
            timeout_s = configuration.number("project.invite.timeout")
            invite(connection, project.id, account.account_id, member.role, role_id, timeout_s=timeout_s)
            text = f"invited account {account.account_name} to project {project.name}"
        else:
            projects.set_member(connection, project.id, account.account_id, member.role, role_id=role_id)
            text = f"added account {account.account_name} to project {project.name}"
        record_event(connection, caller, EventType.PROJECT_ACCOUNT_ADD, text)
    return succeeded(connection, caller, project, "AddAccountToProject")


def delete_account(connection: Connection, caller: Caller, ref: EntityRef, account: str) -> JobTicket:
    """Remove an account from a project. The project's VMs and other resources are not changed.

    Raises:
        InvalidParameter: the account is not in the project, or no account would be left to manage the project.
        PermissionDenied: the caller does not manage the project.
    """
    project = lock_managed(connection, caller, ref, "projectid")
    owner = _account_in(connection, project, account)
    if owner.account_id not in projects.roles_in_project(connection, project.id):
        raise InvalidParameter("account", account, f"it is not in project {project.name}")
    projects.remove_member(connection, project.id, owner.account_id)
    _require_managed(connection, project, account)
    text = f"took account {owner.account_name} out of project {project.name}"
    record_event(connection, caller, EventType.PROJECT_ACCOUNT_REMOVE, text)
    return succeeded(connection, caller, project, "DeleteAccountFromProject")


def set_state(
    connection: Connection, job_queue: JobQueue, caller: Caller, ref: EntityRef, *, active: bool
) -> JobTicket:
    """Activate or suspend a project.

    Nothing can be created in a suspended project, and jobs stop its VMs. The job of the call ends after these.

    Raises:
        InvalidParameter: the project was deleted.
        PermissionDenied: the caller does not manage the project.
    """
    project = lock_managed(connection, caller, ref)
    projects.update_project(connection, project.id, {"state": ACTIVE if active else SUSPENDED})
    state = AccountState.ENABLED if active else AccountState.DISABLED
    lock_account(connection, project.account_id)
    update_account(connection, project.account_id, {"state": state.value})
    event = EventType.PROJECT_ACTIVATE if active else EventType.PROJECT_SUSPEND
    record_event(connection, caller, event, f"project {project.name} is now {ACTIVE if active else SUSPENDED}")
    stops = [] if active else stop_vms(connection, job_queue, caller, [project.account_id])
    cmd = CLASS.format("ActivateProject" if active else "SuspendProject")
    row = projects.read_project(connection, project.id)
    instance = Instance("Project", project.id, row["id"])
    return stopping_job(connection, caller, cmd, instance, ("project", row), stops)


def delete_projects(
    connection: Connection, job_queue: JobQueue, caller: Caller, refs: Sequence[EntityRef], *, cleanup: bool
) -> RemovedAccounts:
    """Delete projects. If ``cleanup`` is true, everything that the projects own is deleted, too.

    Raises:
        InvalidParameter: one of the projects was deleted already.
        PermissionDenied: the caller does not manage one of the projects.
        ResourceInUse: ``cleanup`` is false and a project owns objects.
    """
    locked = _lock_all(connection, caller, refs)
    account_ids = [project.account_id for project in locked]
    things = projects.things_of_projects(connection, account_ids)
    for project in locked:
        if things[project.account_id] and not cleanup:
            what = ", ".join(f"{count} {kind}" for kind, count in things[project.account_id].items())
            raise ResourceInUse(f"Project {project.name} owns {what}; cleanup=true deletes that, too")
    lock_accounts(connection, account_ids)
    texts = (f"deleted project {project.name}" for project in locked)
    record_events(connection, caller, (Happened(EventType.PROJECT_DELETE, text) for text in texts))
    return remove(connection, job_queue, caller, account_ids)


def deleted(connection: Connection, caller: Caller, project: EntityRef, removed: RemovedAccounts) -> JobTicket:
    """Return the job of a call that deleted a project. The job ends when the project's last VM is deleted."""
    instance = Instance("Project", project.id, project.uuid)
    return removal_job(connection, caller, CLASS.format("DeleteProject"), instance, removed)


def lock_managed(connection: Connection, caller: Caller, ref: EntityRef, parameter: str = "id") -> Row[Any]:
    """Lock a project that the caller manages, after its domain, and return the row of the project.

    Raises:
        InvalidParameter: the project was deleted.
        PermissionDenied: the caller does not manage the project.
    """
    return _lock_all(connection, caller, [ref], parameter)[0]


def _lock_all(
    connection: Connection, caller: Caller, refs: Sequence[EntityRef], parameter: str = "id"
) -> list[Row[Any]]:
    """Lock projects that the caller manages, after their domains, and return their rows in order."""
    ids = [ref.id for ref in refs]
    lock_domains(connection, set(projects.domains_of(connection, ids).values()))
    locked = projects.lock_projects(connection, ids)
    require_managed(connection, caller, refs)
    for ref in refs:
        if ref.id not in locked:
            raise InvalidParameter(parameter, str(ref.uuid), "the project was deleted")
    return [locked[ref.id] for ref in refs]


def require_managed(connection: Connection, caller: Caller, refs: Sequence[EntityRef]) -> None:
    """Raise PermissionDenied if the caller does not manage one of these projects."""
    ids = [ref.id for ref in refs]
    domain_ids = projects.domains_of(connection, ids)
    places = domain_places(connection, set(domain_ids.values()))
    managed = projects.managed_by(connection, caller.owner.account_id, ids)
    for ref in refs:
        _, lineage = places[domain_ids[ref.id]]
        above = caller.role_type is not RoleType.USER and lineage.startswith(caller.owner.lineage)
        if not (caller.is_root_admin or above or ref.id in managed):
            raise PermissionDenied(
                f"{caller.username} does not have permission to operate with resource project {ref.uuid}"
            )


def _finished_job(
    connection: Connection, caller: Caller, project_id: int, name: str, *, created: bool = False
) -> JobTicket:
    row = projects.read_project(connection, project_id)
    instance = Instance("Project", project_id, row["id"])
    return done_with_object(connection, caller, CLASS.format(name), "project", row, instance, created=created)


def succeeded(connection: Connection, caller: Caller, project: Row[Any], name: str) -> JobTicket:
    """Return the ticket of a finished job of the command ``name`` about a project."""
    instance = Instance("Project", project.id, project.uuid)
    return done_with_success(connection, caller, CLASS.format(name), instance)


def _account_in(connection: Connection, project: Row[Any], name: str) -> Owner:
    owner = owners_by_name(connection, [(name, project.domain_id)]).get((name.lower(), project.domain_id))
    if owner is None:
        raise InvalidParameter("account", name, "there is no account of this name in the project's domain")
    return owner


def _lock_role(connection: Connection, project: Row[Any], ref: EntityRef) -> int:
    """Lock a role of a locked project, and return its id."""
    if ref.id not in lock_roles(connection, [ref.id], project_id=project.id):
        raise InvalidParameter("projectroleid", str(ref.uuid), f"it is not a role of project {project.name}")
    return ref.id


def _require_managed(connection: Connection, project: Row[Any], account: str) -> None:
    if PROJECT_ADMIN not in projects.roles_in_project(connection, project.id).values():
        raise InvalidParameter("account", account, f"no account would be left to manage project {project.name}")


def _require_free(connection: Connection, name: str, domain_id: int) -> None:
    if projects.is_project_name_taken(connection, name, domain_id):
        raise InvalidParameter("name", name, "the domain has a project of this name already")
