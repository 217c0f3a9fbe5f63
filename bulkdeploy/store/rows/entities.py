"""The resolution of ids from calls to entities: any kind, any number of ids, in one statement.

Ids of removed rows are resolved, too, as in CloudStack: handlers then return nothing or reject the call. Entities
that the caller may not see (``store.rows.known_entities``) are treated like entities that do not exist, by the same
statement.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.infrastructure.topology import TemplateKind
from bulkdeploy.store.rows.filters import Condition
from bulkdeploy.store.rows.known_entities import is_admin, known, parameters_of
from bulkdeploy.store.tables import (
    accounts,
    custom_actions,
    groups,
    image_stores,
    jobs,
    networks,
    offerings,
    topology,
    virtual_machines,
    vm_schedules,
)

Kinds: TypeAlias = tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of entities of one kind.

    It consists of their table, the column with their names, and the condition for their rows.
    """

    table: Table
    name: str = "name"
    rows: Condition | None = None


OF_TEMPLATES, OF_SNAPSHOTS = offerings.templates.c, virtual_machines.vm_snapshots.c
OF_ROLES = accounts.roles.c
RULES_OF_PROJECTS = accounts.role_rules.c.role_id.in_(select(OF_ROLES.id).where(OF_ROLES.project_id.is_not(None)))


SOURCES: Mapping[Entity, Source] = {
    Entity.ZONE: Source(topology.zones),
    Entity.POD: Source(topology.pods),
    Entity.CLUSTER: Source(topology.clusters),
    Entity.HOST: Source(topology.hosts),
    Entity.STORAGE_POOL: Source(topology.storage_pools),
    Entity.IMAGE_STORE: Source(image_stores.image_stores),
    Entity.DOMAIN: Source(accounts.domains),
    Entity.ACCOUNT: Source(accounts.accounts),
    Entity.USER: Source(accounts.users, "username"),
    Entity.ROLE: Source(accounts.roles, rows=OF_ROLES.project_id.is_(None)),
    Entity.ROLE_PERMISSION: Source(accounts.role_rules, "rule", ~RULES_OF_PROJECTS),
    Entity.PROJECT: Source(accounts.projects),
    Entity.PROJECT_INVITATION: Source(accounts.project_invitations, "uuid"),
    Entity.PROJECT_ROLE: Source(accounts.roles, rows=OF_ROLES.project_id.is_not(None)),
    Entity.PROJECT_ROLE_PERMISSION: Source(accounts.role_rules, "rule", RULES_OF_PROJECTS),
    Entity.SERVICE_OFFERING: Source(offerings.service_offerings),
    Entity.DISK_OFFERING: Source(offerings.disk_offerings),
    Entity.TEMPLATE: Source(offerings.templates, rows=OF_TEMPLATES.kind == TemplateKind.TEMPLATE.value),
    Entity.ISO: Source(offerings.templates, rows=OF_TEMPLATES.kind == TemplateKind.ISO.value),
    Entity.OS_TYPE: Source(offerings.os_types),
    Entity.OS_CATEGORY: Source(offerings.os_categories),
    Entity.NETWORK: Source(networks.networks),
    Entity.NETWORK_OFFERING: Source(networks.network_offerings),
    Entity.PHYSICAL_NETWORK: Source(networks.physical_networks),
    Entity.TRAFFIC_TYPE: Source(networks.traffic_types, "traffic_type"),
    Entity.NETWORK_SERVICE_PROVIDER: Source(networks.network_service_providers),
    Entity.VLAN_IP_RANGE: Source(networks.ip_ranges, "start_ip"),
    Entity.DEDICATED_VLAN_RANGE: Source(networks.dedicated_vlan_ranges, "uuid"),
    Entity.SECURITY_GROUP: Source(groups.security_groups),
    Entity.SECURITY_GROUP_RULE: Source(groups.security_group_rules, "protocol"),
    Entity.AFFINITY_GROUP: Source(groups.affinity_groups),
    Entity.SSH_KEY_PAIR: Source(groups.ssh_key_pairs),
    Entity.USER_DATA: Source(groups.user_data),
    Entity.INSTANCE_GROUP: Source(groups.instance_groups),
    Entity.VIRTUAL_MACHINE: Source(virtual_machines.virtual_machines),
    Entity.VM_SNAPSHOT: Source(virtual_machines.vm_snapshots, "display_name", OF_SNAPSHOTS.volume_id.is_(None)),
    Entity.SNAPSHOT: Source(virtual_machines.vm_snapshots, "display_name", OF_SNAPSHOTS.volume_id.is_not(None)),
    Entity.SNAPSHOT_POLICY: Source(virtual_machines.snapshot_policies, "interval_type"),
    Entity.VM_SCHEDULE: Source(vm_schedules.vm_schedules, "description"),
    Entity.VOLUME: Source(virtual_machines.volumes),
    Entity.NIC: Source(networks.nics, "mac_address"),
    Entity.SECONDARY_IP: Source(networks.nic_secondary_ips, "ip_address"),
    Entity.JOB: Source(jobs.async_jobs, "kind"),
    Entity.DEPLOYMENT: Source(virtual_machines.deployments, "uuid"),
    Entity.BULK_OPERATION: Source(jobs.bulk_operations, "command"),
    Entity.CUSTOM_ACTION: Source(custom_actions.custom_actions),
    Entity.ANNOTATION: Source(groups.annotations, "annotation"),
    Entity.EVENT: Source(jobs.events, "event_type"),
    Entity.ALERT: Source(jobs.alerts),
}


def is_taken(connection: Connection, entity: Entity, uuid: UUID) -> bool:
    """Return whether an entity of this kind, live or removed, has this uuid."""
    column = SOURCES[entity].table.c.uuid
    return connection.execute(select(column).where(column == uuid)).first() is not None


UUIDS, NUMBERS = "uuids", "numbers"
"""The two ways of writing an id."""


def resolve(
    connection: Connection, caller: Caller, entity_kinds: Sequence[Entity], values: Iterable[str]
) -> dict[str, EntityRef]:
    """Return the entity of each id, out of the given kinds, as ``resolve_known`` does. Unknown ids are omitted."""
    kinds = tuple(entity_kinds)
    return resolve_known(connection, caller, {kinds: tuple(values)})[kinds]


def resolve_known(
    connection: Connection, caller: Caller | None, wanted: Mapping[Kinds, Sequence[str]]
) -> dict[Kinds, dict[str, EntityRef]]:
    """Return the entity of each id. Ids of entities that do not exist or that the caller may not see are omitted.

    An id is a uuid or, for root admins only, a positive internal number, because numbers could be enumerated. If
    several kinds are given, the first kind with this id is used. Without a caller, for example at a login that
    names a domain by its uuid, every uuid is resolved.
    """
    if caller is not None and caller.is_root_admin:
        return _resolve(connection, wanted)
    uuids = {kinds: [text for text in texts if not _is_number(text)] for kinds, texts in wanted.items()}
    return _resolve(connection, uuids, caller)


def _resolve(
    connection: Connection, wanted: Mapping[Kinds, Sequence[str]], caller: Caller | None = None
) -> dict[Kinds, dict[str, EntityRef]]:
    """Return the entity of each id. With ``caller``, only entities that the caller may see are returned."""
    uuids = {text: UUID(text) for texts in wanted.values() for text in texts if not _is_number(text)}
    selects: list[Select[Any]] = []
    parameters: dict[str, Any] = {} if caller is None else parameters_of(caller)
    admin = None if caller is None else is_admin(caller)
    for kind, texts in _texts_by_kind(wanted).items():
        ids: dict[str, list[UUID] | list[int]] = {
            UUIDS: [uuids[t] for t in texts if t in uuids],
            NUMBERS: [int(t) for t in texts if t not in uuids],
        }
        used = {name: values for name, values in ids.items() if values}
        selects.append(_rows(kind, frozenset(used), admin))
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


@cache
def _rows(kind: Entity, ways: frozenset[str], admin: bool | None) -> Select[Any]:
    """Return a query for the rows of a kind by the ids in these formats (``ways``).

    The columns are the kind, the internal id, the uuid, the name and whether the entity was removed. There is one
    condition per used format, so that each is a plain look-up in an index. ``admin`` restricts the rows to those
    that a domain admin (True) or a user (False) may see; None returns all rows. The query is cached, because nearly
    every call resolves ids.
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
    if source.rows is not None:
        query = query.where(source.rows)
    return query if admin is None else query.where(known(kind, source.table, admin=admin))
