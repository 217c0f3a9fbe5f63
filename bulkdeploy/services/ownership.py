"""The permissions of callers on objects of accounts (cloudstack-protocol.md 1.8, 5.3) (one file: all owner checks).

Root admins may access all objects. Domain admins and resource admins may access objects of their domain and its
subdomains. All callers may access objects of their own account and of projects to which they belong.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import AccountState, Caller, Owner, RoleType
from bulkdeploy.domain.entities import EVERY_ID, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, PermissionDenied
from bulkdeploy.store.accounts import owners
from bulkdeploy.store.accounts.callers import default_admin
from bulkdeploy.store.infrastructure.zones import private_zones
from bulkdeploy.store.rows.visibility import ProjectScope, Visibility


@dataclass(frozen=True, slots=True)
class OwnerParameters:
    """The owner parameters of a list call. ``by_id`` is true if the call names the listed objects by id."""

    account: str | None = None
    domain: EntityRef | None = None
    project: EntityRef | None = None
    is_recursive: bool = False
    list_all: bool = False
    by_id: bool = False


@dataclass(frozen=True, slots=True)
class NamedOwner:
    """The owner that a call names, with internal ids. If nothing is given, the caller's account is the owner."""

    account: str | None = None
    domain_id: int | None = None
    project_id: int | None = None


NO_OWNER = NamedOwner()


def named_owner_of(given: Mapping[str, Any]) -> NamedOwner:
    """Return the owner that the parameters of ``declare.owner_parameters`` name."""
    domain, project = given.get("domainid"), given.get("projectid")
    return NamedOwner(given.get("account"), domain and domain.id, project and project.id)


def visibility(connection: Connection, caller: Caller, requested: OwnerParameters) -> Visibility:
    """Return the owners whose objects a list call shows.

    Without owner parameters, these are the objects of the caller's account. With ``list_all``, or if objects are
    named by id, an admin sees all objects below its domain. Objects of projects are shown by id and by ``project``:
    the objects of one project, or of every project (-1). With ``list_all`` and ``project`` -1 the objects of
    accounts are shown, too.

    Raises:
        InvalidCombination: ``account`` and ``project`` together.
        InvalidParameter: there is no such account or project.
        PermissionDenied: the domain, account or project is outside the caller's reach.
    """
    lineage = None if requested.domain is None else require_domain(connection, caller, requested.domain)
    if requested.account is not None:
        if requested.project is not None:
            raise InvalidCombination(("account", "projectid"), "account and projectid cannot be given together")
        return _of_owner(named_account(connection, caller, requested.account, requested.domain))
    if requested.project is not None:
        return _of_projects(connection, caller, requested, requested.project, lineage)
    projects = ProjectScope.SHOWN if requested.by_id else ProjectScope.HIDDEN
    if caller.role_type is RoleType.USER:
        return Visibility(
            caller.owner.account_id,
            caller.owner.lineage,
            member=caller.owner.account_id if requested.by_id else None,
            closed=caller.closed_projects,
        )
    if lineage is not None:
        return Visibility(lineage=lineage, recursive=requested.is_recursive, projects=projects, own=True)
    if requested.list_all or requested.by_id:
        return Visibility(lineage=_reach(caller), recursive=True, projects=projects)
    return _of_owner(caller.owner)


def resolve_owner(
    connection: Connection,
    caller: Caller,
    account_name: str | None,
    domain_id: int | None,
    project_id: int | None,
) -> Owner:
    """Return the account for which a call creates objects: the named account, the project's, or the caller's own.

    If both a project and a domain are given, the domain must be the project's; Ansible's modules send both. A
    domain without an account must be the caller's own domain. This does not check whether the account is enabled.

    Raises:
        InvalidCombination: an account without a domain is given, or another domain than the caller's without
            account or project, or both an account and a project.
        InvalidParameter: there is no such account or project, or the project is in another domain.
        PermissionDenied: the caller may not create objects for this account.
    """
    named = NamedOwner(account_name, domain_id, project_id)
    return resolve_owners(connection, caller, [named])[named]


def resolve_owners(connection: Connection, caller: Caller, named: Iterable[NamedOwner]) -> dict[NamedOwner, Owner]:
    """Return the accounts for several named owners, with the rules of ``resolve_owner``."""
    accounts: dict[NamedOwner, tuple[str, int]] = {}
    found: dict[NamedOwner, Owner] = {}
    for one in dict.fromkeys(named):
        if one.project_id is not None:
            if one.account is not None:
                raise InvalidCombination(
                    ("projectid", "account"), "Specify either projectid, or account and domainid; not both"
                )
            found[one] = _project_owner_in(connection, caller, one.project_id, one.domain_id)
        elif one.account is None and one.domain_id in (None, caller.owner.domain_id):
            found[one] = caller.owner
        elif one.domain_id is None or one.account is None:
            raise InvalidCombination(
                ("account", "domainid"),
                "Account must be specified with domainId parameter",
            )
        else:
            accounts[one] = (one.account, one.domain_id)
    places = owners.domain_places(connection, {domain_id for _, domain_id in accounts.values()})
    for uuid, lineage in places.values():
        _require_lineage(caller, lineage, uuid)
    for name, domain_id in accounts.values():
        _require_nameable(caller, name, domain_id)
    by_name = owners.owners_by_name(connection, accounts.values())
    for one, (name, domain_id) in accounts.items():
        found[one] = _existing(by_name.get((name.lower(), domain_id)), name, places[domain_id][0])
    return found


def lock_owner(connection: Connection, caller: Caller, named: NamedOwner) -> Owner:
    """Return the account for which a call creates an object.

    The account is locked, so that it cannot be deleted before the transaction ends.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: under the same conditions as ``resolve_owner``;
        PermissionDenied also if the account is disabled, is locked or was deleted.
    """
    (owner,) = _lock_named(connection, caller, [named])
    return owner


def lock_owners(connection: Connection, caller: Caller, batch: Iterable[Mapping[str, Any]]) -> list[Owner]:
    """Return the owner of each of many new objects (``named_owner_of``), locked as by ``lock_owner``, in order.

    Raises:
        InvalidCombination, InvalidParameter, PermissionDenied: under the same conditions as ``lock_owner``.
    """
    return _lock_named(connection, caller, [named_owner_of(given) for given in batch])


def _lock_named(connection: Connection, caller: Caller, named: Sequence[NamedOwner]) -> list[Owner]:
    found = resolve_owners(connection, caller, named)
    states = owners.lock_accounts(connection, {owner.account_id for owner in found.values()})
    for owner in found.values():
        state = states.get(owner.account_id)
        if state is not AccountState.ENABLED:
            shown = "deleted" if state is None else state.value
            raise PermissionDenied(
                f"Account {owner.account_name} is {shown}; objects can be created only for an enabled account"
            )
    return [found[one] for one in named]


def as_found_by_id(connection: Connection, caller: Caller) -> Visibility:
    """Return the visibility for reading an object by its id.

    It is used for the response of a call that has just changed the object.
    """
    return visibility(connection, caller, OwnerParameters(by_id=True))


def may_access(connection: Connection, caller: Caller, owner: Owner) -> bool:
    """Return whether the caller may read and change the objects of ``owner``."""
    if caller.is_root_admin or owner.account_id == caller.owner.account_id:
        return True
    if caller.role_type is not RoleType.USER and owner.lineage.startswith(caller.owner.lineage):
        return True
    if owner.account_id in caller.closed_projects:
        return False
    return owners.is_project_member(connection, owner.account_id, caller.owner.account_id)


def require_access(connection: Connection, caller: Caller, account_id: int, what: str) -> Owner:
    """Return the owner with this internal account id, if the caller may access the owner's objects.

    Raises:
        PermissionDenied: the caller may not access them. The error's text contains ``what``, the accessed object.
    """
    return require_all_access(connection, caller, {what: account_id})[what]


def require_all_access(connection: Connection, caller: Caller, account_ids: Mapping[str, int]) -> dict[str, Owner]:
    """Return the owners with these internal account ids, by the same keys.

    The keys of ``account_ids`` are the objects' descriptions in error messages.

    Raises:
        PermissionDenied: the caller may not access the objects of one of the accounts.
    """
    found = owners.owners_by_id(connection, set(account_ids.values()))
    for what, account_id in account_ids.items():
        if not may_access(connection, caller, found[account_id]):
            raise PermissionDenied(f"{caller.username} does not have permission to operate with resource {what}")
    return {what: found[account_id] for what, account_id in account_ids.items()}


def require_same_owner(
    connection: Connection, caller: Caller, named: NamedOwner, account_ids: Iterable[int | None], noun: str
) -> None:
    """Check that an owner whom a call names in addition to ids owns each of the objects.

    ``account_ids`` are the owners of the objects. None is the owner of an object that belongs to a domain.

    Raises:
        InvalidCombination, InvalidParameter: under the same conditions as ``resolve_owner``.
        PermissionDenied: an object has another owner, or the caller may not act for the named owner.
    """
    if named == NO_OWNER:
        return
    found = resolve_owner(connection, caller, named.account, named.domain_id, named.project_id)
    if any(account_id != found.account_id for account_id in account_ids):
        raise PermissionDenied(f"The {noun} does not belong to account {found.account_name}")


def require_open_zones(connection: Connection, uses: Iterable[tuple[Owner, int, UUID]]) -> None:
    """Raise PermissionDenied if an owner may not use one of its zones.

    ``uses`` are triples of an owner and the internal id and uuid of a zone. A zone can be restricted to a domain
    and its subdomains. Root admins may use all zones.

    Raises:
        PermissionDenied: a zone is restricted to another domain.
    """
    bound = [use for use in uses if not use[0].is_root_admin]
    kept = private_zones(connection, {zone_id for _, zone_id, _ in bound}) if bound else {}
    for owner, zone_id, uuid in bound:
        if not owner.lineage.startswith(kept.get(zone_id, "")):
            raise closed_zone(owner, str(uuid))


def closed_zone(owner: Owner, zone: str) -> PermissionDenied:
    """Return the error for an owner who may not use a zone because the zone is restricted to another domain.

    ``zone`` is the zone as the error message names it.
    """
    return PermissionDenied(f"Account {owner.account_name} does not have permission to use zone {zone}")


def require_domain(connection: Connection, caller: Caller, domain: EntityRef) -> str:
    """Return the lineage of a domain that the caller may name.

    Callers may name their own domain, and admins also its subdomains.

    Raises:
        PermissionDenied: the caller may not name the domain.
    """
    return require_domains(connection, caller, [domain])[domain.id]


def require_domains(connection: Connection, caller: Caller, domains: Iterable[EntityRef]) -> dict[int, str]:
    """Return the lineages of domains that the caller may name, by internal id, as ``require_domain`` does."""
    places = owners.domain_places(connection, {domain.id for domain in domains})
    for uuid, lineage in places.values():
        _require_lineage(caller, lineage, uuid)
    return {domain_id: lineage for domain_id, (_, lineage) in places.items()}


def _reach(caller: Caller) -> str | None:
    """Return the lineage of the domain to which the caller's view is restricted, or None for root admins."""
    return None if caller.is_root_admin else caller.owner.lineage


def _of_owner(owner: Owner) -> Visibility:
    return Visibility(owner.account_id, owner.lineage)


def _of_projects(
    connection: Connection, caller: Caller, requested: OwnerParameters, project: EntityRef, lineage: str | None
) -> Visibility:
    if project.id != EVERY_ID:
        return _of_owner(project_owner(connection, caller, project.id))
    projects = ProjectScope.SHOWN if requested.list_all else ProjectScope.ONLY
    if caller.role_type is RoleType.USER:
        return Visibility(
            caller.owner.account_id,
            caller.owner.lineage,
            projects=projects,
            member=caller.owner.account_id,
            closed=caller.closed_projects,
        )
    return Visibility(
        lineage=lineage or _reach(caller),
        recursive=True,
        projects=projects,
        member=None if lineage or caller.is_root_admin else caller.owner.account_id,
    )


def project_owner(connection: Connection, caller: Caller, project_id: int) -> Owner:
    """Return the account that owns the objects of a project in which the caller may act.

    Raises:
        InvalidParameter: there is no such project.
        PermissionDenied: the caller is neither a member of the project nor an admin above it.
    """
    owner = owners.project_owner(connection, project_id)
    if owner is None:
        raise InvalidParameter("projectid", project_id, "there is no project with this id")
    if not may_access(connection, caller, owner):
        if owner.account_id in caller.closed_projects:
            name = caller.owner.account_name
            raise PermissionDenied(f"The role of account {name} in this project does not allow this call")
        raise PermissionDenied(f"Account {caller.owner.account_name} is not a member of this project")
    return owner


def _project_owner_in(connection: Connection, caller: Caller, project_id: int, domain_id: int | None) -> Owner:
    owner = project_owner(connection, caller, project_id)
    if domain_id is not None and domain_id != owner.domain_id:
        uuid, _ = owners.domain_place(connection, domain_id)
        raise InvalidParameter("domainid", str(uuid), f"the project is in domain {owner.domain_uuid}")
    return owner


def owning_caller(connection: Connection, account_id: int) -> Caller:
    """Return a caller for actions of the service in the name of an account, with the rights of a user."""
    owner = owners.owners_by_id(connection, [account_id])[account_id]
    return replace(default_admin(connection), owner=owner, role_type=RoleType.USER)


def named_account(connection: Connection, caller: Caller, name: str, domain: EntityRef | None) -> Owner:
    """Return the account that the ``account`` parameter of a list names, in ``domain`` or the caller's domain.

    The caller's right to use the domain has been checked before (``require_domain``).

    Raises:
        InvalidParameter: there is no such account.
        PermissionDenied: the caller is a user and names another account than its own.
    """
    (owner,) = named_accounts(connection, caller, [(name, domain)])
    return owner


def named_accounts(
    connection: Connection, caller: Caller, named: Sequence[tuple[str, EntityRef | None]]
) -> list[Owner]:
    """Return the accounts of several pairs of name and domain, in order, as ``named_account`` does for one."""
    own = (caller.owner.domain_id, caller.owner.domain_uuid)
    places = [(name, *(own if domain is None else (domain.id, domain.uuid))) for name, domain in named]
    for name, domain_id, _ in places:
        _require_nameable(caller, name, domain_id)
    found = owners.owners_by_name(connection, [(name, domain_id) for name, domain_id, _ in places])
    return [_existing(found.get((name.lower(), domain_id)), name, uuid) for name, domain_id, uuid in places]


def _require_nameable(caller: Caller, name: str, domain_id: int) -> None:
    own = name.lower() == caller.owner.account_name.lower() and domain_id == caller.owner.domain_id
    if caller.role_type is RoleType.USER and not own:
        raise PermissionDenied(
            f"Account {caller.owner.account_name} does not have permission to operate for account {name}"
        )


def _existing(owner: Owner | None, name: str, domain_uuid: UUID) -> Owner:
    if owner is None:
        raise InvalidParameter("account", name, f"Unable to find account by name {name} in domain id={domain_uuid}")
    return owner


def _require_lineage(caller: Caller, lineage: str, domain_uuid: UUID) -> None:
    if caller.is_root_admin or lineage == caller.owner.lineage:
        return
    if caller.role_type is not RoleType.USER and lineage.startswith(caller.owner.lineage):
        return
    raise PermissionDenied(
        f"Account {caller.owner.account_name} does not have permission to operate within domain id={domain_uuid}"
    )
