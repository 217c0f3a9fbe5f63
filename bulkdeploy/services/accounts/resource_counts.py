"""The recalculation of the resource counts of accounts, projects and domains (updateResourceCount)."""

from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller, RoleType
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.units import bytes_to_whole_gib
from bulkdeploy.services.accounts.resource_limits import HolderParameters
from bulkdeploy.services.ownership import named_account, project_owner, require_domain
from bulkdeploy.store.accounts.limit_holders import LimitHolder, account_holder, domain_holder
from bulkdeploy.store.accounts.resource_recounts import COUNTED, accounts_below, amounts_of, recount
from bulkdeploy.store.jobs.events import record_event


def update_resource_count(
    connection: Connection, caller: Caller, requested: HolderParameters, resource_type: int | None
) -> list[dict[str, Any]]:
    """Recalculate the resource counts of an account, a project or all accounts of a domain, and return the counts.

    If ``resource_type`` is None, all resource types that are counted are recalculated. Storage is returned in GiB.
    For a domain, the domain's own counts are returned.

    Raises:
        InvalidParameter: there is no such resource type, account or project.
        PermissionDenied: the caller may not access the account, project or domain.
    """
    kinds = COUNTED if resource_type is None else (_counted(resource_type),)
    holder = _holder(connection, caller, requested)
    if caller.role_type is RoleType.USER:
        raise PermissionDenied("Users may not recount resources")
    account_ids = [holder.id] if holder.owner is not None else accounts_below(connection, holder.lineage)
    recount(connection, account_ids, kinds)
    amounts = amounts_of(connection, holder.kind, holder.id)
    name = holder.names.get("account") or holder.names.get("project") or holder.names["domainpath"]
    record_event(connection, caller, EventType.RESOURCE_COUNT_UPDATE, f"counted anew {holder.kind} {name}")
    return [_row(holder, kind, amounts.get(kind, 0)) for kind in kinds]


def _counted(number: int) -> ResourceType:
    kind = next((kind for kind in COUNTED if kind.value == number), None)
    if kind is None:
        known = ", ".join(f"{kind.value} {kind.wire_name}" for kind in COUNTED)
        raise InvalidParameter("resourcetype", number, f"counts are kept of: {known}")
    return kind


def _holder(connection: Connection, caller: Caller, requested: HolderParameters) -> LimitHolder:
    if requested.domain is not None:
        require_domain(connection, caller, requested.domain)
    if requested.project is not None:
        return account_holder(connection, project_owner(connection, caller, requested.project.id))
    if requested.account is not None:
        return account_holder(connection, named_account(connection, caller, requested.account, requested.domain))
    domain = requested.domain
    return domain_holder(connection, caller.owner.domain_id if domain is None else domain.id)


def _row(holder: LimitHolder, kind: ResourceType, amount: int) -> dict[str, Any]:
    return {
        **holder.names,
        "resourcetype": str(kind.value),
        "resourcetypename": kind.wire_name,
        "resourcecount": bytes_to_whole_gib(amount) if kind.counted_in_bytes else amount,
    }
