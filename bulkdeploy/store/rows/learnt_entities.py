"""Entities that were imported from another cloud. Only these are removed when they disappear there."""

from collections.abc import Collection, Mapping
from uuid import UUID

from sqlalchemy import Connection, delete, select, text
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.tables.hypervisors import learnt_entities

CHUNK = 10_000
FEW = 1000
"""So many are written again rather than looked for."""


def learnt_before(connection: Connection, entity: Entity) -> set[UUID]:
    """Return the uuids of the imported entities of a kind."""
    learnt = learnt_entities.c
    return set(connection.execute(select(learnt.uuid).where(learnt.entity == entity.value)).scalars())


def learnt_among(connection: Connection, entity: Entity, uuids: Collection[UUID]) -> set[UUID]:
    """Return the uuids out of ``uuids`` of imported entities of a kind."""
    learnt = learnt_entities.c
    query = select(learnt.uuid).where(learnt.entity == entity.value, learnt.uuid.in_(uuids))
    return set(connection.execute(query).scalars())


def has_learnt_clusters(connection: Connection, zone_id: int, hypervisor: str) -> bool:
    """Return whether a zone has imported clusters of a hypervisor type."""
    query = text(
        "SELECT EXISTS (SELECT FROM clusters c JOIN learnt_entities l ON l.uuid = c.uuid WHERE c.zone_id = :zone"
        " AND lower(c.hypervisor) = lower(:hypervisor) AND c.removed IS NULL)"
    )
    return bool(connection.execute(query, {"zone": zone_id, "hypervisor": hypervisor}).scalar_one())


def remember_learnt(connection: Connection, uuids: Mapping[Entity, Collection[UUID]]) -> None:
    """Record that these entities were imported from another cloud. Existing records are kept."""
    for entity, of_kind in uuids.items():
        known = learnt_before(connection, entity) if len(of_kind) > FEW else set()
        new = [{"uuid": uuid, "entity": entity.value} for uuid in set(of_kind) - known]
        for start in range(0, len(new), CHUNK):
            connection.execute(insert(learnt_entities).on_conflict_do_nothing(), new[start : start + CHUNK])


def forget_learnt(connection: Connection, uuids: Collection[UUID]) -> None:
    """Delete the records of imported entities that were deleted both in the other cloud and here."""
    if uuids:
        connection.execute(delete(learnt_entities).where(learnt_entities.c.uuid.in_(uuids)))
