"""Domains: made, renamed and deleted with all that is in them (reference section 8.14)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.domain.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.services.accounts.account_removal import RemovalCall, remove
from bulkdeploy.services.accounts.authority import check_name, check_network_domain
from bulkdeploy.services.ownership import require_domain
from bulkdeploy.store.accounts import domains
from bulkdeploy.store.accounts.account_removal import lock_accounts_of_domains
from bulkdeploy.store.database.default_rows import ROOT_DOMAIN_ID
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import record_event

DELETE_CLASS = "org.apache.cloudstack.api.command.admin.domain.DeleteDomainCmd"
NOT_IN_NAMES = "/"
"""It separates the names in a path."""


def create_domain(
    connection: Connection, caller: Caller, name: str, parent: EntityRef | None, network_domain: str | None
) -> Mapping[str, Any]:
    """Make a domain below another, without one below the caller's own, and answer it.

    Raises:
        InvalidParameter: a name that is taken or not possible, or a parent that was deleted.
        PermissionDenied: the parent is outside the caller's reach.
    """
    check_name("name", name, forbidden=NOT_IN_NAMES)
    check_network_domain(network_domain)
    if parent is not None:
        require_domain(connection, caller, parent)
    above = domains.lock_domain(connection, caller.owner.domain_id if parent is None else parent.id)
    if above is None:
        raise InvalidParameter("parentdomainid", "" if parent is None else str(parent.uuid), "it was deleted")
    if domains.has_child_named(connection, above.id, name):
        raise InvalidParameter("name", name, f"{above.path} has a domain of this name already")
    domain_id = domains.insert_domain(connection, above, name, network_domain or None)
    record_event(connection, caller, EventType.DOMAIN_CREATE, f"created domain {above.path}/{name}")
    return domains.read_domain(connection, domain_id)


def update_domain(
    connection: Connection, caller: Caller, ref: EntityRef, name: str | None, network_domain: str | None
) -> Mapping[str, Any]:
    """Give a domain another name or network domain, and answer it; an empty network domain is none.

    Raises:
        InvalidParameter: a name that is taken or not possible, ROOT's name, or a domain that was deleted.
        PermissionDenied: the domain is outside the caller's reach.
    """
    if name is not None:
        check_name("name", name, forbidden=NOT_IN_NAMES)
    check_network_domain(network_domain)
    if name is not None:
        domains.lock_parent(connection, ref.id)
    domain = _lock(connection, caller, ref)
    if name is not None and name != domain.name:
        _rename(connection, domain, name)
    if network_domain is not None:
        domains.set_network_domain(connection, domain.id, network_domain or None)
    record_event(connection, caller, EventType.DOMAIN_UPDATE, f"updated domain {domain.path}")
    return domains.read_domain(connection, domain.id)


def delete_domain(
    connection: Connection, job_queue: JobQueue, caller: Caller, ref: EntityRef, *, cleanup: bool
) -> JobTicket:
    """Delete a domain; with ``cleanup`` the domains below it and all that their accounts own, too.

    Nobody logs in to any of them from the answer on; the job ends with the last VM.

    Raises:
        InvalidParameter: it was deleted already, or is ROOT.
        PermissionDenied: it is outside the caller's reach, or the caller's own.
        ResourceInUse: without ``cleanup``, something is in it.
    """
    lineage = require_domain(connection, caller, ref)
    domain_ids = domains.lock_domains_below(connection, lineage)
    domain = _lock(connection, caller, ref)
    if domain.id == ROOT_DOMAIN_ID:
        raise InvalidParameter("id", str(ref.uuid), "ROOT cannot be deleted")
    if caller.owner.lineage.startswith(domain.lineage):
        raise PermissionDenied("Nobody can delete the domain that its own account is in")
    uses = domains.uses_of_domain(connection, domain.id)
    if uses and not cleanup:
        what = ", ".join(f"{count} {kind}" for kind, count in uses.items())
        raise ResourceInUse(f"Domain {domain.path} is not empty ({what}); cleanup=true deletes that, too")
    account_ids = lock_accounts_of_domains(connection, domain_ids)
    call = RemovalCall(DELETE_CLASS, Instance("Domain", domain.id, domain.uuid))
    record_event(connection, caller, EventType.DOMAIN_DELETE, f"deleted domain {domain.path}")
    domains.remove_domains(connection, domain_ids)
    return remove(connection, job_queue, caller, call, account_ids)


def _lock(connection: Connection, caller: Caller, ref: EntityRef) -> Row[Any]:
    require_domain(connection, caller, ref)
    domain = domains.lock_domain(connection, ref.id)
    if domain is None:
        raise InvalidParameter("id", str(ref.uuid), "the domain was deleted")
    return domain


def _rename(connection: Connection, domain: Row[Any], name: str) -> None:
    if domain.parent_id is None:
        raise InvalidParameter("name", name, "ROOT keeps its name")
    domains.lock_domains_below(connection, domain.lineage)
    if name.lower() != domain.name.lower() and domains.has_child_named(connection, domain.parent_id, name):
        raise InvalidParameter("name", name, "its parent has a domain of this name already")
    domains.rename_domain(connection, domain, name)
