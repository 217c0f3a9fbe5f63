"""Operations on templates and ISOs: register, update, share and delete (one file: one noun).

A registered template is ready immediately in its zones. Its size is ``NOMINAL_BYTES`` until a driver fetches its
file. Simulated hypervisors need no file; other hypervisors find the file by the template's uuid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection

from bulkdeploy.declare.command import JobTicket
from bulkdeploy.declare.noun import Change
from bulkdeploy.declare.parameters import details_of
from bulkdeploy.domain.accounts.accounts import Caller, Owner, RoleType
from bulkdeploy.domain.entities import EVERY_ID, Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied, ResourceInUse
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import TemplateKind
from bulkdeploy.domain.resources import ResourceType
from bulkdeploy.domain.units import GIB
from bulkdeploy.domain.urls import redact_url
from bulkdeploy.security.guarded_fetch import FILE, PORTS, FetchRejected, FetchRules, check_url
from bulkdeploy.services.catalog.template_publicity import check_publicity
from bulkdeploy.services.jobs.done_jobs import done_with_success
from bulkdeploy.services.live_entities import deleted_events
from bulkdeploy.services.owned_entities import lock_all_own, lock_own
from bulkdeploy.services.ownership import (
    as_found_by_id,
    closed_zone,
    lock_owners,
    project_owner,
)
from bulkdeploy.store.accounts.live_limits import require_within_limits
from bulkdeploy.store.catalog import template_changes as store
from bulkdeploy.store.catalog.templates import TemplateFilter, list_templates
from bulkdeploy.store.infrastructure.zones import private_zones
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.jobs.events import Happened, record_event, record_events
from bulkdeploy.store.rows.filters import Arguments
from bulkdeploy.store.rows.listing import Page, Paging
from bulkdeploy.store.rows.live_rows import change_row, change_rows, columns_of, insert_rows, remove_rows

NOMINAL_BYTES = 2 * GIB
DEFAULT_TYPE = "USER"
ISO_FORMAT = "ISO"


@dataclass(frozen=True, slots=True)
class Kind:
    """The differences between templates and ISOs."""

    noun: str
    entity: Entity
    kind: TemplateKind
    instance: str
    created: EventType
    updated: EventType
    deleted: EventType
    delete_command: str


TEMPLATE = Kind(
    "template",
    Entity.TEMPLATE,
    TemplateKind.TEMPLATE,
    "Template",
    EventType.TEMPLATE_CREATE,
    EventType.TEMPLATE_UPDATE,
    EventType.TEMPLATE_DELETE,
    "org.apache.cloudstack.api.command.user.template.DeleteTemplateCmd",
)
ISO = Kind(
    "ISO",
    Entity.ISO,
    TemplateKind.ISO,
    "Iso",
    EventType.ISO_CREATE,
    EventType.ISO_UPDATE,
    EventType.ISO_DELETE,
    "org.apache.cloudstack.api.command.user.iso.DeleteIsoCmd",
)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The request of an updateTemplatePermissions call. None leaves a value unchanged."""

    operation: str | None
    accounts: Sequence[str] = ()
    is_public: bool | None = None
    is_featured: bool | None = None
    is_extractable: bool | None = None
    projects: Sequence[EntityRef] = ()


def register_templates(
    connection: Connection, caller: Caller, batch: Sequence[Arguments], *, kind: Kind
) -> list[EntityRef]:
    """Register templates or ISOs and return them.

    A template without ``zoneids`` is registered in all zones that are available to its owner.

    Raises:
        InvalidParameter: a URL cannot be downloaded, or a zone was deleted.
        PermissionDenied: a zone is restricted to another domain, a template would be featured and the caller is not
            an admin, or a tag or type is given and the caller is not a root admin; or under the same conditions as
            ``lock_owner``.
        ResourceLimitExceeded: the template limit of an account or of a domain above it would be exceeded.
    """
    rows = [new_template_row(caller, kind, given) for given in batch]
    owners = lock_owners(connection, caller, batch)
    for row, owner in zip(rows, owners, strict=True):
        check_publicity(connection, caller, owner, is_public=bool(row["is_public"]))
        row["account_id"] = owner.account_id
    zone_ids = _zones(connection, owners, batch)
    require_within_limits(connection, owners, ResourceType.TEMPLATE)
    made = insert_rows(connection, kind.entity, rows)
    places = ((ref, zone_id) for ref, ids in zip(made, zone_ids, strict=True) for zone_id in ids)
    store.put_in_zones(connection, [{"template_id": ref.id, "zone_id": zone_id} for ref, zone_id in places])
    happened = (
        Happened(
            kind.created,
            f"registered {kind.noun} {ref.name} in {len(ids)} zone(s)",
            template_reference(kind, ref),
            owner,
        )
        for ref, owner, ids in zip(made, owners, zone_ids, strict=True)
    )
    record_events(connection, caller, happened)
    return made


def new_template_row(caller: Caller, kind: Kind, given: Arguments) -> dict[str, Any]:
    """Return the columns of a new template or ISO, without its owner.

    Raises:
        InvalidParameter: the URL cannot be downloaded.
        PermissionDenied: the template would be featured and the caller is not an admin, or a tag or type is given
            and the caller is not a root admin.
    """
    columns = {"is_public": False, **_columns(given)}
    columns.setdefault("display_text", columns["name"])
    columns.setdefault("size_bytes", NOMINAL_BYTES)
    columns.setdefault("physical_size_bytes", columns["size_bytes"])
    if kind is ISO:
        columns["format"] = ISO_FORMAT
    if "url" in columns:
        _check_url(caller, columns["url"])
    _check_for_root(caller, columns)
    _check_featured(caller, featured=bool(columns.get("is_featured")))
    return {**columns, "kind": kind.kind.value}


def _zones(connection: Connection, owners: Sequence[Owner], batch: Sequence[Arguments]) -> list[list[int]]:
    """Return the zones of each template: the named zones, or all zones that are available to its owner."""
    live = store.live_zones(connection)
    kept = private_zones(connection, live)
    found = []
    for owner, given in zip(owners, batch, strict=True):
        named = given.get("zoneids", ()) if given.get("zoneid") is None else (given["zoneid"],)
        zones = None if not named or any(zone.id == EVERY_ID for zone in named) else named
        if not live or not {zone.id for zone in zones or ()} <= set(live):
            shown = ",".join(str(zone.uuid) for zone in zones or ())
            raise InvalidParameter("zoneid", shown, "the zone was deleted")
        open_to_owner = [
            zone_id for zone_id in live if owner.is_root_admin or owner.lineage.startswith(kept.get(zone_id, ""))
        ]
        for zone in zones or ():
            if zone.id not in open_to_owner:
                raise closed_zone(owner, str(zone.uuid))
        found.append(open_to_owner if zones is None else [zone.id for zone in zones])
    return found


def update_templates(connection: Connection, caller: Caller, changes: Sequence[Change], *, kind: Kind) -> None:
    """Change the fields of templates or ISOs that the caller owns or administers.

    Raises:
        InvalidParameter: one of the templates was deleted.
        PermissionDenied: the caller may not access one of the templates, or a tag or type is given and the caller
            is not a root admin.
    """
    written = [(ref, _columns(given)) for ref, given in changes]
    for _, columns in written:
        _check_for_root(caller, columns)
    locked = lock_all_own(connection, caller, [ref for ref, _ in changes], kind.noun)
    happened = []
    for (ref, columns), (row, owner) in zip(written, locked, strict=True):
        if columns:
            text = f"changed {', '.join(sorted(columns))} of {kind.noun} {row.name}"
            happened.append(Happened(kind.updated, text, template_reference(kind, ref), owner))
    change_rows(connection, written)
    record_events(connection, caller, happened)


def _columns(given: Arguments) -> dict[str, Any]:
    """Return the columns that the given arguments set. Columns with an empty text are left out."""
    columns = columns_of(store.FIELDS, given, never_empty=store.FIELDS)
    if columns.get("hypervisor") == store.NO_HYPERVISOR:
        columns["hypervisor"] = None
    if "details" in given:
        columns["details"] = details_of(given["details"])
    elif given.get("cleanupdetails"):
        columns["details"] = {}
    return columns


def delete_templates(
    connection: Connection,
    caller: Caller,
    kind: Kind,
    refs: Sequence[EntityRef],
    zone: EntityRef | None = None,
    *,
    forced: bool = False,
) -> None:
    """Delete templates or ISOs from one zone, or from all zones if ``zone`` is None.

    Unless ``forced`` is true, a template that VMs use is rejected with ResourceInUse. VMs that were created from a
    deleted template keep their disks.

    Raises:
        InvalidParameter: one of the templates was deleted, or the zone does not have it.
        PermissionDenied: the caller may not access one of the templates.
        ResourceInUse: ``forced`` is false and a VM uses one of the templates.
    """
    owners = [owner for _, owner in lock_all_own(connection, caller, refs, kind.noun)]
    ids = [ref.id for ref in refs]
    users = {} if forced else store.users_of(connection, ids)
    for ref in refs:
        if ref.id in users:
            raise ResourceInUse(
                f"{kind.noun} {ref.name} cannot be deleted: {users[ref.id]}; forced=true deletes it"
            )
    elsewhere: set[int] = set()
    if zone is not None:
        had, elsewhere = store.remove_from_zone(connection, ids, zone.id)
        if len(had) < len(set(ids)):
            raise InvalidParameter("zoneid", str(zone.uuid), f"the zone does not have the {kind.noun}")
    remove_rows(connection, [ref for ref in refs if ref.id not in elsewhere])
    record_events(connection, caller, deleted_events(kind.deleted, kind.instance, refs, owners))


def deleted(connection: Connection, caller: Caller, kind: Kind, ref: EntityRef) -> JobTicket:
    """Return the finished job of a call that deleted a template or an ISO."""
    return done_with_success(connection, caller, kind.delete_command, template_reference(kind, ref))


def template_size(connection: Connection, caller: Caller, ref: EntityRef) -> int:
    """Return the size in bytes of a disk that is created from a template.

    Raises:
        PermissionDenied: the caller may not use the template.
    """
    page = list_by_id(connection, caller, TEMPLATE, ref)
    if not page.rows:
        raise PermissionDenied(f"{caller.username} does not have permission to use template {ref.uuid}")
    return int(page.rows[0]["size"])


def update_permissions(
    connection: Connection, caller: Caller, kind: Kind, ref: EntityRef, requested: Sharing
) -> None:
    """Permit accounts of the owner's domain, or all accounts, to use a template, or remove such permissions.

    Raises:
        InvalidParameter: the template was deleted, or there is no such account or project.
        PermissionDenied: the caller may not access the template or a project, or the template would be featured and
            the caller is not an admin.
    """
    _check_featured(caller, featured=bool(requested.is_featured))
    row, owner = lock_own(connection, caller, ref, kind.noun)
    check_publicity(connection, caller, owner, is_public=bool(requested.is_public))
    flags = {
        "is_public": requested.is_public,
        "is_featured": requested.is_featured,
        "is_extractable": requested.is_extractable,
    }
    changed = {name: value for name, value in flags.items() if value is not None}
    if changed:
        change_row(connection, ref, changed)
    found = store.accounts_named(connection, owner, requested.accounts) if requested.accounts else {}
    for name in requested.accounts:
        if name not in found:
            raise InvalidParameter("accounts", name, "there is no such account in the owner's domain")
    of_projects = [project_owner(connection, caller, project.id).account_id for project in requested.projects]
    match requested.operation:
        case "add":
            store.share(connection, ref, [*found.values(), *of_projects])
        case "remove":
            store.unshare(connection, ref, [*found.values(), *of_projects])
        case "reset":
            store.unshare(connection, ref, None)
            change_row(connection, ref, {"is_public": False, "is_featured": False})
    text = f"changed who may use {kind.noun} {row.name}"
    record_event(connection, caller, kind.updated, text, template_reference(kind, ref), owner)


def template_reference(kind: Kind, ref: EntityRef) -> Instance:
    """Return the reference to a template or ISO that jobs and events store."""
    return Instance(kind.instance, ref.id, ref.uuid)


def list_by_id(connection: Connection, caller: Caller, kind: Kind, ref: EntityRef) -> Page:
    """Return the list rows of a template or ISO: one row for each zone that has it."""
    seen = as_found_by_id(connection, caller)
    return list_templates(
        connection, caller, seen, {"id": ref}, Paging(None), kind=kind.kind, shown=TemplateFilter.ALL
    )


def first_row(
    connection: Connection, caller: Caller, kind: Kind, ref: EntityRef, parameter: str
) -> Mapping[str, Any]:
    """Return the list row of a template or ISO in one of its zones.

    Raises:
        InvalidParameter: no zone has the template any more.
    """
    rows = list_by_id(connection, caller, kind, ref).rows
    if not rows:
        raise InvalidParameter(
            parameter, str(ref.uuid), f"the {kind.noun} is in no zone any more and can only be deleted"
        )
    return rows[0]


def _check_url(caller: Caller, url: str) -> None:
    """Raise an error for a URL whose scheme is not supported. Only root admins may name files of the workers."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if any(ord(letter) < ord(" ") for letter in url):  # urlsplit removes line breaks
        raise InvalidParameter("url", redact_url(url)[:80], "it must not contain control characters")
    if caller.is_root_admin and parts.scheme.lower() == FILE and not parts.netloc and parts.path.startswith("/"):
        return
    if parts.scheme.lower() not in PORTS or not parts.hostname:
        raise InvalidParameter(
            "url", redact_url(url)[:80], f"it must begin with {'://, '.join(PORTS)}:// and name a host"
        )


def check_public_url(url: str, rules: FetchRules) -> None:
    """Raise InvalidParameter if a URL contains an address from which workers must not download.

    Host names are not resolved here. The worker that downloads the file checks the addresses of the host name.

    Raises:
        InvalidParameter: the URL names such an address.
    """
    try:
        check_url(url, rules)
    except FetchRejected as error:
        raise InvalidParameter("url", url, str(error)) from error


def _check_for_root(caller: Caller, columns: Mapping[str, Any]) -> None:
    """Raise PermissionDenied if a caller who is not a root admin sets the tag or the type of a template.

    The tag selects the hosts that can run the template, and the type changes who may use the template.
    """
    if caller.is_root_admin:
        return
    for column, parameter in (("template_tag", "templatetag"), ("template_type", "templatetype")):
        if columns.get(column, DEFAULT_TYPE) != DEFAULT_TYPE:
            raise PermissionDenied(
                f"Parameter {parameter} can only be specified by a Root Admin, permission denied"
            )


def _check_featured(caller: Caller, *, featured: bool) -> None:
    if featured and caller.role_type is RoleType.USER:
        raise PermissionDenied(f"{caller.username} may not feature templates: only admins may")
