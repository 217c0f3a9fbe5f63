"""The list query of templates and ISOs: one row per template and zone."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Subquery,
    and_,
    case,
    exists,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import distinct_on

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.infrastructure.topology import TemplateKind
from bulkdeploy.domain.urls import redact_url
from bulkdeploy.store.resource_tags import ISO, TEMPLATE, add_tags
from bulkdeploy.store.resources.annotations import annotation_columns
from bulkdeploy.store.rows.filters import (
    Arguments,
    Condition,
    Filters,
    by_id,
    by_ids,
    equal,
    filtered,
    id_in,
    keyword,
    same_text,
    tagged,
)
from bulkdeploy.store.rows.listing import Page, Paging, fetch_rows
from bulkdeploy.store.rows.visibility import Visibility, owner_columns, with_owner
from bulkdeploy.store.tables.accounts import accounts, domains
from bulkdeploy.store.tables.groups import user_data
from bulkdeploy.store.tables.offerings import os_types, template_permissions, template_zones, templates
from bulkdeploy.store.tables.topology import zones

PERCENT = re.compile(r"(\d{1,3})%")
"""The beginning of the status of an image that is being fetched."""


class TemplateFilter(StrEnum):
    """The values of the parameters ``templatefilter`` and ``isofilter``."""

    FEATURED = "featured"
    SELF = "self"
    SELF_EXECUTABLE = "selfexecutable"
    SHARED_EXECUTABLE = "sharedexecutable"
    EXECUTABLE = "executable"
    COMMUNITY = "community"
    SHARED = "shared"
    ALL = "all"


READY_ONLY = (TemplateFilter.SELF_EXECUTABLE, TemplateFilter.SHARED_EXECUTABLE, TemplateFilter.EXECUTABLE)


def list_templates(
    connection: Connection,
    caller: Caller,
    visibility: Visibility,
    arguments: Arguments,
    paging: Paging,
    *,
    kind: TemplateKind,
    shown: TemplateFilter,
) -> Page:
    """Return one page of templates or ISOs, ordered by sort key, id and zone.

    ``visibility`` selects the owners that the filter "self" covers. ``zoneid`` selects one zone. ``showunique``
    returns one row per template, preferably that of a zone in which the template is ready.
    """
    unique = bool(arguments.get("showunique"))
    places = _places(arguments, unique=unique)
    entity = Entity.TEMPLATE if kind is TemplateKind.TEMPLATE else Entity.ISO
    query = (
        _query(places)
        .add_columns(*annotation_columns(entity))
        .where(templates.c.kind == kind, _shown(shown, caller, visibility, places))
    )
    if not arguments.get("showremoved"):
        query = query.where(templates.c.removed.is_(None))
    tag_type = TEMPLATE if entity is Entity.TEMPLATE else ISO
    filters = {**_filters(places), "tags": tagged(tag_type, templates.c.id)}
    rows, count = fetch_rows(connection, filtered(query, filters, arguments), paging)
    return Page(_completed(connection, rows, tag_type), count)


def template_rows(connection: Connection, template_ids: Collection[int]) -> dict[int, Mapping[str, Any]]:
    """Return live templates by internal id, with the same fields as in lists.

    Fields of a zone are of the best zone.
    """
    live = _query(_places({}, unique=True)).where(templates.c.removed.is_(None))
    query = live.where(id_in(templates.c.id, template_ids)).add_columns(*annotation_columns(Entity.TEMPLATE))
    rows, _ = fetch_rows(connection, query, Paging(None))
    ids = [row["_id"] for row in rows]
    return dict(zip(ids, _completed(connection, rows, TEMPLATE), strict=True))


def _completed(connection: Connection, rows: list[dict[str, Any]], tag_type: str) -> list[dict[str, Any]]:
    for row in rows:
        row["details"] = row["details"] or None
        row["downloaddetails"] = [_download(row)]
        row["url"] = None if row["url"] is None else redact_url(row["url"])
    add_tags(connection, tag_type, rows)
    return rows


def _download(row: Mapping[str, Any]) -> dict[str, str]:
    """Return an entry of the response field ``downloaddetails``: zone, percentage and CloudStack's state."""
    fetched = PERCENT.match(row["status"])
    state = "DOWNLOADED" if row["isready"] else "DOWNLOAD_IN_PROGRESS" if fetched else "DOWNLOAD_ERROR"
    percent = "100" if row["isready"] else fetched[1] if fetched else "0"
    return {"datastore": row["zonename"], "downloadPercent": percent, "downloadState": state}


def _places(arguments: Arguments, *, unique: bool) -> Subquery:
    """Return a subquery for the zones of each template; with ``unique``, only the best zone of each template."""
    place = template_zones.c
    query = select(template_zones).join(zones, zones.c.id == place.zone_id).where(zones.c.removed.is_(None))
    if "zoneid" in arguments:
        query = query.where(place.zone_id == arguments["zoneid"].id)
    if unique:
        query = query.ext(distinct_on(place.template_id))
        query = query.order_by(place.template_id, place.ready.desc(), place.zone_id)
    return query.subquery("places")


def _query(places: Subquery) -> Select[Any]:
    template = templates.c
    return (
        select(
            template.id.label("_id"),
            template.uuid.label("id"),
            template.name,
            template.display_text.label("displaytext"),
            accounts.c.uuid.label("accountid"),
            *owner_columns(),
            zones.c.uuid.label("zoneid"),
            zones.c.name.label("zonename"),
            places.c.ready.label("isready"),
            places.c.status,
            template.format,
            template.hypervisor,
            template.template_type.label("templatetype"),
            template.template_tag.label("templatetag"),
            os_types.c.uuid.label("ostypeid"),
            func.coalesce(os_types.c.name, "None").label("ostypename"),
            template.size_bytes.label("size"),
            template.physical_size_bytes.label("physicalsize"),
            template.is_public.label("ispublic"),
            template.is_featured.label("isfeatured"),
            template.is_extractable.label("isextractable"),
            template.bootable,
            template.password_enabled.label("passwordenabled"),
            template.sshkey_enabled.label("sshkeyenabled"),
            template.requires_hvm.label("requireshvm"),
            template.dynamically_scalable.label("isdynamicallyscalable"),
            template.url,
            template.checksum,
            template.arch,
            template.details,
            template.created,
            template.removed,
            *_user_data_columns(),
        )
        .select_from(_tables(places))
        .order_by(template.sort_key, template.id, places.c.zone_id)
    )


def _user_data_columns() -> tuple[ColumnElement[Any], ...]:
    """Return the columns of the live user data that is linked to a template."""
    data = user_data.c
    return (
        data.uuid.label("userdataid"),
        data.name.label("userdataname"),
        data.params.label("userdataparams"),
        case((data.id.is_not(None), templates.c.user_data_policy)).label("userdatapolicy"),
    )


def _tables(places: Subquery) -> FromClause:
    return (
        with_owner(templates, templates.c.account_id)
        .join(places, places.c.template_id == templates.c.id)
        .join(zones, zones.c.id == places.c.zone_id)
        .outerjoin(os_types, os_types.c.id == templates.c.os_type_id)
        .outerjoin(user_data, and_(user_data.c.id == templates.c.user_data_id, user_data.c.removed.is_(None)))
    )


def _filters(places: Subquery) -> Filters:
    template = templates.c
    return {
        "id": by_id(template.id),
        "ids": by_ids(template.id),
        "name": same_text(template.name),
        "keyword": keyword(template.name, template.display_text),
        "hypervisor": same_text(template.hypervisor),
        "templatetype": same_text(template.template_type),
        "arch": same_text(template.arch),
        "bootable": equal(template.bootable),
        "ispublic": equal(template.is_public),
        "isready": equal(places.c.ready),
        "oscategoryid": by_id(os_types.c.category_id),
    }


def _shown(shown: TemplateFilter, caller: Caller, visibility: Visibility, places: Subquery) -> Condition:
    """Return the condition for a template filter: by owner, publicity, sharing with the account, ready or not."""
    public, own = templates.c.is_public, visibility.condition()
    shared = _shared_with(visibility.account_id or caller.owner.account_id)
    conditions: dict[TemplateFilter, Condition] = {
        TemplateFilter.FEATURED: and_(public, templates.c.is_featured),
        TemplateFilter.COMMUNITY: and_(public, ~templates.c.is_featured),
        TemplateFilter.SELF: own,
        TemplateFilter.SELF_EXECUTABLE: own,
        TemplateFilter.SHARED: shared,
        TemplateFilter.SHARED_EXECUTABLE: shared,
        TemplateFilter.EXECUTABLE: or_(own, public, shared),
        TemplateFilter.ALL: _all(caller, or_(own, public, shared)),
    }
    return and_(conditions[shown], places.c.ready) if shown in READY_ONLY else conditions[shown]


def _all(caller: Caller, usable: Condition) -> Condition:
    if caller.is_root_admin:
        return true()
    return or_(usable, domains.c.lineage.startswith(caller.owner.lineage))


def _shared_with(account_id: int) -> Condition:
    grant = template_permissions.c
    return exists(select(1).where(grant.template_id == templates.c.id, grant.account_id == account_id))
