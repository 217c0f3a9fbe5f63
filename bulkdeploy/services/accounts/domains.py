"""Operations on domains: create, rename, and delete with everything in them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.declare.noun import Change
from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.queue.job_queue import JobQueue
from bulkdeploy.services.accounts.account_removal import RemovedAccounts, removal_job, remove
from bulkdeploy.services.live_entities import given_refs, unique_name
from bulkdeploy.services.ownership import require_domains
from bulkdeploy.store.accounts import domains
from bulkdeploy.store.accounts.account_removal import lock_accounts_of_domains
from bulkdeploy.store.database.default_rows import ROOT_DOMAIN_ID
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.live_rows import change_rows, columns_of

DELETE_CLASS = "org.apache.cloudstack.api.command.admin.domain.DeleteDomainCmd"


def create_domains(connection: Connection, caller: Caller, batch: Sequence[Arguments]) -> list[EntityRef]:
    """Create domains, each below its given parent domain, or below the caller's domain if no parent is given.

    Raises:
        InvalidParameter: a name is already used, or a parent domain was deleted.
        PermissionDenied: a parent is neither the caller's domain nor one of its subdomains.
    """
    require_domains(connection, caller, given_refs(batch, "parentdomainid"))
    wanted = [
        given["parentdomainid"].id if "parentdomainid" in given else caller.owner.domain_id for given in batch
    ]
    above = domains.lock_domains(connection, wanted)
    for given, parent_id in zip(batch, wanted, strict=True):
        if parent_id not in above:
            shown = str(given["parentdomainid"].uuid) if "parentdomainid" in given else ""
            raise InvalidParameter("parentdomainid", shown, "it was deleted")
    new = [
        (above[parent_id], columns_of(domains.FIELDS, given))
        for given, parent_id in zip(batch, wanted, strict=True)
    ]
    with unique_name("name", batch[0]["name"], f"another domain of {new[0][0].path}"):
        made = domains.insert_domains(connection, new)
    texts = (f"created domain {parent.path}/{columns['name']}" for parent, columns in new)
    record_events(connection, caller, (Happened(EventType.DOMAIN_CREATE, text) for text in texts))
    return made


def update_domains(connection: Connection, caller: Caller, changes: Sequence[Change]) -> None:
    """Change the names or network domains of domains. An empty text removes the network domain.

    Raises:
        InvalidParameter: a name is already used, ROOT would be renamed, or a domain was deleted.
        PermissionDenied: the caller may not access a domain.
    """
    domains.lock_parents(connection, [ref.id for ref, given in changes if "name" in given])
    locked = _lock_all(connection, caller, [ref for ref, _ in changes])
    for ref, given in changes:
        if given.get("name", locked[ref.id].name) != locked[ref.id].name:
            # one by one, because each domain is in the paths of others
            _rename(connection, locked[ref.id], given["name"])
    named = ((ref, given) for ref, given in changes if "networkdomain" in given)
    change_rows(connection, ((ref, {"network_domain": given["networkdomain"] or None}) for ref, given in named))
    texts = (f"updated domain {locked[ref.id].path}" for ref, _ in changes)
    record_events(connection, caller, (Happened(EventType.DOMAIN_UPDATE, text) for text in texts))


def delete_domains(
    connection: Connection, job_queue: JobQueue, caller: Caller, refs: Sequence[EntityRef], *, cleanup: bool
) -> RemovedAccounts:
    """Delete domains. Their users can no longer log in.

    If ``cleanup`` is true, the domains below them and everything that their accounts own are deleted, too.

    Raises:
        InvalidParameter: one of the domains was deleted already, or is ROOT.
        PermissionDenied: the caller may not access a domain, or a domain is the caller's own.
        ResourceInUse: ``cleanup`` is false and a domain is not empty.
    """
    domain_ids = domains.lock_domains_below(connection, require_domains(connection, caller, refs).values())
    locked = _lock_all(connection, caller, refs)
    uses = domains.uses_of_domains(connection, locked)
    for ref in refs:
        domain = locked[ref.id]
        if domain.id == ROOT_DOMAIN_ID:
            raise InvalidParameter("id", str(ref.uuid), "ROOT cannot be deleted")
        if caller.owner.lineage.startswith(domain.lineage):
            raise PermissionDenied("The domain of the caller's own account cannot be deleted")
        if uses[ref.id] and not cleanup:
            what = ", ".join(f"{count} {kind}" for kind, count in uses[ref.id].items())
            raise ResourceInUse(f"Domain {domain.path} is not empty ({what}); cleanup=true deletes that, too")
    account_ids = lock_accounts_of_domains(connection, domain_ids)
    texts = (f"deleted domain {domain.path}" for domain in locked.values())
    record_events(connection, caller, (Happened(EventType.DOMAIN_DELETE, text) for text in texts))
    domains.remove_domains(connection, domain_ids)
    return remove(connection, job_queue, caller, account_ids)


def deleted(connection: Connection, caller: Caller, domain: EntityRef, removed: RemovedAccounts) -> JobTicket:
    """Return the job of a call that deleted a domain.

    The job ends when the last VM of the domain's accounts is deleted.
    """
    instance = Instance("Domain", domain.id, domain.uuid)
    return removal_job(connection, caller, DELETE_CLASS, instance, removed)


def _lock_all(connection: Connection, caller: Caller, refs: Sequence[EntityRef]) -> dict[int, Row[Any]]:
    require_domains(connection, caller, refs)
    locked = domains.lock_domains(connection, [ref.id for ref in refs])
    for ref in refs:
        if ref.id not in locked:
            raise InvalidParameter("id", str(ref.uuid), "the domain was deleted")
    return locked


def _rename(connection: Connection, domain: Row[Any], name: str) -> None:
    if domain.parent_id is None:
        raise InvalidParameter("name", name, "the ROOT domain cannot be renamed")
    domains.lock_domains_below(connection, [domain.lineage])
    if name.lower() != domain.name.lower() and domains.has_child_named(connection, domain.parent_id, name):
        raise InvalidParameter("name", name, "the parent domain already has a subdomain with this name")
    domains.rename_domain(connection, domain, name)
