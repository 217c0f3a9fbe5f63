"""Templates and ISOs registered, changed, shared and deleted: the rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from bulkdeploy.domain.accounts import Owner
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.store.filters import id_in
from bulkdeploy.store.tables.accounts import accounts
from bulkdeploy.store.tables.offerings import template_permissions, template_zones, templates
from bulkdeploy.store.tables.topology import zones
from bulkdeploy.store.tables.virtual_machines import virtual_machines


def live_zones(connection: Connection, wanted: Iterable[int] | None) -> list[int]:
    """Internal ids of these zones, or of all, that were not deleted."""
    query = select(zones.c.id).where(zones.c.removed.is_(None)).order_by(zones.c.id)
    return list(connection.execute(query if wanted is None else query.where(id_in(zones.c.id, wanted))).scalars())


def put_in_zones(connection: Connection, template_id: int, zone_ids: Sequence[int]) -> None:
    """The template is in these zones, ready."""
    connection.execute(
        insert(template_zones), [{"template_id": template_id, "zone_id": zone_id} for zone_id in zone_ids]
    )


def take_from_zone(connection: Connection, template_id: int, zone_id: int) -> tuple[bool, bool]:
    """Whether the zone had it, and whether another one still has."""
    place = template_zones.c
    gone = delete(template_zones).where(place.template_id == template_id, place.zone_id == zone_id)
    had = connection.execute(gone).rowcount == 1
    left = connection.execute(select(place.zone_id).where(place.template_id == template_id).limit(1)).first()
    return had, left is not None


def update_template(connection: Connection, template_id: int, values: Mapping[str, Any]) -> None:
    """Change columns of a template, whose row the caller holds."""
    connection.execute(update(templates).where(templates.c.id == template_id).values(**values))


def user_of(connection: Connection, template_id: int) -> str | None:
    """A VM, not expunged, that was made from it or has it in its drive, in words, or None."""
    vm = virtual_machines.c
    for column, how in ((vm.template_id, "was made from it"), (vm.iso_id, "has it in its drive")):
        query = select(vm.uuid).where(column == template_id, vm.removed.is_(None))
        uuid = connection.execute(query.order_by(vm.id).limit(1)).scalar()
        if uuid is not None:
            return f"virtual machine {uuid} {how}"
    return None


def accounts_named(connection: Connection, owner: Owner, names: Sequence[str]) -> dict[str, int]:
    """Internal ids of the live accounts of the owner's domain with these names."""
    query = select(accounts.c.name, accounts.c.id).where(
        accounts.c.domain_id == owner.domain_id, accounts.c.name.in_(names), accounts.c.removed.is_(None)
    )
    return {row.name: row.id for row in connection.execute(query)}


def share(connection: Connection, template: EntityRef, account_ids: Iterable[int]) -> None:
    """These accounts may use it; those that may already stay."""
    rows = [{"template_id": template.id, "account_id": account_id} for account_id in account_ids]
    if rows:
        connection.execute(upsert(template_permissions).values(rows).on_conflict_do_nothing())


def unshare(connection: Connection, template: EntityRef, account_ids: Iterable[int] | None) -> None:
    """These accounts, or all but the owner, may not use it any more."""
    gone = delete(template_permissions).where(template_permissions.c.template_id == template.id)
    connection.execute(
        gone if account_ids is None else gone.where(id_in(template_permissions.c.account_id, account_ids))
    )
