"""Global settings as API objects: list with effective values, and update."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.domain.accounts.accounts import Caller
from bulkdeploy.domain.configuration import (
    ACCOUNT_SETTINGS_FOR_DOMAINS,
    SETTINGS_FOR_CHILD_DOMAINS,
    Scope,
    Setting,
    ValueType,
)
from bulkdeploy.domain.entities import EntityRef
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.events import EventType
from bulkdeploy.scheduling.catalog import settings_by_name
from bulkdeploy.services.infrastructure.overcommit import register_hosts
from bulkdeploy.services.system import System
from bulkdeploy.store.accounts.owners import domain_places, owners_by_id
from bulkdeploy.store.configuration.configurations import (
    GLOBAL_ID,
    OVERCOMMIT,
    Configuration,
    read_configuration,
    reset_value,
    write_values,
)
from bulkdeploy.store.configuration.setting_groups import group_of
from bulkdeploy.store.infrastructure.clusters import read_overcommit, write_overcommit
from bulkdeploy.store.jobs.events import Happened, record_event, record_events

SCOPE_PARAMETERS: Mapping[str, Scope] = {
    "zoneid": Scope.ZONE,
    "clusterid": Scope.CLUSTER,
    "storageid": Scope.STORAGE_POOL,
    "accountid": Scope.ACCOUNT,
    "domainid": Scope.DOMAIN,
}


@dataclass(frozen=True, slots=True)
class Place:
    """The scope of a setting's value: global, or one object such as a cluster, a pool or an account."""

    scope: Scope = Scope.GLOBAL
    id: int = GLOBAL_ID


@dataclass(frozen=True, slots=True)
class NewValue:
    """A setting's new value, globally or for the object ``entity``."""

    name: str
    value: str
    place: Place = Place()
    entity: EntityRef | None = None


EVERYWHERE = Place()


def list_configurations(
    connection: Connection,
    caller: Caller,
    place: Place,
    *,
    name: str | None = None,
    category: str | None = None,
    keyword: str | None = None,
) -> list[dict[str, Any]]:
    """Return settings with their global values, or the settings that can be set in a scope with their values there.

    Settings without effect are returned only if ``name`` names them. Callers who are not root admins see only
    settings that can be set for accounts or domains.
    """
    configuration = read_configuration(connection)
    chosen = [
        setting
        for setting in settings_by_name().values()
        if _can_be_set_for(configuration, setting, place.scope)
        and (caller.is_root_admin or setting.can_be_set_for(Scope.ACCOUNT) or setting.can_be_set_for(Scope.DOMAIN))
        and (setting.has_effect or name is not None)
        and (name is None or setting.name.lower() == name.lower())
        and (category is None or setting.category.lower() == category.lower())
        and (keyword is None or keyword.lower() in f"{setting.name}\n{setting.description}".lower())
    ]
    if not chosen:
        return []
    values = _Values.read(connection, place, configuration)
    return [_row(setting, values) for setting in sorted(chosen, key=lambda setting: setting.name)]


def update_configuration(
    connection: Connection,
    system: System,
    caller: Caller,
    name: str,
    value: str | None,
    place: Place,
    entity: EntityRef | None,
) -> Mapping[str, Any]:
    """Set one setting everywhere or in one scope, and return the setting. If ``value`` is None, nothing is changed.

    The over-commit factors of a cluster are stored with the cluster. A new factor immediately changes the capacity
    of the cluster's hosts, and a job passes the factor to their hypervisors.

    Raises:
        InvalidParameter: there is no such setting, it cannot be set in this scope, or the value violates its rule.
        PermissionDenied: the caller is not a root admin, and the scope is not an account or domain.
        ResourceUnavailable: a hypervisor did not accept the factor; the call can be repeated to repair this.
    """
    setting = _settable(read_configuration(connection), caller, name, place, entity)
    if value is not None:
        set_configurations(connection, system, caller, [NewValue(name, value, place, entity)])
    return _row(setting, _Values.read(connection, place))


def set_configurations(connection: Connection, system: System, caller: Caller, batch: Sequence[NewValue]) -> None:
    """Set several settings, each everywhere or in one scope.

    The rules and errors are those of ``update_configuration``.
    """
    values: dict[tuple[Scope, int, str], str] = {}
    factors: dict[EntityRef, dict[str, Decimal]] = {}
    happened = []
    configuration = read_configuration(connection)
    for new in batch:
        setting = _settable(configuration, caller, new.name, new.place, new.entity)
        text = new.value.lower() if setting.type is ValueType.BOOLEAN else new.value
        rule = setting.broken_rule(text)
        if rule is not None:
            raise InvalidParameter("value", new.value, f"{setting.name} {rule}")
        if new.entity is not None and _is_overcommit(setting, new.place):
            factors.setdefault(new.entity, {})[setting.name] = Decimal(text)
        else:
            values[new.place.scope, new.place.id, setting.name] = text
        said = f"set {setting.name} to {text} {_for(new.place, new.entity)}"
        happened.append(Happened(EventType.CONFIGURATION_EDIT, said))
    write_values(connection, values)
    _write_overcommit(connection, system, factors)
    record_events(connection, caller, happened)


def _write_overcommit(
    connection: Connection, system: System, factors: Mapping[EntityRef, Mapping[str, Decimal]]
) -> None:
    if factors:
        write_overcommit(connection, factors)
        register_hosts(connection, system, factors)


def _for(place: Place, entity: EntityRef | None) -> str:
    return "everywhere" if entity is None else f"for {place.scope.value} {entity.name}"


def reset_configuration(
    connection: Connection, system: System, caller: Caller, name: str, place: Place, entity: EntityRef | None
) -> Mapping[str, Any]:
    """Delete the value of a setting, globally or in one scope, and return the setting.

    The value of the next wider scope applies afterwards.

    Raises:
        InvalidParameter, PermissionDenied, ResourceUnavailable: under the same conditions as
        ``update_configuration``.
    """
    setting = _settable(read_configuration(connection), caller, name, place, entity)
    if entity is not None and _is_overcommit(setting, place):
        wider = read_configuration(connection).text(setting.name)
        _write_overcommit(connection, system, {entity: {setting.name: Decimal(wider)}})
    else:
        reset_value(connection, setting.name, place.scope, place.id)
    text = f"reset {setting.name} {_for(place, entity)}"
    record_event(connection, caller, EventType.CONFIGURATION_EDIT, text)
    return _row(setting, _Values.read(connection, place))


def _can_be_set_for(configuration: Configuration, setting: Setting, scope: Scope) -> bool:
    """Return whether a setting can have its own value in a scope, under the present configuration."""
    if setting.can_be_set_for(scope):
        return True
    of_account = setting.can_be_set_for(Scope.ACCOUNT) and not setting.has_effect
    return scope is Scope.DOMAIN and of_account and configuration.flag(ACCOUNT_SETTINGS_FOR_DOMAINS)


def _settable(
    configuration: Configuration, caller: Caller, name: str, place: Place, entity: EntityRef | None
) -> Setting:
    named = (setting for setting in settings_by_name().values() if setting.name.lower() == name.lower())
    setting = settings_by_name().get(name) or next(named, None)
    if setting is None:
        raise InvalidParameter("name", name, f"Config parameter with name {name} doesn't exist")
    if not caller.is_root_admin and place.scope not in (Scope.ACCOUNT, Scope.DOMAIN):
        raise PermissionDenied(f"Only root admins may set {name} for more than one account or domain")
    if not _can_be_set_for(configuration, setting, place.scope):
        raise InvalidParameter("name", name, f"it cannot be set per {place.scope.value}, {_where(setting)}")
    if entity is not None and entity.removed:
        raise InvalidParameter("name", name, f"{entity.name} was deleted, so no setting can be set for it")
    return setting


def _is_overcommit(setting: Setting, place: Place) -> bool:
    return place.scope is Scope.CLUSTER and setting.name in OVERCOMMIT


def _where(setting: Setting) -> str:
    if setting.scope is Scope.GLOBAL:
        return "only globally"
    return f"only globally or per {', '.join(scope.value for scope in (setting.scope, *setting.other_scopes))}"


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that apply in a scope.

    Attributes:
        configuration: all configured values.
        place: the scope.
        own: values that are stored as columns of the scope's object.
        domain_ids: the domains whose values also apply in the scope, the nearest first.
    """

    configuration: Configuration
    place: Place
    own: Mapping[str, str]
    domain_ids: Sequence[int] = ()

    @classmethod
    def read(cls, connection: Connection, place: Place, configuration: Configuration | None = None) -> "_Values":
        configuration = configuration or read_configuration(connection)
        own = read_overcommit(connection, place.id) if place.scope is Scope.CLUSTER else {}
        return cls(configuration, place, own, _inherited_domains(connection, configuration, place))

    def of(self, setting: Setting) -> str:
        if setting.name in self.own:
            return self.own[setting.name]
        if not setting.has_effect:
            places = [(self.place.scope, self.place.id), *((Scope.DOMAIN, one) for one in self.domain_ids)]
            overrides = self.configuration.overrides
            found = (overrides[(*place, setting.name)] for place in places if (*place, setting.name) in overrides)
            return next(found, self.configuration.text(setting.name))
        return self.configuration.text(setting.name, self.place.scope, self.place.id)


def _inherited_domains(connection: Connection, configuration: Configuration, place: Place) -> list[int]:
    """Return the domains from which an account or a domain inherits values, the nearest first.

    This concerns only settings without effect, which are stored for clients that set them.
    """
    if not configuration.flag(SETTINGS_FOR_CHILD_DOMAINS) or place.scope not in (Scope.ACCOUNT, Scope.DOMAIN):
        return []
    if place.scope is Scope.ACCOUNT:
        lineage = owners_by_id(connection, [place.id])[place.id].lineage
    else:
        lineage = domain_places(connection, [place.id])[place.id][1]
    return [int(domain_id) for domain_id in reversed(lineage.strip("/").split("/"))]


def _row(setting: Setting, values: _Values) -> dict[str, Any]:
    scope = setting.scope if values.place.scope is Scope.GLOBAL else values.place.scope
    group = group_of(setting.name)
    return {
        "name": setting.name,
        "value": values.of(setting),
        "defaultvalue": setting.default,
        "description": setting.description,
        "category": setting.category,
        "group": group.group,
        "subgroup": group.subgroup,
        "parent": setting.parent,
        "component": "bulkdeploy",
        "scope": scope.value,
        "type": setting.type.value,
        "options": ",".join(setting.choices) or None,
        "isdynamic": True,
    }
