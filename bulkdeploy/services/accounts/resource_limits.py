"""Limits of accounts, projects and domains: shown and set (reference section 7.5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts import Caller, Owner, RoleType
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, PermissionDenied, ResourceLimitExceeded
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.domain.units import bytes_to_whole_gib, gib_to_bytes
from bulkdeploy.services.ownership import named_account, project_owner, require_domain, resolve_owner
from bulkdeploy.store.accounts.limit_holders import LimitHolder, account_holder, domain_holder, limits_of
from bulkdeploy.store.accounts.owners import domain_place
from bulkdeploy.store.accounts.projects import count_projects
from bulkdeploy.store.accounts.resource_limits import domain_ids, effective_limit_rows, read_limits, write_limit
from bulkdeploy.store.jobs.events import record_event

MOST_GIB = (2**63 - 1) // gib_to_bytes(1)


@dataclass(frozen=True, slots=True)
class HolderParameters:
    """Whose limits a call is about, as given."""

    account: str | None = None
    domain: EntityRef | None = None
    project: EntityRef | None = None


def list_resource_limits(connection: Connection, caller: Caller, asked: HolderParameters) -> list[dict[str, Any]]:
    """The effective limit of every resource type.

    Of the account or project named, else of the domain named, else of the caller's account; a user who
    names its domain gets its account's.

    Raises:
        InvalidParameter: no such account or project.
        PermissionDenied: the account, project or domain is outside the caller's reach.
    """
    if asked.domain is not None:
        require_domain(connection, caller, asked.domain)
    if asked.project is not None:
        holder = account_holder(connection, project_owner(connection, caller, asked.project.id))
    elif asked.account is not None:
        holder = account_holder(connection, named_account(connection, caller, asked.account, asked.domain))
    elif asked.domain is not None and caller.role_type is not RoleType.USER:
        holder = domain_holder(connection, asked.domain.id)
    else:
        holder = account_holder(connection, caller.owner)
    limits = limits_of(connection, holder)
    return [_row(holder, kind, most) for kind, most in limits.items()]


def update_resource_limit(
    connection: Connection, caller: Caller, asked: HolderParameters, resource_type: int, most: int
) -> Mapping[str, Any]:
    """Set one limit and answer it. ``most`` is in the wire's unit: GiB for storage, MiB for memory, -1: none.

    Raises:
        InvalidCombination: whose limit it is, is not said or said twice.
        InvalidParameter: no such resource type, account or project; an amount below -1, above what the
            parent domain has, or any limit for a root admin account or the ROOT domain.
        PermissionDenied: not the caller's to set: admins below root set limits only below themselves.
    """
    kind = _resource_type(resource_type)
    amount = _amount(kind, most)
    holder = _holder(connection, caller, asked)
    _require_above(caller, holder)
    _check_holder(connection, holder, kind, most, amount)
    write_limit(connection, holder.kind, holder.id, kind, amount)
    name = holder.names.get("account") or holder.names.get("project") or holder.names["domainpath"]
    record_event(
        connection,
        caller,
        EventType.RESOURCE_LIMIT_UPDATE,
        f"set the {kind.wire_name} limit of {holder.kind} {name} to {most}",
    )
    return _row(holder, kind, amount)


def check_project_limits(connection: Connection, owner: Owner) -> None:
    """Refuse a project more than the account, or a domain above it, may have; the owner's domain is locked.

    Raises:
        ResourceLimitExceeded: names the first limit that would be passed.
    """
    for (kind, holder), limits in effective_limit_rows(connection, owner).items():
        most, used = limits[ResourceType.PROJECT], count_projects(connection, kind, holder)
        if most != UNLIMITED and used >= most:
            raise ResourceLimitExceeded(
                resource=ResourceType.PROJECT.wire_name,
                owner_kind=kind,
                owner_name=owner.account_name,
                domain_uuid=owner.domain_uuid if kind == "account" else domain_place(connection, holder)[0],
                limit=str(most),
                current=str(used),
                requested="1",
            )


def _resource_type(number: int) -> ResourceType:
    try:
        return ResourceType(number)
    except ValueError:
        known = ", ".join(f"{kind.value} {kind.wire_name}" for kind in ResourceType)
        raise InvalidParameter("resourcetype", number, f"it should be one of: {known}") from None


def _amount(kind: ResourceType, most: int) -> int:
    """``most`` in the unit that counts are kept in."""
    if most < UNLIMITED:
        raise InvalidParameter(
            "max",
            most,
            "Please specify either '-1' for an infinite limit, or a limit that is at least '0'.",
        )
    if not kind.counted_in_bytes or most == UNLIMITED:
        return most
    if most > MOST_GIB:
        raise InvalidParameter("max", most, f"it should be at most {MOST_GIB} GiB")
    return gib_to_bytes(most)


def _holder(connection: Connection, caller: Caller, asked: HolderParameters) -> LimitHolder:
    if asked.project is None and asked.account is None:
        if asked.domain is None:
            raise InvalidCombination(
                ("account", "domainid", "projectid"),
                "Whose limit should be set? Give account and domainid, or domainid alone, or projectid",
            )
        require_domain(connection, caller, asked.domain)
        if asked.domain.removed:
            raise InvalidParameter("domainid", str(asked.domain.uuid), "the domain was deleted")
        return domain_holder(connection, asked.domain.id)
    domain_id = None if asked.domain is None else asked.domain.id
    project_id = None if asked.project is None else asked.project.id
    return account_holder(connection, resolve_owner(connection, caller, asked.account, domain_id, project_id))


def _require_above(caller: Caller, holder: LimitHolder) -> None:
    """Admins below root set limits neither for themselves nor for their own domain, and users none."""
    if caller.is_root_admin:
        return
    own_domain = holder.owner is None and holder.lineage == caller.owner.lineage
    own_account = holder.owner is not None and holder.id == caller.owner.account_id
    if own_domain or own_account or caller.role_type is RoleType.USER:
        raise PermissionDenied(
            f"Account {caller.owner.account_name} does not have permission to update the limits "
            f"of this {holder.kind}"
        )


def _check_holder(connection: Connection, holder: LimitHolder, kind: ResourceType, most: int, amount: int) -> None:
    if holder.owner is not None:
        if holder.owner.is_root_admin and amount != UNLIMITED:
            raise InvalidParameter("max", most, "Only -1 limit is supported for Root Admin accounts")
        return
    above = domain_ids(holder.lineage)[:-1]
    if not above and amount != UNLIMITED:
        raise InvalidParameter("max", most, "Only -1 limit is supported for the ROOT domain")
    if not above:
        return
    parent = "/" + "".join(f"{domain_id}/" for domain_id in above)
    ceiling = read_limits(connection, [], [parent]).of_domain(parent)[kind]
    if UNLIMITED < ceiling < amount:
        raise InvalidParameter(
            "max",
            most,
            f"the parent domain's {kind.wire_name} limit is {_shown(kind, ceiling)}; it should be at most that",
        )


def _row(holder: LimitHolder, kind: ResourceType, amount: int) -> dict[str, Any]:
    return {
        **holder.names,
        "resourcetype": str(kind.value),
        "resourcetypename": kind.wire_name,
        "max": _shown(kind, amount),
    }


def _shown(kind: ResourceType, amount: int) -> int:
    """An amount in the wire's unit."""
    return bytes_to_whole_gib(amount) if kind.counted_in_bytes and amount != UNLIMITED else amount
