"""listConfigurations, updateConfiguration and resetConfiguration."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_IMAGE_STORES
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, Values, by
from bulkdeploy.declare.parameters import Exclusive, string, uuid
from bulkdeploy.declare.response_fields import flag, large_number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, Caller, RoleType
from bulkdeploy.domain.configuration import LONGEST_VALUE
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied, ResourceUnavailable
from bulkdeploy.services.configuration import configurations
from bulkdeploy.services.configuration.configurations import EVERYWHERE, SCOPE_PARAMETERS, NewValue, Place
from bulkdeploy.services.ownership import require_access, require_domain
from bulkdeploy.services.system import System
from bulkdeploy.store.configuration.configurations import read_settings
from bulkdeploy.store.configuration.setting_groups import all_groups
from bulkdeploy.store.rows.listing import Page, cut_page

CONFIGURATION = Response(
    "configuration",
    (
        text("name", "the setting"),
        text("value", "the effective value"),
        text("defaultvalue", "the default value"),
        text("description", "a description"),
        text("category", "the category of the setting"),
        text("group", "the group of the setting on CloudStack's settings page"),
        text("subgroup", "the subgroup"),
        text("parent", "the setting that must be true for this setting to have an effect"),
        text("component", "bulkdeploy"),
        text("scope", "the narrowest scope for which the setting can be set: Global, Cluster or StoragePool"),
        text("type", "String, Boolean, Number, Decimal, or Range: a number from 0 to 1"),
        text("options", "the values to choose from, separated by commas"),
        flag("isdynamic", "always true: no restart is needed"),
    ),
)

PLACES = (
    uuid("zoneid", Entity.ZONE, "the effective values in this zone"),
    uuid("clusterid", Entity.CLUSTER, "the effective values in this cluster"),
    uuid("storageid", Entity.STORAGE_POOL, "the effective values for this storage pool"),
    uuid("accountid", Entity.ACCOUNT, "the effective values for this account"),
    uuid("domainid", Entity.DOMAIN, "the effective values for this domain"),
)

ONE_PLACE = Exclusive(tuple(SCOPE_PARAMETERS))


def list_configurations(call: Call) -> Page:
    """Return settings with their effective values in the requested scope.

    Raises:
        PermissionDenied: the account or domain is outside the caller's reach.
    """
    rows = configurations.list_configurations(
        call.connection,
        call.caller,
        _place(call)[0],
        name=call.text("name"),
        category=call.text("category"),
        keyword=call.text("keyword"),
    )
    filters = [name for name in ("group", "subgroup", "parent") if name in call.arguments]
    chosen = [row for row in rows if all(_is(row[name], call.text(name)) for name in filters)]
    return cut_page(chosen, paging(call))


def list_configuration_groups(call: Call) -> Page:
    """Return the groups of the settings that the caller may see."""
    keyword, wanted = (call.text("keyword") or "").lower(), call.text("group")
    rows = configurations.list_configurations(call.connection, call.caller, EVERYWHERE)
    shown = {(row["group"], row["subgroup"]) for row in rows}
    parts: dict[str, list[str]] = {}
    for one in all_groups():
        if (one.group, one.subgroup) in shown:
            parts.setdefault(one.group, []).append(one.subgroup)
    groups = [
        {
            "name": name,
            "precedence": place,
            "subgroup": [{"name": part, "precedence": at} for at, part in enumerate(subgroups, start=1)],
        }
        for place, (name, subgroups) in enumerate(parts.items(), start=1)
        if _is(name, wanted) and keyword in name.lower()
    ]
    return cut_page(groups, paging(call))


def _is(text: str | None, wanted: str | None) -> bool:
    return wanted is None or (text is not None and text.lower() == wanted.lower())


def update_configuration(call: Call) -> Mapping[str, Any]:
    """Set one setting, globally or in a scope, and return the setting.

    Raises:
        InvalidParameter, PermissionDenied: the setting or the value is invalid, or the caller may not change it.
    """
    place, entity = _place(call)
    return configurations.update_configuration(
        call.connection, call.system, call.caller, call.arguments["name"], call.text("value"), place, entity
    )


def reset_configuration(call: Call) -> Mapping[str, Any]:
    """Delete the value of a setting in a scope, so that the value of the wider scope applies again.

    Raises:
        InvalidParameter, PermissionDenied: the setting does not exist, or the caller may not change it.
    """
    place, entity = _place(call)
    return configurations.reset_configuration(
        call.connection, call.system, call.caller, call.arguments["name"], place, entity
    )


def with_system(_: Connection, system: System, batch: Sequence[Values]) -> list[tuple[System, Values]]:
    """Return the settings of a zone file, each with the System that updates the hypervisors."""
    return [(system, given) for given in batch]


def set_all(connection: Connection, caller: Caller, batch: Sequence[tuple[System, Values]]) -> list[EntityRef]:
    """Set the settings of a zone file. Returns no entities, because settings have no ids."""
    new = [NewValue(given["name"], given["value"], *_place_of(given)) for _, given in batch if "value" in given]
    configurations.set_configurations(connection, batch[0][0], caller, new)
    return []


def _place(call: Call) -> tuple[Place, EntityRef | None]:
    """Return the scope that the call names, and the entity of the scope, which is None for the global scope.

    Raises:
        PermissionDenied: the account or domain is outside the caller's reach.
    """
    if (domain := call.ref("domainid")) is not None:
        require_domain(call.connection, call.caller, domain)
    if (account := call.ref("accountid")) is not None:
        require_access(call.connection, call.caller, account.id, f"account {account.uuid}")
    return _place_of(call.arguments)


def _place_of(given: Values) -> tuple[Place, EntityRef | None]:
    for name, scope in SCOPE_PARAMETERS.items():
        ref = given.get(name)
        if ref is not None:
            return Place(scope, ref.id), ref
    return EVERYWHERE, None


GROUP = Response(
    "configurationgroup",
    (
        text("name", "the group"),
        large_number("precedence", "the position of the group in lists: lower numbers first"),
        objects(
            "subgroup",
            "the subgroups of the group that contain settings",
            (
                text("name", "the name of the subgroup"),
                large_number("precedence", "the position of the subgroup in the group: lower numbers first"),
            ),
        ),
    ),
)
SEEN_BY = frozenset({RoleType.ADMIN, RoleType.DOMAIN_ADMIN})

UPDATE = Command(
    name="updateConfiguration",
    description="Sets a setting globally, or for one cluster or storage pool",
    handler=update_configuration,
    shape=Shape.OBJECT,
    response=CONFIGURATION,
    roles=frozenset({RoleType.ADMIN, RoleType.DOMAIN_ADMIN}),
    changes_state=True,
    errors=(PermissionDenied, ResourceUnavailable),
    parameters=(
        string("name", "the setting", required=True),
        string("value", "the new value", length=LONGEST_VALUE),
        *PLACES,
    ),
    rules=(ONE_PLACE,),
    unsupported={"imagestoreuuid": NO_IMAGE_STORES},
)

COMMANDS = (
    Command(
        name="listConfigurationGroups",
        description="Lists the groups that settings are in",
        handler=list_configuration_groups,
        shape=Shape.LIST,
        response=GROUP,
        roles=SEEN_BY,
        parameters=(string("group", "only this group"), *PAGING),
    ),
    Command(
        name="listConfigurations",
        description="Lists settings with their effective values",
        handler=list_configurations,
        shape=Shape.LIST,
        response=CONFIGURATION,
        roles=SEEN_BY,
        errors=(PermissionDenied,),
        parameters=(
            string("name", "only this setting"),
            string("category", "only settings of this category"),
            string("group", "only settings of this group"),
            string("subgroup", "only settings of this subgroup"),
            string("parent", "only settings that have an effect only if this setting is true"),
            *PLACES,
            *PAGING,
        ),
        rules=(ONE_PLACE,),
        unsupported={
            "imagestoreuuid": NO_IMAGE_STORES,
        },
    ),
    UPDATE,
    Command(
        name="resetConfiguration",
        description="Resets a setting. The value of the next wider scope then applies, such as the global value",
        handler=reset_configuration,
        shape=Shape.OBJECT,
        response=CONFIGURATION,
        roles=ROOT_ADMIN_ONLY,
        changes_state=True,
        errors=(PermissionDenied, ResourceUnavailable),
        parameters=(string("name", "the setting", required=True), *PLACES),
        rules=(ONE_PLACE,),
        unsupported={"imagestoreid": NO_IMAGE_STORES},
    ),
)

NOUNS = (
    Noun(
        section="configuration",
        create=UPDATE,
        create_many=set_all,
        prepare=with_system,
        read=read_settings,
        key=by("name", *SCOPE_PARAMETERS),
        pairs=("name", "value"),
        innermost=True,
        compare={"value": str.lower},
    ),
)
