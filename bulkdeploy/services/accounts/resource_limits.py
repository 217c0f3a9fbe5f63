"""Resource limits of accounts, projects and domains: list and set (one file: their permission checks).

Source: cloudstack-protocol.md 7.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.declare.value_rules import UNLIMITED as NO_LIMIT
from bulkdeploy.declare.value_rules import size_in, size_text
from bulkdeploy.domain.accounts.accounts import Caller, Owner, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidCombination, InvalidParameter, PermissionDenied, ResourceLimitExceeded
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.domain.units import bytes_to_whole_gib, gib_to_bytes
from bulkdeploy.services.ownership import (
    NamedOwner,
    named_account,
    named_owner_of,
    project_owner,
    require_domain,
    require_domains,
    resolve_owners,
)
from bulkdeploy.store.accounts.limit_holders import (
    LimitHolder,
    account_holder,
    account_holders,
    domain_holder,
    domain_holders,
    limits_of,
)
from bulkdeploy.store.accounts.owners import domain_place
from bulkdeploy.store.accounts.projects import count_projects
from bulkdeploy.store.accounts.resource_limits import (
    LimitBook,
    domain_ids,
    effective_limit_rows,
    read_limits,
    read_set_limits,
    write_limits,
)
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.rows.filters import Arguments

MOST = 2**63 - 1
MOST_GIB = MOST // gib_to_bytes(1)


@dataclass(frozen=True, slots=True)
class HolderParameters:
    """The parameters of a call that name the account, project or domain whose limits the call reads or sets."""

    account: str | None = None
    domain: EntityRef | None = None
    project: EntityRef | None = None


def list_resource_limits(
    connection: Connection, caller: Caller, requested: HolderParameters
) -> list[dict[str, Any]]:
    """Return the effective limit of every resource type for an account, a project or a domain.

    The request names the account, the project or the domain. If the request names none, or if a user names its
    domain, the limits of the caller's account are returned.

    Raises:
        InvalidParameter: there is no such account or project.
        PermissionDenied: the caller may not access the account, project or domain.
    """
    if requested.domain is not None:
        require_domain(connection, caller, requested.domain)
    if requested.project is not None:
        holder = account_holder(connection, project_owner(connection, caller, requested.project.id))
    elif requested.account is not None:
        holder = account_holder(connection, named_account(connection, caller, requested.account, requested.domain))
    elif requested.domain is not None and caller.role_type is not RoleType.USER:
        holder = domain_holder(connection, requested.domain.id)
    else:
        holder = account_holder(connection, caller.owner)
    limits = limits_of(connection, holder)
    return [_row(holder, kind, most) for kind, most in limits.items()]


@dataclass(frozen=True, slots=True)
class NewLimit:
    """A new limit, in the unit of the resource's counts. The amount -1 means no limit."""

    kind: ResourceType
    amount: int
    requested: HolderParameters


def set_resource_limits(connection: Connection, caller: Caller, batch: Sequence[NewLimit]) -> list[dict[str, Any]]:
    """Set resource limits and return the new limits.

    The limit of a domain must not exceed the limit of its parent domain. This is checked after all limits of the
    call are written, so one call may raise both.

    Raises:
        InvalidCombination: the holder of a limit is not given or given twice.
        InvalidParameter: there is no such account or project, an amount exceeds the limit of the parent domain, or
            a limit is for a root admin account or the ROOT domain.
        PermissionDenied: the caller may not set the limit. Admins other than root admins may set limits only in
            subdomains of their domain.
    """
    holders = _holders(connection, caller, list(dict.fromkeys(one.requested for one in batch)))
    for holder in holders.values():
        _require_above(caller, holder)
    for one in batch:
        _require_limitable(holders[one.requested], one)
    write_limits(
        connection,
        {(holders[one.requested].kind, holders[one.requested].id, one.kind): one.amount for one in batch},
    )
    book = read_limits(connection, [], [_parent(holder) for holder in holders.values() if holder.owner is None])
    for one in batch:
        _check_ceiling(holders[one.requested], one, book)
    record_events(connection, caller, (_event(holders[one.requested], one) for one in batch))
    return [_row(holders[one.requested], one.kind, one.amount) for one in batch]


def _event(holder: LimitHolder, limit: NewLimit) -> Happened:
    name = holder.names.get("account") or holder.names.get("project") or holder.names["domainpath"]
    text = f"set the {limit.kind.wire_name} limit of {holder.kind} {name} to {_shown(limit.kind, limit.amount)}"
    return Happened(EventType.RESOURCE_LIMIT_UPDATE, text)


def check_project_limits(connection: Connection, owner: Owner) -> None:
    """Check that the limits of the account and of the domains above it allow one more project.

    The caller has locked the owner's domain.

    Raises:
        ResourceLimitExceeded: names the first limit that would be exceeded.
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


def limit_of_call(arguments: Arguments) -> NewLimit:
    """Return the limit of an updateResourceLimit call. Storage is in GiB, and memory is in MiB.

    A call without ``max`` removes the limit.

    Raises:
        InvalidParameter: there is no such resource type, or the amount is below -1.
    """
    number, most = arguments["resourcetype"], arguments.get("max", UNLIMITED)
    try:
        kind = ResourceType(number)
    except ValueError:
        known = ", ".join(f"{kind.value} {kind.wire_name}" for kind in ResourceType)
        raise InvalidParameter("resourcetype", number, f"it must be one of: {known}") from None
    if most < UNLIMITED:
        raise InvalidParameter(
            "max",
            most,
            "Please specify either '-1' for an infinite limit, or a limit that is at least '0'.",
        )
    if kind.counted_in_bytes and most != UNLIMITED:
        if most > MOST_GIB:
            raise InvalidParameter("max", most, f"it must be at most {MOST_GIB} GiB")
        most = gib_to_bytes(most)
    return NewLimit(kind, most, holder_parameters(arguments))


def limit_of_entry(values: Arguments) -> NewLimit:
    """Return the limit in a zone file's entry: ``unlimited``, a size of memory or storage, or a number of objects.

    Raises:
        InvalidParameter: a size is given for a resource that is counted in objects, or the other way round.
    """
    kind, written = ResourceType[values["resourcetype"].upper()], values["max"]
    requested = (
        HolderParameters(project=values["projectid"]) if "projectid" in values else holder_parameters(values)
    )
    if written == NO_LIMIT:
        return NewLimit(kind, UNLIMITED, requested)
    if kind.unit is None:
        amount = int(written) if written.isdecimal() else None
        rule = "a whole number"
    else:
        amount, rule = size_in(written, kind.unit), "a size such as 20 TiB"
    if amount is None or amount > MOST:
        raise InvalidParameter("max", written, f"must be {rule}, or {NO_LIMIT}")
    return NewLimit(kind, amount, requested)


def read_resource_limits(connection: Connection) -> list[dict[str, Any]]:
    """Return all limits that are set explicitly, in the format of zone files."""
    return [_entry(row) for row in read_set_limits(connection)]


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    kind, most = ResourceType(row["resource_type"]), row["max"]
    amount = str(most) if kind.unit is None else size_text(most * kind.unit)
    limit = {"resourcetype": kind.wire_name, "max": NO_LIMIT if most == UNLIMITED else amount}
    if row["project_id"] is not None:
        return {**limit, "projectid": row["project_id"], "_within": (Entity.PROJECT, row["project_id"])}
    within = Entity.ACCOUNT if row["owner_kind"] == "account" else Entity.DOMAIN
    holder = {"account": row["account"], "domainid": row["domain_id"]}
    return {**limit, **holder, "_within": (within, row["owner_id"])}


def holder_parameters(arguments: Arguments) -> HolderParameters:
    """Return the parameters ``account``, ``domainid`` and ``projectid`` of a call that reads or sets limits."""
    return HolderParameters(arguments.get("account"), arguments.get("domainid"), arguments.get("projectid"))


def _holders(
    connection: Connection, caller: Caller, requested: Sequence[HolderParameters]
) -> dict[HolderParameters, LimitHolder]:
    named: dict[HolderParameters, NamedOwner] = {}
    of_domains: dict[HolderParameters, EntityRef] = {}
    for one in requested:
        if one.project is not None or one.account is not None:
            named[one] = named_owner_of({"account": one.account, "domainid": one.domain, "projectid": one.project})
            continue
        if one.domain is None:
            raise InvalidCombination(
                ("account", "domainid", "projectid"),
                "the holder of the limit must be given: account and domainid, or domainid alone, or projectid",
            )
        of_domains[one] = one.domain
    require_domains(connection, caller, of_domains.values())
    for domain in of_domains.values():
        if domain.removed:
            raise InvalidParameter("domainid", str(domain.uuid), "the domain was deleted")
    owners = resolve_owners(connection, caller, named.values())
    by_account = account_holders(connection, owners.values())
    by_domain = domain_holders(connection, [domain.id for domain in of_domains.values()])
    return {
        **{one: by_account[owners[whose].account_id] for one, whose in named.items()},
        **{one: by_domain[domain.id] for one, domain in of_domains.items()},
    }


def _require_above(caller: Caller, holder: LimitHolder) -> None:
    """Check that the caller may set limits of this holder: admins below root only below their own domain."""
    if caller.is_root_admin:
        return
    own_domain = holder.owner is None and holder.lineage == caller.owner.lineage
    own_account = holder.owner is not None and holder.id == caller.owner.account_id
    if own_domain or own_account or caller.role_type is RoleType.USER:
        raise PermissionDenied(
            f"Account {caller.owner.account_name} does not have permission to update the limits "
            f"of this {holder.kind}"
        )


def _require_limitable(holder: LimitHolder, limit: NewLimit) -> None:
    if limit.amount == UNLIMITED:
        return
    shown = _shown(limit.kind, limit.amount)
    if holder.owner is not None and holder.owner.is_root_admin:
        raise InvalidParameter("max", shown, "Only -1 limit is supported for Root Admin accounts")
    if holder.owner is None and len(domain_ids(holder.lineage)) == 1:
        raise InvalidParameter("max", shown, "Only -1 limit is supported for the ROOT domain")


def _check_ceiling(holder: LimitHolder, limit: NewLimit, book: LimitBook) -> None:
    if holder.owner is not None:
        return
    ceiling = book.of_domain(_parent(holder))[limit.kind]
    if UNLIMITED < ceiling < limit.amount:
        raise InvalidParameter(
            "max",
            _shown(limit.kind, limit.amount),
            f"the parent domain's {limit.kind.wire_name} limit is {_shown(limit.kind, ceiling)}; "
            "it must be at most that",
        )


def _parent(holder: LimitHolder) -> str:
    """Return the lineage of the parent domain. ROOT is its own parent."""
    above = domain_ids(holder.lineage)[:-1] or domain_ids(holder.lineage)
    return "/" + "".join(f"{domain_id}/" for domain_id in above)


def _row(holder: LimitHolder, kind: ResourceType, amount: int) -> dict[str, Any]:
    return {
        **holder.names,
        "resourcetype": str(kind.value),
        "resourcetypename": kind.wire_name,
        "max": _shown(kind, amount),
    }


def _shown(kind: ResourceType, amount: int) -> int:
    """Convert an amount to the unit of API responses: storage from bytes to GiB, other resources unchanged."""
    return bytes_to_whole_gib(amount) if kind.counted_in_bytes and amount != UNLIMITED else amount
