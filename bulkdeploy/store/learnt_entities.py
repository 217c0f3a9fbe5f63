"""Which entities were learnt from another cloud: only these are removed here when they are gone there."""

from collections.abc import Collection, Mapping
from uuid import UUID

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.tables.hypervisors import learnt_entities

CHUNK = 10_000


def learnt_before(connection: Connection, entity: Entity) -> set[UUID]:
    """The entities of a kind that were learnt and not forgotten."""
    learnt = learnt_entities.c
    return set(connection.execute(select(learnt.uuid).where(learnt.entity == entity.value)).scalars())


def remember_learnt(connection: Connection, uuids: Mapping[Entity, Collection[UUID]]) -> None:
    """Note that another cloud has these."""
    for entity, of_kind in uuids.items():
        new = [{"uuid": uuid, "entity": entity.value} for uuid in set(of_kind) - learnt_before(connection, entity)]
        for start in range(0, len(new), CHUNK):
            connection.execute(insert(learnt_entities).on_conflict_do_nothing(), new[start : start + CHUNK])


def forget_learnt(connection: Connection, uuids: Collection[UUID]) -> None:
    """These are gone there and here."""
    if uuids:
        connection.execute(delete(learnt_entities).where(learnt_entities.c.uuid.in_(uuids)))
