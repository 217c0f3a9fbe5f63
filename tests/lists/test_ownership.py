"""Whose things lists show: the rules of cloudstack-protocol.md 1.8, for every list of owned things."""

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.lists.test_shapes import COMMANDS, EMPTY
from tests.support.runs.properties import examples
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World

OF_ALL = {
    "listUsers",
    "listProjects",
    "listProjectInvitations",
    "listSnapshotPolicies",
    "listVMSchedule",
    "listServiceOfferings",
    "listDiskOfferings",
    "listResourceDetails",
    "listResourceLimits",
}
"""Lists that take owner parameters and show things that accounts do not own as they own VMs."""

OWNED = sorted(
    name
    for name, command in COMMANDS.items()
    if {"account", "listall"} <= {parameter.name for parameter in command.parameters} and name not in EMPTY | OF_ALL
)
OPEN_TO_DOMAINS = {"listNetworks", "listAffinityGroups"}
"""Lists that also show what is open to the caller's whole domain."""

MOON = "project moon"
OF_SUBTREE = {"acme", "neighbour"}
EVERYBODY = {"acme", "neighbour", "rival"}


def owners(rows: list[dict[str, Any]]) -> set[str]:
    """The accounts and projects that rows belong to; what belongs to a domain or an admin is left out."""
    names = {row.get("account") or f"project {row['project']}" for row in rows if {"account", "project"} & set(row)}
    return names - {"admin", "customers-admin"}


def requested(command: str, **parameters: Any) -> dict[str, Any]:
    """Parameters that do not narrow the list, and these."""
    filters: dict[str, dict[str, Any]] = {
        "listTemplates": {"templatefilter": "self"},
        "listIsos": {"isofilter": "self"},
    }
    return {**filters.get(command, {}), **parameters}


@pytest.mark.parametrize("command", OWNED)
def test_no_filter_shows_a_user_more_than_its_own(world: World, command: str) -> None:
    """Neither ``listall`` nor its own domain shows a user the things of others in it."""
    domain = world.id_of("domains", "acme")
    for parameters in ({}, {"listall": "true"}, {"domainid": domain, "isrecursive": "true", "listall": "true"}):
        assert owners(world.rows(command, USER, **requested(command, **parameters))) == {"acme"}


@pytest.mark.parametrize("command", OWNED)
def test_a_domain_admin_sees_its_subtree_with_listall(world: World, command: str) -> None:
    """With ``listall`` everything of the domain and those below it, without it the admin's own."""
    assert owners(world.rows(command, DOMAIN_ADMIN, **requested(command))) == set()
    shown = owners(world.rows(command, DOMAIN_ADMIN, **requested(command, listall="true")))
    assert {"acme"} <= shown <= OF_SUBTREE


@pytest.mark.parametrize("command", OWNED)
def test_a_root_admin_sees_everything_with_listall(world: World, command: str) -> None:
    """With ``listall`` everybody's things but those of projects, without it the admin's own."""
    assert owners(world.rows(command, **requested(command))) == set()
    shown = owners(world.rows(command, **requested(command, listall="true")))
    assert {"acme", "rival"} <= shown <= EVERYBODY


@pytest.mark.parametrize("command", OWNED)
def test_account_and_domain_name_one_owner(world: World, command: str) -> None:
    """``account`` with ``domainid`` shows that account's things alone."""
    acme = {"account": "ACME", "domainid": world.id_of("domains", "acme")}
    for caller in (ADMIN, DOMAIN_ADMIN, USER):
        assert owners(world.rows(command, caller, **requested(command, **acme))) == {"acme"}


@pytest.mark.parametrize("command", OWNED)
def test_a_domain_is_one_level_unless_recursive(world: World, command: str) -> None:
    """``domainid`` shows that domain's things, with ``isrecursive`` those of the domains below it."""
    customers = world.id_of("domains", "customers")
    assert owners(world.rows(command, **requested(command, domainid=customers))) == set()
    shown = owners(world.rows(command, **requested(command, domainid=customers, isrecursive="true")))
    assert {"acme"} <= shown <= OF_SUBTREE


@pytest.mark.parametrize("command", OWNED)
def test_things_of_projects_are_shown_by_project(world: World, command: str) -> None:
    """``projectid`` shows the project's things to its members and to admins above it."""
    for project in (world.id_of("projects", "moon"), "-1"):
        for caller in (ADMIN, DOMAIN_ADMIN, USER):
            assert owners(world.rows(command, caller, **requested(command, projectid=project))) == {MOON}
    assert world.rows(command, NEIGHBOUR, **requested(command, projectid="-1")) == []


@pytest.mark.parametrize("command", OWNED)
def test_listall_with_every_project_shows_accounts_and_projects(world: World, command: str) -> None:
    """CloudStack's UI always sends both, and shows what the caller sees without a project and with each."""
    for caller in (ADMIN, DOMAIN_ADMIN, USER, NEIGHBOUR):
        shown = [
            {row.get("id", row.get("key")) for row in world.rows(command, caller, **requested(command, **sent))}
            for sent in ({"listall": "true", "projectid": "-1"}, {"listall": "true"}, {"projectid": "-1"})
        ]
        assert shown[0] == shown[1] | shown[2]


@pytest.mark.parametrize("command", OWNED)
def test_an_id_lifts_what_listall_lifts(world: World, command: str) -> None:
    """Who may see a thing finds it by id without more; to who may not it does not exist."""
    names = {parameter.name for parameter in COMMANDS[command].parameters} & {"id", "vmsnapshotid"}
    if not names:
        assert command == "listTags"
        return
    (by_id,) = names
    mine = world.rows(command, USER, **requested(command))
    mine = [row for row in mine if row.get("account") == "acme"]
    of_project = world.rows(command, USER, **requested(command, projectid="-1"))
    for row in (mine[0], of_project[0]):
        for caller in (ADMIN, DOMAIN_ADMIN, USER):
            found = world.rows(command, caller, **requested(command, **{by_id: row["id"]}))
            assert [one["id"] for one in found][:1] == [row["id"]]
        assert world.client(RIVAL).get(command, **requested(command, **{by_id: row["id"]})).status == 431


@pytest.mark.parametrize("command", [*OWNED, "listUsers", "listProjects"])
@pytest.mark.parametrize(
    ("caller", "account", "domain"),
    [
        (USER, "neighbour", "acme"),
        (USER, "nobody", "acme"),
        (USER, None, "customers"),
        (USER, "rival", "rivals"),
        (DOMAIN_ADMIN, "rival", "rivals"),
        (DOMAIN_ADMIN, None, "rivals"),
        (DOMAIN_ADMIN, None, "ROOT"),
        (RIVAL, None, "acme"),
    ],
)
def test_others_may_not_be_named(world: World, command: str, caller: str, account: str | None, domain: str) -> None:
    """An account or domain outside the caller's reach is refused, whether or not it exists."""
    parameters: dict[str, object] = {"domainid": world.id_of("domains", domain)}
    if account is not None:
        parameters["account"] = account
    answer = world.client(caller).get(command, **requested(command, **parameters))
    own = domain == "acme" and caller != RIVAL
    assert (answer.status, answer.body["cserrorcode"]) == ((531, 4365) if own else (431, 9999))
    reported = "does not have permission to operate" if own else "entity does not exist"
    assert reported in answer.body["errortext"]


def test_a_domain_of_others_is_no_domain(world: World) -> None:
    """Who may not name a domain is told what clients know of an id of nothing, to the letter."""
    reported = []
    for domain in (world.id_of("domains", "rivals"), str(uuid4())):
        answer = world.client(USER).get("listVirtualMachines", domainid=domain)
        assert (answer.status, answer.body["cserrorcode"]) == (431, 9999)
        reported.append(answer.body["errortext"].replace(domain, "ID"))
    assert reported[0] == reported[1]


def test_account_and_project_exclude_each_other(world: World) -> None:
    """Things belong to an account or to a project."""
    project = world.id_of("projects", "moon")
    answer = world.client().get("listVirtualMachines", account="admin", projectid=project)
    assert (answer.status, answer.body["cserrorcode"]) == (431, 4350)


def test_an_unknown_account_is_a_parameter_error(world: World) -> None:
    """An admin who names an account that does not exist is told so."""
    answer = world.client().get("listVirtualMachines", account="nobody", domainid=world.id_of("domains", "acme"))
    assert answer.status == 431
    assert "Unable to find account by name nobody" in answer.body["errortext"]


def test_a_project_of_others_is_refused(world: World) -> None:
    """To a user who is no member there is no such project."""
    answer = world.client(RIVAL).get("listVirtualMachines", projectid=world.id_of("projects", "moon"))
    assert (answer.status, answer.body["cserrorcode"]) == (431, 9999)


def test_things_open_to_a_domain_reach_those_in_it(world: World) -> None:
    """A domain's networks and groups are seen from the domain and, where it lets them, from those below it."""
    networks, groups = world.names("listNetworks", USER), world.names("listAffinityGroups", USER)
    assert {"guests", "customers-wide", "acme-isolated"} == set(networks)
    assert "of domain customers" in groups
    assert "of domain rivals" not in groups
    assert "customers-alone" in world.names("listNetworks", DOMAIN_ADMIN)
    assert set(world.names("listNetworks", RIVAL)) == {"guests", "rivals-wide", "rival-isolated"}


def test_groups_of_a_domain_name_only_vms_that_the_caller_sees(world: World) -> None:
    """A group that a whole domain uses does not tell one account of the VMs of another."""
    group = world.id_of("affinity_groups", "of domain customers")
    vm = world.id_of("virtual_machines", "neighbour-1")
    for caller, seen in ((USER, []), (NEIGHBOUR, [vm]), (DOMAIN_ADMIN, [vm]), (ADMIN, [vm])):
        (row,) = world.rows("listAffinityGroups", caller, id=group)
        assert row["virtualmachineIds"] == seen


parameters = st.fixed_dictionaries(
    {},
    optional={
        "listall": st.sampled_from(["true", "false"]),
        "isrecursive": st.sampled_from(["true", "false"]),
        "account": st.sampled_from(["acme", "neighbour", "rival", "admin", "nobody", "moon-account"]),
        "domain": st.sampled_from(["ROOT", "customers", "acme", "rivals"]),
        "projectid": st.sampled_from(["-1", "moon"]),
        "keyword": st.sampled_from(["", "a", "r"]),
        "pagesize": st.just("-1"),
    },
)


@examples(150, suppress=(HealthCheck.function_scoped_fixture,))
@given(
    command=st.sampled_from(OWNED), caller=st.sampled_from([USER, NEIGHBOUR, RIVAL]), given_parameters=parameters
)
def test_no_parameters_show_a_user_the_things_of_others(
    world: World, command: str, caller: str, given_parameters: dict[str, str]
) -> None:
    """Whatever a user asks for: its own things, its projects' and what is open to its domain, or a refusal."""
    sent = dict(given_parameters)
    if "domain" in sent:
        sent["domainid"] = world.id_of("domains", sent.pop("domain"))
    if sent.get("projectid") == "moon":
        sent["projectid"] = world.id_of("projects", "moon")
    answer = world.client(caller).get(command, **requested(command, **sent))
    assert answer.status in (200, 431, 531)
    rows = [
        row for key, value in answer.body.items() if isinstance(value, list) and key != "uuidList" for row in value
    ]
    assert owners(rows) <= ({"acme", MOON} if caller == USER else {caller})
