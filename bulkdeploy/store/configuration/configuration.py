"""Reading and writing CloudStack's global settings (``domain.configuration`` declares them)."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Text, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from bulkdeploy.domain.configuration import BY_NAME, Scope
from bulkdeploy.store.tables.jobs import configuration_values

GLOBAL_ID = 0


@dataclass(frozen=True, slots=True)
class Configuration:
    """All overrides as read at one moment; what is not overridden has its declared default."""

    overrides: dict[tuple[Scope, int, str], str]

    def text(self, name: str, scope: Scope = Scope.GLOBAL, scope_id: int = GLOBAL_ID) -> str:
        """The effective value: the scope's override, else the global one, else the default."""
        return self.overrides.get(
            (scope, scope_id, name),
            self.overrides.get((Scope.GLOBAL, GLOBAL_ID, name), BY_NAME[name].default),
        )

    def flag(self, name: str, scope: Scope = Scope.GLOBAL, scope_id: int = GLOBAL_ID) -> bool:
        """A Boolean setting."""
        return self.text(name, scope, scope_id).lower() == "true"

    def number(self, name: str, scope: Scope = Scope.GLOBAL, scope_id: int = GLOBAL_ID) -> int:
        """A Number setting, in the unit its description names."""
        return int(self.text(name, scope, scope_id))

    def decimal(self, name: str, scope: Scope = Scope.GLOBAL, scope_id: int = GLOBAL_ID) -> float:
        """A Decimal setting."""
        return float(self.text(name, scope, scope_id))

    def scoped(self, name: str, scope: Scope) -> dict[int, str]:
        """Overrides of ``name`` by the id of each ``scope`` that has one."""
        return {key[1]: value for key, value in self.overrides.items() if key[0] is scope and key[2] == name}


OVERRIDES = select(
    configuration_values.c.scope,
    configuration_values.c.scope_id,
    configuration_values.c.name,
    configuration_values.c.value,
)


def read_configuration(connection: Connection) -> Configuration:
    """All overrides, in one statement."""
    rows = connection.execute(OVERRIDES)
    return Configuration({(Scope(row.scope), row.scope_id, row.name): row.value for row in rows})


def global_value(name: str) -> ColumnElement[str]:
    """A global setting's text inside another statement, for calls that are made too often to ask on their own."""
    value = configuration_values.c
    override = select(value.value).where(
        value.scope == Scope.GLOBAL.value, value.scope_id == GLOBAL_ID, value.name == name
    )
    return func.coalesce(override.scalar_subquery(), BY_NAME[name].default, type_=Text)


def write_value(connection: Connection, name: str, value: str, scope: Scope, scope_id: int) -> None:
    """Set one override; the value has been checked against the declaration by the caller."""
    statement = insert(configuration_values).values(scope=scope.value, scope_id=scope_id, name=name, value=value)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["scope", "scope_id", "name"], set_={"value": statement.excluded.value}
        )
    )


def reset_value(connection: Connection, name: str, scope: Scope, scope_id: int) -> None:
    """Remove one override, so that the next wider scope's value holds again."""
    connection.execute(
        delete(configuration_values).where(
            configuration_values.c.scope == scope.value,
            configuration_values.c.scope_id == scope_id,
            configuration_values.c.name == name,
        )
    )
