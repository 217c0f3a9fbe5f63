"""What every list command answers: declared fields, each in its declared JSON type, all of them sent."""

import re
from collections.abc import Iterable
from typing import Any

import pytest

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.commands.unsupported_resources import ABSENT, UNSUPPORTED_AT_LOGIN
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.responses import Field, FieldType, Shape
from bulkdeploy.store.catalog.disk_settings import RATES
from tests.support.zones.world import World

ELSEWHERE = {
    *(
        "listAlerts",
        "listAnnotations",
        "listApis",
        "listAsyncJobs",
        "listBulkDeployments",
        "listBulkOperations",
        "listCapabilities",
        "listClusterDrsPlan",
        "listCustomActions",
        "listExtensions",
        "listHostHAProviders",
        "listHostHAResources",
        "listNetworkPermissions",
        "listNics",
        "listProjectAccounts",
        "listProjectRolePermissions",
        "listProjectRoles",
        "listRegions",
        "listResourceDetails",
        "listResourceSchedule",
        "listStoragePoolObjects",
        "listSimulatorHAStateTransitions",
        "listStorageUnits",
        "listUnmanagedInstances",
        "listVirtualMachinesUsageHistory",
    ),
}
"""Lists with tests of their own."""

COMMANDS = {
    name: command
    for name, command in find_commands().items()
    if command.shape is Shape.LIST and name.startswith("list") and name not in ELSEWHERE
}
EMPTY = {*ABSENT, *UNSUPPORTED_AT_LOGIN}
ONLY_IN_JOBS = {name: {"password"} for name in ("listVirtualMachines", "listVirtualMachinesMetrics")}
"""Fields of an object that lists and jobs both answer, and only jobs' results have."""

OF_DISKS = {"cacheMode", *(rate.field for rate in RATES)}
OF_USER_DATA = {f"userdata{name}" for name in ("id", "name", "params", "policy")}
OF_FEW_THINGS: dict[str, set[str]] = {
    "listDiskOfferings": {*OF_DISKS, "encrypt"},
    "listServiceOfferings": {*OF_DISKS, "encryptroot", "systemvmtype", "leaseduration", "leaseexpiryaction"},
    "listNetworkOfferings": {"domain", "domainid", "zone", "zoneid"},
    "listIsos": OF_USER_DATA,
    "listTemplates": OF_USER_DATA,
    "listTrafficTypes": {"vlan"},
}
"""Fields that few things have: tests/commands makes such things and lists them."""

OF_CONTROLLERS = {
    *(f"outofbandmanagement.{name}" for name in ("driver", "address", "port", "username")),
    "hostha.haprovider",
}
"""Fields that hosts with management controllers and host HA have: tests/commands/availability lists such hosts."""

PAGED = {name for name, command in COMMANDS.items() if any(item.name == "page" for item in command.parameters)}
ISO_8601 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}")
PLAIN = {
    FieldType.STRING: str,
    FieldType.INTEGER: int,
    FieldType.LONG: int,
    FieldType.FLOAT: float,
    FieldType.BOOLEAN: bool,
    FieldType.DATE: str,
}


def everything(command: Command) -> dict[str, str]:
    """Parameters that make a list answer all it can."""
    wanted = {
        "listall": "true",
        "pagesize": "-1",
        "showcapacities": "true",
        "userdata": "true",
        "templatefilter": "all",
        "isofilter": "all",
        "showremoved": "true",
    }
    declared = {parameter.name for parameter in command.parameters}
    return {name: value for name, value in wanted.items() if name in declared}


def wrong(fields: Iterable[Field], row: dict[str, Any], path: str = "") -> list[str]:
    """The fields of an object whose JSON type is not the declared one."""
    declared = {field.name: field for field in fields}
    found = [f"{path}{name} is not declared" for name in row if name not in declared]
    for name, value in row.items():
        if name in declared and not is_right(declared[name], value):
            found.append(f"{path}{name}: {value!r} is no {declared[name].type.value}")
        if name in declared and declared[name].fields:
            items = value if isinstance(value, list) else [value]
            found += [problem for item in items for problem in wrong(declared[name].fields, item, f"{path}{name}.")]
    return found


def is_right(field: Field, value: Any) -> bool:
    """Whether a JSON value has the type that the field declares."""
    if field.type is FieldType.OBJECT:
        return isinstance(value, dict)
    if field.type is FieldType.MAP:
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    if field.type in (FieldType.LIST, FieldType.SET):
        kind = dict if field.fields else str
        return isinstance(value, list) and all(isinstance(item, kind) for item in value)
    if type(value) is not PLAIN[field.type]:
        return False
    return field.type is not FieldType.DATE or ISO_8601.fullmatch(str(value)) is not None


def sent(rows: Iterable[dict[str, Any]], prefix: str = "") -> set[str]:
    """Every field that any row has, nested ones with their parents' names."""
    names: set[str] = set()
    for row in rows:
        for name, value in row.items():
            names.add(prefix + name)
            if isinstance(value, list) and value and isinstance(value[0], dict):
                names |= sent(value, f"{prefix}{name}.")
            if isinstance(value, dict):
                names |= sent([value], f"{prefix}{name}.")
    return names


def declared(fields: Iterable[Field], prefix: str = "") -> set[str]:
    """Every declared field, nested ones with their parents' names."""
    names: set[str] = set()
    for field in fields:
        names.add(prefix + field.name)
        names |= declared(field.fields, f"{prefix}{field.name}.")
    return names


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_field_has_its_declared_json_type(world: World, name: str) -> None:
    """Typed clients refuse a whole answer for one field of another type: there is none."""
    response = COMMANDS[name].response
    assert response is not None
    rows = world.rows(name, **everything(COMMANDS[name]))
    assert bool(rows) == (name not in EMPTY)
    assert [problem for row in rows for problem in wrong(response.fields, row)] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_declared_field_is_sent(world: World, name: str) -> None:
    """Nothing is promised in listApis that no answer ever has (tags, being alike everywhere, apart)."""
    response = COMMANDS[name].response
    assert response is not None
    rows = world.rows(name, **everything(COMMANDS[name]))
    if any(parameter.name == "projectid" for parameter in COMMANDS[name].parameters):
        project = world.id_of("projects", "moon")
        rows += world.rows(name, **{**everything(COMMANDS[name]), "projectid": project})
    if name == "listCapacity":
        rows += world.rows(name, clusterid=world.id_of("clusters", "a-1"))
    if name in ("listHosts", "listHostsMetrics"):
        vm = world.id_of("virtual_machines", "acme-1")
        rows += world.rows(name, virtualmachineid=vm)
    missing = (
        declared(response.fields) - sent(rows) - ONLY_IN_JOBS.get(name, set()) - OF_FEW_THINGS.get(name, set())
    )
    missing -= OF_CONTROLLERS
    assert {field for field in missing if not field.startswith("tags.")} == set()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_answer_is_a_count_and_one_list(world: World, name: str) -> None:
    """Clients unpack exactly one key beside the count, and nothing found is an empty object."""
    response = COMMANDS[name].response
    assert response is not None
    body = world.client().call(name, **everything(COMMANDS[name]))
    if name in EMPTY:
        assert body == {}
    else:
        assert set(body) == {"count", response.key}
        assert body["count"] == len(body[response.key]) > 0


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(PAGED))
def test_pages_together_are_the_whole(world: World, name: str) -> None:
    """Pages of two hold every row once, in the order of the whole list, each with the whole count."""
    parameters = everything(COMMANDS[name])
    whole = world.rows(name, **parameters)
    paged: list[dict[str, Any]] = []
    for page in range(1, len(whole) // 2 + 2):
        body = world.client().call(name, **{**parameters, "pagesize": "2", "page": str(page)})
        assert body.get("count", 0) == len(whole)
        paged += next((value for key, value in body.items() if key != "count"), [])
    assert paged == whole


def test_every_list_that_clients_need_exists() -> None:
    """The lists that CloudMonkey, Libcloud, Ansible and Terraform call are all there."""
    needed = {
        *("listZones", "listPods", "listClusters", "listHosts", "listServiceOfferings", "listDiskOfferings"),
        *("listTemplates", "listIsos", "listNetworks", "listSecurityGroups", "listAffinityGroups"),
        *("listAffinityGroupTypes", "listSSHKeyPairs", "listAccounts", "listDomains", "listDomainChildren"),
        *("listUsers", "listProjects", "listRoles", "listCapacity", "listResourceLimits", "listConfigurations"),
        *("listEvents", "listEventTypes", "listHypervisors", "listDeploymentPlanners", "listOsTypes"),
        *("listOsCategories", "listNetworkOfferings", "listVolumes", "listStoragePools", "listTags"),
        *(
            "listVMSnapshot",
            "listInstanceGroups",
            "listUserData",
            "listVirtualMachines",
            "listStorageProviders",
            *EMPTY,
        ),
    }
    assert needed <= set(COMMANDS)
