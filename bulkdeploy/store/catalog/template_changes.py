"""Rows of templates and ISOs: inserts, updates, sharing and deletes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert as upsert

from bulkdeploy.domain.accounts.accounts import AccountType, Owner
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.store.accounts.owned_entities import owned_reader
from bulkdeploy.store.database.default_rows import ADMIN_ACCOUNT_ID
from bulkdeploy.store.rows.filters import id_in
from bulkdeploy.store.rows.live_rows import Fields
from bulkdeploy.store.tables.accounts import accounts
from bulkdeploy.store.tables.offerings import template_permissions, template_zones, templates
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines

FIELDS: Fields = {
    "name": templates.c.name,
    "displaytext": templates.c.display_text,
    "url": templates.c.url,
    "format": templates.c.format,
    "hypervisor": templates.c.hypervisor,
    "ostypeid": templates.c.os_type_id,
    "checksum": templates.c.checksum,
    "arch": templates.c.arch,
    "ispublic": templates.c.is_public,
    "isfeatured": templates.c.is_featured,
    "isextractable": templates.c.is_extractable,
    "bootable": templates.c.bootable,
    "passwordenabled": templates.c.password_enabled,
    "sshkeyenabled": templates.c.sshkey_enabled,
    "requireshvm": templates.c.requires_hvm,
    "isdynamicallyscalable": templates.c.dynamically_scalable,
    "sortkey": templates.c.sort_key,
    "templatetag": templates.c.template_tag,
    "templatetype": templates.c.template_type,
    "details": templates.c.details,
    "size": templates.c.size_bytes,
    "physicalsize": templates.c.physical_size_bytes,
}
NO_HYPERVISOR = "None"
OF_TEMPLATES_ONLY = ("format", "hypervisor")


def read_templates(connection: Connection, entity: Entity) -> list[dict[str, Any]]:
    """Return templates or ISOs as the parameters that register them, one row per zone that has the template.

    ``isready`` and ``status`` are those of that zone. ``accountids`` are the accounts that may use the template.
    """
    place, grant = template_zones.c, template_permissions.c
    zones_of: dict[int, list[dict[str, Any]]] = {}
    for had in connection.execute(select(template_zones).order_by(place.zone_id)):
        zones_of.setdefault(had.template_id, []).append(
            {"zoneid": had.zone_id, "isready": had.ready, "status": had.status}
        )
    ids = func.array_agg(grant.account_id)
    shared = select(grant.template_id, ids).join(accounts, accounts.c.id == grant.account_id)
    shared = shared.where(accounts.c.removed.is_(None), accounts.c.account_type != AccountType.PROJECT)
    accounts_of = {row[0]: row[1] for row in connection.execute(shared.group_by(grant.template_id))}
    found = owned_reader(entity, FIELDS)(connection)
    for one in found:
        _, owner_id = one.pop("_within")  # templates list their zones separately
        if owner_id == ADMIN_ACCOUNT_ID:
            del one["account"], one["domainid"]
        one["hypervisor"] = one["hypervisor"] or NO_HYPERVISOR
        one["accountids"] = accounts_of.get(one["_id"], [])
        for name in OF_TEMPLATES_ONLY if entity is Entity.ISO else ():
            del one[name]
    return [{**one, **in_zone} for one in found for in_zone in zones_of.get(one["_id"], ())]


def live_zones(connection: Connection) -> list[int]:
    """Return the internal ids of all zones that were not deleted."""
    query = select(zones.c.id).where(zones.c.removed.is_(None)).order_by(zones.c.id)
    return list(connection.execute(query).scalars())


def put_in_zones(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add templates to zones.

    Each row has ``template_id`` and ``zone_id``, and optionally ``ready`` and ``status``.

    The template is ready in the zone unless ``ready`` is False. If the zone has the template already, ``ready`` and
    ``status`` are updated if they are given.
    """
    key = ("template_id", "zone_id")
    by_columns: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_columns.setdefault(tuple(sorted(row.keys() - set(key))), []).append(row)
    for reported, alike in by_columns.items():
        query = upsert(template_zones).values(alike)
        new = {name: query.excluded[name] for name in reported}
        connection.execute(
            query.on_conflict_do_update(index_elements=key, set_=new)
            if new
            else query.on_conflict_do_nothing(index_elements=key)
        )


def remove_from_zone(
    connection: Connection, template_ids: Collection[int], zone_id: int
) -> tuple[set[int], set[int]]:
    """Remove templates from a zone.

    Returns the ids of the templates that the zone had, and the ids of those that other zones still have.
    """
    place = template_zones.c
    gone = delete(template_zones).where(id_in(place.template_id, template_ids), place.zone_id == zone_id)
    had = set(connection.execute(gone.returning(place.template_id)).scalars())
    elsewhere = select(place.template_id).where(id_in(place.template_id, template_ids)).distinct()
    return had, set(connection.execute(elsewhere).scalars())


def users_of(connection: Connection, template_ids: Collection[int]) -> dict[int, str]:
    """Return, for each template that is in use, a text that names the first VM that uses it.

    A VM that is not expunged uses the template from which it was created, and the ISO in its drive.
    """
    vm, found = virtual_machines.c, dict[int, str]()
    for column, how in ((vm.iso_id, "has it in its drive"), (vm.template_id, "was made from it")):
        first = (
            select(column.label("template_id"), func.min(vm.id).label("vm_id"))
            .where(id_in(column, template_ids), vm.removed.is_(None))
            .group_by(column)
            .subquery()
        )
        query = select(first.c.template_id, vm.uuid).join(first, first.c.vm_id == vm.id)
        found |= {row.template_id: f"virtual machine {row.uuid} {how}" for row in connection.execute(query)}
    return found


def accounts_named(connection: Connection, owner: Owner, names: Sequence[str]) -> dict[str, int]:
    """Return the internal ids of the live accounts of the owner's domain with these names."""
    query = select(accounts.c.name, accounts.c.id).where(
        accounts.c.domain_id == owner.domain_id, accounts.c.name.in_(names), accounts.c.removed.is_(None)
    )
    return {row.name: row.id for row in connection.execute(query)}


def share(connection: Connection, template: EntityRef, account_ids: Iterable[int]) -> None:
    """Allow these accounts to use the template, in addition to the accounts that may use it already."""
    rows = [{"template_id": template.id, "account_id": account_id} for account_id in account_ids]
    if rows:
        connection.execute(upsert(template_permissions).values(rows).on_conflict_do_nothing())


def unshare(connection: Connection, template: EntityRef, account_ids: Iterable[int] | None) -> None:
    """Withdraw the permission to use the template from these accounts.

    None stands for all accounts except the owner.
    """
    gone = delete(template_permissions).where(template_permissions.c.template_id == template.id)
    connection.execute(
        gone if account_ids is None else gone.where(id_in(template_permissions.c.account_id, account_ids))
    )


def share_with_only(connection: Connection, shared: Mapping[int, Collection[int]]) -> None:
    """Share each template with exactly the given accounts. Permissions of projects are not changed.

    ``shared`` maps internal template ids to internal account ids.
    """
    grant = template_permissions.c
    pairs = [(template_id, account_id) for template_id, ids in shared.items() for account_id in ids]
    projects = select(accounts.c.id).where(accounts.c.account_type == AccountType.PROJECT)
    others = tuple_(grant.template_id, grant.account_id).not_in(pairs)
    connection.execute(
        delete(template_permissions).where(
            id_in(grant.template_id, shared), others, grant.account_id.not_in(projects)
        )
    )
    if pairs:
        rows = [{"template_id": template_id, "account_id": account_id} for template_id, account_id in pairs]
        connection.execute(upsert(template_permissions).values(rows).on_conflict_do_nothing())
