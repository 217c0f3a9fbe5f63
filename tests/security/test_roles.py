"""Only the rules of a role allow its accounts anything, whatever the type of the role."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import text

from bulkdeploy.commands.registry import find_commands
from tests.support.api.account_calls import keyed, make_account, new_name, refusal
from tests.support.api.api_client import ApiClient
from tests.support.zones.world import World

TYPES = ("Admin", "ResourceAdmin", "DomainAdmin", "User")
OPEN = frozenset(name for name, command in find_commands().items() if command.open)
"""Commands without credentials: every caller may use them, and listApis shows them to everybody."""

DESCRIBED = frozenset(name for name, command in find_commands().items() if command.described)
"""Commands that listApis shows to whoever may call them."""

APIS = sorted(set(find_commands()) - OPEN)

FOR_EVERY_TYPE = frozenset(
    {
        *("createConsoleEndpoint", "deleteUserData", "destroyVolume", "getUserKeys", "listApis"),
        *("listDetailOptions", "listKubernetesClusters", "listResourceIcon", "listUserData"),
        *("listVirtualMachinesMetrics", "listVolumesMetrics", "registerUserData", "linkUserDataToTemplate"),
        *("listCustomActions", "runCustomAction", "listVirtualMachinesUsageHistory"),
        "getVirtualMachineUsageHistory",
    }
)
FOR_DOMAIN_ADMINS = frozenset({"createDomain", "deleteDomain"})
FOR_ADMINS = frozenset(
    {
        *("createRole", "createRolePermission", "deleteRole", "deleteRolePermission", "importRole"),
        "listRolePermissions",
        *("listRoles", "updateRole", "updateRolePermission", "updateSecurityGroup", "listAnnotations"),
        *(
            "addAnnotation",
            "removeAnnotation",
            "updateAnnotationVisibility",
            "listDbMetrics",
            "listUsageServerMetrics",
        ),
        *("importUnmanagedInstance", "listUnmanagedInstances", "unmanageVirtualMachine", "listInfrastructure"),
        *("listClustersMetrics", "listHostsMetrics", "listManagementServersMetrics", "listStoragePoolsMetrics"),
        *("listZonesMetrics", "listExtensions", "addCustomAction", "deleteCustomAction"),
        *("configureHAForHost", "enableHAForHost", "disableHAForHost", "enableHAForCluster", "disableHAForCluster"),
        *("enableHAForZone", "disableHAForZone", "listHostHAProviders", "listHostHAResources"),
        *("configureSimulatorHAProviderState", "listSimulatorHAStateTransitions"),
        *("configureOutOfBandManagement", "changeOutOfBandManagementPassword"),
        *(
            f"{verb}OutOfBandManagementFor{place}"
            for verb in ("enable", "disable")
            for place in ("Host", "Cluster", "Zone")
        ),
        "issueOutOfBandManagementPowerAction",
    }
)
ANNOTATED: Mapping[str, frozenset[str]] = {
    "Admin": FOR_EVERY_TYPE | FOR_DOMAIN_ADMINS | FOR_ADMINS,
    "ResourceAdmin": FOR_EVERY_TYPE | {"listRoles"},
    "DomainAdmin": FOR_EVERY_TYPE | FOR_DOMAIN_ADMINS | {"listRoles"},
    "User": FOR_EVERY_TYPE,
}
"""The commands that CloudStack 4.23 annotates with ``authorized`` for a role type, as far as they exist here."""

Rules = Sequence[tuple[str, str]]


def is_allowed(api: str, role_type: str, rules: Rules) -> bool:
    """Decide as ``DynamicRoleBasedAPIAccessChecker.checkApiPermissionByRole`` of CloudStack 4.23 does."""
    for rule, permission in rules:
        if re.fullmatch(rule.lower().replace("*", r"\w*"), api.lower()):
            return permission == "allow"
    return api in ANNOTATED[role_type]


def random_rules(source: random.Random) -> list[tuple[str, str]]:
    """Return up to eight rules: names, names in another case, patterns with ``*`` anywhere, and all."""
    found: dict[str, str] = {}
    for _ in range(source.randint(0, 8)):
        name = source.choice(APIS)
        start, end = sorted(source.sample(range(len(name) + 1), 2))
        cut = source.randint(1, len(name) - 1)
        written = (name, name.lower(), name.upper(), f"{name[:cut]}*", f"*{name[start:end]}*", f"*{name[cut:]}")
        pattern = source.choice((*written, source.choice(("list*", "*VM*", "*Host*", "update*", "*"))))
        found.setdefault(pattern, source.choice(("allow", "deny")))
    return list(found.items())


def role_with(world: World, role_type: str, rules: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Make a role with rules in their order."""
    role: dict[str, Any] = world.client().call("createRole", name=new_name("role"), type=role_type)["role"]
    for rule, permission in rules:
        world.client().call("createRolePermission", roleid=role["id"], rule=rule, permission=permission)
    return role


def client_with(world: World, role: Mapping[str, Any]) -> ApiClient:
    """Make an account that has the role, and a client with keys of its user."""
    domain = "ROOT" if role["type"] == "Admin" else "acme"
    return keyed(world, make_account(world, domain=domain, roleid=role["id"], accounttype=""))


def apis_of(client: ApiClient) -> set[str]:
    """Return the commands that listApis shows, without those that need no credentials."""
    return {api["name"] for api in client.call("listApis")["api"]} - OPEN


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 12))]
)
def test_rules_decide_as_in_cloudstack(world: World, seed: int) -> None:
    """Permission for each command equals CloudStack's for any rules and each role type.

    listApis shows exactly the allowed commands that it describes. If the role denies listApis, the call itself is
    rejected. Calls of denied commands are rejected with 432, and calls of allowed commands are not.
    """
    source = random.Random(seed)  # noqa: S311 - a repeatable choice
    rules = random_rules(source)
    for role_type in TYPES:
        client = client_with(world, role_with(world, role_type, rules))
        allowed = {api for api in APIS if is_allowed(api, role_type, rules)}
        if "listApis" in allowed:
            assert apis_of(client) == allowed & DESCRIBED, (role_type, rules)
        tried = source.sample(APIS, 12)
        rejected = {api for api in tried if api not in allowed or api.startswith("list")}
        statuses = {api: client.get(api).status for api in sorted(rejected)}
        wrong = {api: status for api, status in statuses.items() if (status == 432) is (api in allowed)}
        assert wrong == {}, (role_type, rules)


def test_one_rule_allows_one_command(world: World) -> None:
    """A role of type User that allows listVirtualMachines allows nothing else but what every role is allowed."""
    client = client_with(world, role_with(world, "User", [("listVirtualMachines", "allow")]))
    assert apis_of(client) == {"listVirtualMachines", *FOR_EVERY_TYPE & DESCRIBED}
    assert client.get("deployVirtualMachine").status == 432


def test_default_roles_have_explicit_rules(world: World) -> None:
    """Each default role has rules; those of the four basic roles name APIs and deny nothing."""
    for role in (row for row in world.rows("listRoles") if row["isdefault"]):
        rules = world.rows("listRolePermissions", roleid=role["id"], pagesize=500, page=1)
        assert rules, role["name"]
        if role["name"] in ("Resource Admin", "Domain Admin", "User"):
            assert {rule["permission"] for rule in rules} == {"allow"}
            assert {rule["rule"] for rule in rules} <= set(APIS)


def test_a_clone_of_a_default_role_allows_the_same(world: World) -> None:
    """An account with a clone of the role User may call what an account with the role User may call."""
    role = world.client().call("createRole", name=new_name("role"), roleid=world.id_of("roles", "User"))["role"]
    assert apis_of(client_with(world, role)) == apis_of(keyed(world, make_account(world)))


def test_roles_and_accounts(world: World) -> None:
    """The scenario of CloudStack's own test of roles and accounts: allowed, denied, and without any rule."""
    rules = [
        ("listVirtualMachines", "allow"),
        *(("listApis", "allow"), ("listAccounts", "allow"), ("listClusters", "deny")),
        *(("*VM*", "allow"), ("*Host*", "deny")),
    ]
    client = client_with(world, role_with(world, "User", rules))
    shown = apis_of(client)
    assert not {api for api in shown if "Host" in api or api == "listClusters"}
    assert {"listVMSnapshot", "createVMSnapshot", "listAccounts"} <= shown
    assert client.call("listAccounts")["account"]
    assert {client.get(api).status for api in ("listHosts", "listClusters", "listZones")} == {432}


def test_a_rule_that_another_process_wrote_decides_at_once(world: World) -> None:
    """Rules are read with each call, so a rule that was written past this process decides about the next call."""
    role = role_with(world, "User", [])
    client = client_with(world, role)
    assert client.get("listZones").status == 432
    with world.engine.begin() as connection:
        row = "INSERT INTO role_rules (role_id, rule, permission, sort_order) SELECT id, 'list*', 'allow', 0"
        connection.execute(text(f"{row} FROM roles WHERE uuid = :role"), {"role": role["id"]})
    assert client.get("listZones").status == 200


def test_a_role_has_one_rule_for_a_pattern(world: World) -> None:
    """A second rule for the same pattern is rejected, and the first one stays."""
    role = role_with(world, "User", [("list*", "allow")])
    answer = world.client().get("createRolePermission", roleid=role["id"], rule="list*", permission="deny")
    code, shown = refusal(answer)
    assert (code, "list*" in shown) == (431, True)
    assert [rule["permission"] for rule in world.rows("listRolePermissions", roleid=role["id"])] == ["allow"]


def test_rules_keep_any_order(world: World) -> None:
    """The rules of a role can be put into any order; an order that leaves out one of them is rejected."""
    role = role_with(world, "User", [("listVirtualMachines", "allow"), ("list*", "deny"), ("*Vol*", "allow")])
    ids = [rule["id"] for rule in world.rows("listRolePermissions", roleid=role["id"])]
    source = random.Random(0)  # noqa: S311 - a repeatable choice
    for _ in range(4):
        source.shuffle(ids)
        world.client().call("updateRolePermission", roleid=role["id"], ruleorder=",".join(ids))
        assert [rule["id"] for rule in world.rows("listRolePermissions", roleid=role["id"])] == ids
    answer = world.client().get("updateRolePermission", roleid=role["id"], ruleorder=",".join(ids[1:]))
    assert refusal(answer)[0] == 431
