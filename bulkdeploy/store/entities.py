"""Ids from the wire to what they name: every kind of entity, any number of ids, one statement.

Removed rows still resolve, as CloudStack's do: handlers then answer empty or refuse.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    Uuid,
    bindparam,
    cast,
    false,
    literal,
    or_,
    select,
    union_all,
)
from sqlalchemy import any_ as any_of

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.topology import TemplateKind
from bulkdeploy.store.tables import (
    accounts,
    groups,
    jobs,
    networks,
    offerings,
    topology,
    virtual_machines,
)

Kinds: TypeAlias = tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Where entities of one kind are: their table, the column that names them, and which rows are theirs."""

    table: Table
    name: str = "name"
    kind: TemplateKind | None = None


SOURCES: Mapping[Entity, Source] = {
    Entity.ZONE: Source(topology.zones),
    Entity.POD: Source(topology.pods),
    Entity.CLUSTER: Source(topology.clusters),
    Entity.HOST: Source(topology.hosts),
    Entity.STORAGE_POOL: Source(topology.storage_pools),
    Entity.DOMAIN: Source(accounts.domains),
    Entity.ACCOUNT: Source(accounts.accounts),
    Entity.USER: Source(accounts.users, "username"),
    Entity.ROLE: Source(accounts.roles),
    Entity.ROLE_PERMISSION: Source(accounts.role_rules, "rule"),
    Entity.PROJECT: Source(accounts.projects),
    Entity.SERVICE_OFFERING: Source(offerings.service_offerings),
    Entity.DISK_OFFERING: Source(offerings.disk_offerings),
    Entity.TEMPLATE: Source(offerings.templates, kind=TemplateKind.TEMPLATE),
    Entity.ISO: Source(offerings.templates, kind=TemplateKind.ISO),
    Entity.OS_TYPE: Source(offerings.os_types),
    Entity.OS_CATEGORY: Source(offerings.os_categories),
    Entity.NETWORK: Source(networks.networks),
    Entity.NETWORK_OFFERING: Source(networks.network_offerings),
    Entity.PHYSICAL_NETWORK: Source(networks.physical_networks),
    Entity.TRAFFIC_TYPE: Source(networks.traffic_types, "traffic_type"),
    Entity.NETWORK_SERVICE_PROVIDER: Source(networks.network_service_providers),
    Entity.VLAN_IP_RANGE: Source(networks.ip_ranges, "start_ip"),
    Entity.SECURITY_GROUP: Source(groups.security_groups),
    Entity.SECURITY_GROUP_RULE: Source(groups.security_group_rules, "protocol"),
    Entity.AFFINITY_GROUP: Source(groups.affinity_groups),
    Entity.SSH_KEY_PAIR: Source(groups.ssh_key_pairs),
    Entity.USER_DATA: Source(groups.user_data),
    Entity.INSTANCE_GROUP: Source(groups.instance_groups),
    Entity.VIRTUAL_MACHINE: Source(virtual_machines.virtual_machines),
    Entity.VOLUME: Source(virtual_machines.volumes),
    Entity.NIC: Source(networks.nics, "mac_address"),
    Entity.JOB: Source(jobs.async_jobs, "kind"),
    Entity.DEPLOYMENT: Source(virtual_machines.deployments, "uuid"),
    Entity.EVENT: Source(jobs.events, "event_type"),
}


UUIDS, NUMBERS = "uuids", "numbers"
"""The two ways of writing an id."""


def resolve(connection: Connection, entity_kinds: Sequence[Entity], values: Iterable[str]) -> dict[str, EntityRef]:
    """What each id names, by the id as written; ids that name nothing are left out.

    An id is a uuid or a positive internal number; where several kinds are given, the first that has
    it wins.
    """
    kinds = tuple(entity_kinds)
    return resolve_all(connection, {kinds: tuple(values)})[kinds]


def resolve_all(connection: Connection, wanted: Mapping[Kinds, Sequence[str]]) -> dict[Kinds, dict[str, EntityRef]]:
    """``resolve`` for ids of many kinds, in one statement."""
    uuids = {text: UUID(text) for texts in wanted.values() for text in texts if not _is_number(text)}
    selects: list[Select[Any]] = []
    parameters: dict[str, list[UUID] | list[int]] = {}
    for kind, texts in _texts_by_kind(wanted).items():
        ids: dict[str, list[UUID] | list[int]] = {
            UUIDS: [uuids[t] for t in texts if t in uuids],
            NUMBERS: [int(t) for t in texts if t not in uuids],
        }
        used = {name: values for name, values in ids.items() if values}
        selects.append(BY_UUID[kind] if NUMBERS not in used else _rows(kind, used.keys()))
        parameters |= {f"{kind.value}_{name}": values for name, values in used.items()}
    found: dict[tuple[Entity, UUID | int], EntityRef] = {}
    if selects:
        query = selects[0] if len(selects) == 1 else union_all(*selects)
        for kind, number, uuid, name, removed in connection.execute(query, parameters):
            ref = EntityRef(Entity(kind), number, uuid, name, removed)
            found[ref.entity, uuid] = found[ref.entity, number] = ref
    keys = {text: uuids.get(text) or int(text) for texts in wanted.values() for text in texts}
    return {kinds: _named(kinds, {text: keys[text] for text in texts}, found) for kinds, texts in wanted.items()}


def _is_number(text: str) -> bool:
    return "-" not in text


def _texts_by_kind(wanted: Mapping[Kinds, Sequence[str]]) -> dict[Entity, list[str]]:
    by_kind: dict[Entity, dict[str, None]] = {}
    for kinds, texts in wanted.items():
        for kind in kinds:
            by_kind.setdefault(kind, {}).update(dict.fromkeys(texts))
    return {kind: list(texts) for kind, texts in by_kind.items() if texts}


def _named(
    kinds: Kinds, keys: Mapping[str, UUID | int], found: Mapping[tuple[Entity, UUID | int], EntityRef]
) -> dict[str, EntityRef]:
    named: dict[str, EntityRef] = {}
    for text, key in keys.items():
        ref = next((found[kind, key] for kind in kinds if (kind, key) in found), None)
        if ref is not None:
            named[text] = ref
    return named


def _rows(kind: Entity, ways: Collection[str]) -> Select[Any]:
    """Kind, internal id, uuid, name and whether removed, of the rows with an id written in one of these ways.

    One condition per way that was used, so that each is a plain look-up in an index.
    """
    source = SOURCES[kind]
    columns = source.table.c
    conditions: list[ColumnElement[bool]] = []
    if UUIDS in ways:
        conditions.append(columns.uuid == any_of(bindparam(f"{kind.value}_{UUIDS}", type_=ARRAY(Uuid))))
    if NUMBERS in ways:
        conditions.append(columns.id == any_of(bindparam(f"{kind.value}_{NUMBERS}", type_=ARRAY(BigInteger))))
    removed = columns.removed.is_not(None) if "removed" in columns else false()
    query = select(
        literal(kind.value, Text).label("entity"),
        columns.id.label("id"),
        columns.uuid.label("uuid"),
        cast(columns[source.name], Text).label("name"),
        removed.label("removed"),
    ).where(or_(*conditions))
    return query if source.kind is None else query.where(columns.kind == source.kind.value)


BY_UUID: Mapping[Entity, Select[Any]] = {kind: _rows(kind, (UUIDS,)) for kind in SOURCES}
"""Built once: nearly every call of the API resolves uuids."""
