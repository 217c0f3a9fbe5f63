"""Reading and writing CloudStack's global settings (``domain.configuration`` declares them)."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, Text, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.configuration import BY_NAME, Scope
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.configuration.cloudstack_settings import all_settings
from bulkdeploy.store.tables.accounts import accounts, domains
from bulkdeploy.store.tables.jobs import configuration_values
from bulkdeploy.store.tables.topology import clusters, storage_pools, zones

GLOBAL_ID = 0

CPU_FACTOR = "cpu.overprovisioning.factor"
MEMORY_FACTOR = "mem.overprovisioning.factor"

OVERCOMMIT: dict[str, Column[Decimal]] = {
    CPU_FACTOR: clusters.c.cpu_overcommit,
    MEMORY_FACTOR: clusters.c.memory_overcommit,
}
"""Settings that are columns of the cluster they are set for."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A snapshot of all configured settings. A setting without a configured value has its declared default."""

    overrides: dict[tuple[Scope, int, str], str]

    def text(self, name: str, scope: Scope = Scope.GLOBAL, scope_id: int = GLOBAL_ID) -> str:
        """Return the effective value: the scope's override, else the global one, else the default."""
        return self.overrides.get(
            (scope, scope_id, name),
            self.overrides.get((Scope.GLOBAL, GLOBAL_ID, name), all_settings()[name].default),
        )

    def flag(self, name: str, scope: Scope = Scope.GLOBAL, scope_id: int = GLOBAL_ID) -> bool:
        """Return the value of a Boolean setting in a scope."""
        return self.text(name, scope, scope_id).lower() == "true"

    def number(self, name: str, scope: Scope = Scope.GLOBAL, scope_id: int = GLOBAL_ID) -> int:
        """Return the value of a Number setting in a scope. The setting's description names the unit."""
        return int(self.text(name, scope, scope_id))

    def decimal(self, name: str, scope: Scope = Scope.GLOBAL, scope_id: int = GLOBAL_ID) -> float:
        """Return the value of a Decimal setting in a scope."""
        return float(self.text(name, scope, scope_id))

    def scoped(self, name: str, scope: Scope) -> dict[int, str]:
        """Return the values of the setting ``name`` that are set in the given kind of scope, by scope id."""
        return {key[1]: value for key, value in self.overrides.items() if key[0] is scope and key[2] == name}


OVERRIDES = select(
    configuration_values.c.scope,
    configuration_values.c.scope_id,
    configuration_values.c.name,
    configuration_values.c.value,
)


def read_configuration(connection: Connection) -> Configuration:
    """Read all configured settings in one statement."""
    rows = connection.execute(OVERRIDES)
    return Configuration({(Scope(row.scope), row.scope_id, row.name): row.value for row in rows})


SCOPES: Mapping[Scope, tuple[str, Entity, Table]] = {
    Scope.ZONE: ("zoneid", Entity.ZONE, zones),
    Scope.CLUSTER: ("clusterid", Entity.CLUSTER, clusters),
    Scope.STORAGE_POOL: ("storageid", Entity.STORAGE_POOL, storage_pools),
    Scope.ACCOUNT: ("accountid", Entity.ACCOUNT, accounts),
    Scope.DOMAIN: ("domainid", Entity.DOMAIN, domains),
}
"""What overrides may be for besides everything: the parameter that names it."""


def read_settings(connection: Connection) -> list[dict[str, Any]]:
    """Return all configured settings in the format of zone files, including the over-commit ratios of clusters."""
    value, cluster = configuration_values.c, clusters.c
    rows = [
        {"_id": GLOBAL_ID, "_uuid": None, "name": row.name, "value": row.value}
        for row in connection.execute(OVERRIDES.where(value.scope == Scope.GLOBAL.value).order_by(value.name))
    ]
    for scope, (parameter, entity, table) in SCOPES.items():
        live = select(value.scope_id, value.name, value.value).join(table, table.c.id == value.scope_id)
        found = connection.execute(
            live.where(value.scope == scope.value, table.c.removed.is_(None)).order_by(value.scope_id, value.name)
        )
        rows += [_of(entity, parameter, *row) for row in found]
    for setting, column in OVERCOMMIT.items():
        own = connection.execute(select(cluster.id, column).where(cluster.removed.is_(None)).order_by(cluster.id))
        rows += [_of(Entity.CLUSTER, "clusterid", row[0], setting, str(row[1])) for row in own]
    return rows


def _of(entity: Entity, parameter: str, place_id: int, name: str, value: str) -> dict[str, Any]:
    place = {parameter: place_id, "_within": (entity, place_id)}
    return {"_id": place_id, "_uuid": None, "name": name, "value": value, **place}


def global_value(name: str) -> ColumnElement[str]:
    """Return the expression of a global setting's text for another, frequent statement."""
    value = configuration_values.c
    override = select(value.value).where(
        value.scope == Scope.GLOBAL.value, value.scope_id == GLOBAL_ID, value.name == name
    )
    return func.coalesce(override.scalar_subquery(), BY_NAME[name].default, type_=Text)


def write_values(connection: Connection, values: Mapping[tuple[Scope, int, str], str]) -> None:
    """Write values of settings, by scope, scope id and name. The caller has validated them."""
    if not values:
        return
    statement = insert(configuration_values).values(
        [
            {"scope": scope.value, "scope_id": scope_id, "name": name, "value": value}
            for (scope, scope_id, name), value in values.items()
        ]
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["scope", "scope_id", "name"], set_={"value": statement.excluded.value}
        )
    )


def reset_value(connection: Connection, name: str, scope: Scope, scope_id: int) -> None:
    """Delete the value of one setting in a scope, so that the value of the next wider scope applies again."""
    connection.execute(
        delete(configuration_values).where(
            configuration_values.c.scope == scope.value,
            configuration_values.c.scope_id == scope_id,
            configuration_values.c.name == name,
        )
    )
