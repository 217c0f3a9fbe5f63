"""Limits: what holds where nothing is set, who may set what, and that deployments are held to them."""

import pytest

from bulkdeploy.domain.resources import UNLIMITED, ResourceType
from bulkdeploy.store.accounts.owners import owners_by_id
from bulkdeploy.store.accounts.resource_limits import domain_ids, effective_limit_rows
from tests.support.api.api_client import ApiFailure
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, USER, World

GIB = 1024**3
VM, MEMORY, STORAGE, PROJECT = "0", "9", "10", "5"


def limits(world: World, by: str = ADMIN, **parameters: object) -> dict[str, int]:
    """The limits that a call answers, by the resource's number."""
    rows = world.rows("listResourceLimits", by, **parameters)
    return {row["resourcetype"]: row["max"] for row in rows}


def named(world: World, account: str, domain: str) -> dict[str, str]:
    """The parameters that name an account."""
    return {"account": account, "domainid": world.id_of("domains", domain)}


def set_limit(world: World, kind: str, most: int, by: str = ADMIN, **holder: object) -> dict[str, object]:
    """Set one limit; its row."""
    body = world.client(by).call("updateResourceLimit", resourcetype=kind, max=most, **holder)
    row: dict[str, object] = body["resourcelimit"]
    return row


def refusal(world: World, kind: str, most: object, by: str = ADMIN, **holder: object) -> ApiFailure:
    """How an attempt to set a limit fails."""
    with pytest.raises(ApiFailure) as caught:
        world.client(by).call("updateResourceLimit", resourcetype=kind, max=most, **holder)
    return caught.value


def test_defaults_hold_where_nothing_is_set(world: World) -> None:
    """An account without limits has the account defaults, a project the project ones, a domain the domain ones."""
    neighbour = limits(world, **named(world, "neighbour", "acme"))
    assert neighbour == {
        **dict.fromkeys(("0", "1", "2", "3", "4", "6", "7"), 20),
        "5": -1,
        "8": 40,
        "9": 40960,
        "10": 200,
        "11": 400,
    }
    assert limits(world, projectid=world.id_of("projects", "moon")) == neighbour
    assert limits(world, domainid=world.id_of("domains", "rivals"))[STORAGE] == 400


def test_storage_is_in_gib(world: World) -> None:
    """Limits of storage are answered in GiB and kept in bytes."""
    assert limits(world, **named(world, "acme", "acme"))[STORAGE] == 100 * 1024
    with world.engine.connect() as connection:
        account = world.scalar("SELECT id FROM accounts WHERE name = 'acme'")
        owner = owners_by_id(connection, [account])[account]
        rows = effective_limit_rows(connection, owner)
    assert rows["account", account][ResourceType.PRIMARY_STORAGE] == 100 * 1024 * GIB
    assert list(rows) == [("account", account), *(("domain", each) for each in domain_ids(owner.lineage)[1:])]


def test_a_domain_without_limits_has_those_of_the_nearest_above(fresh_world: World) -> None:
    """Own limit, else the nearest ancestor's below ROOT, else the default; ROOT never counts."""
    world, kind = fresh_world, "3"
    above, below = world.id_of("domains", "customers"), world.id_of("domains", "acme")
    world.change("INSERT INTO resource_limits VALUES ('domain', 1, 3, 1)")
    assert limits(world, domainid=below)[kind] == 40
    set_limit(world, kind, 7, domainid=above)
    assert limits(world, domainid=below)[kind] == limits(world, domainid=above)[kind] == 7
    set_limit(world, kind, 5, domainid=below)
    assert (limits(world, domainid=below)[kind], limits(world, domainid=above)[kind]) == (5, 7)


def test_defaults_follow_the_settings(fresh_world: World) -> None:
    """A changed default holds at once for everybody without a limit of its own."""
    fresh_world.client().call("updateConfiguration", name="max.account.snapshots", value="3")
    fresh_world.client().call("updateConfiguration", name="max.account.secondary.storage", value="-1")
    found = limits(fresh_world, **named(fresh_world, "acme", "acme"))
    assert (found["3"], found["11"]) == (3, -1)


def test_root_admins_are_never_limited(world: World) -> None:
    """A root admin's account and the ROOT domain have no limit of anything."""
    root = world.id_of("domains", "ROOT")
    for parameters in ({}, {"domainid": root}):
        assert set(limits(world, **parameters).values()) == {UNLIMITED}
    with world.engine.connect() as connection:
        assert effective_limit_rows(connection, owners_by_id(connection, [2])[2]) == {}


def test_a_user_sees_its_own_limits(world: World) -> None:
    """Without parameters, and by its domain, a user gets its account's limits."""
    own = limits(world, USER)
    assert own == limits(world, **named(world, "acme", "acme"))
    assert own == limits(world, USER, domainid=world.id_of("domains", "acme"))
    answer = world.client(NEIGHBOUR).get("listResourceLimits", **named(world, "acme", "acme"))
    assert answer.status == 531


def test_a_limit_that_is_set_is_answered_and_holds(fresh_world: World) -> None:
    """The row of the limit comes back, listResourceLimits has it, and deployments are refused by it."""
    world = fresh_world
    row = set_limit(world, VM, 1, **named(world, "acme", "acme"))
    assert (row["account"], row["domain"], row["resourcetype"]) == ("acme", "acme", "0")
    assert (row["resourcetypename"], row["max"]) == ("user_vm", 1)
    assert limits(world, **named(world, "acme", "acme"))[VM] == 1
    world.deploy("first", "acme", "acme")
    with pytest.raises(ApiFailure) as caught:
        world.deploy("second", "acme", "acme")
    assert caught.value.status == 535
    events = world.rows("listEvents", type="RESOURCE.LIMIT.UPDATE")
    assert events[0]["description"] == "set the user_vm limit of account acme to 1"


def test_a_limit_without_an_amount_is_lifted(fresh_world: World) -> None:
    """``max`` left out means no limit, as in CloudStack; 0 means nothing at all."""
    world, acme = fresh_world, named(fresh_world, "acme", "acme")
    assert set_limit(world, VM, 0, **acme)["max"] == 0
    body = world.client().call("updateResourceLimit", resourcetype=VM, **acme)
    assert body["resourcelimit"]["max"] == -1


@pytest.mark.parametrize(
    ("kind", "most", "text"),
    [
        (VM, -2, "Please specify either '-1' for an infinite limit, or a limit that is at least '0'."),
        ("12", 1, "user_vm"),
        ("-1", 1, "resourcetype"),
        (STORAGE, 2**40, "GiB"),
        (VM, 2**63, "max"),
        (VM, "many", "max"),
    ],
)
def test_bad_amounts_and_types_are_refused(world: World, kind: str, most: object, text: str) -> None:
    """An amount or a type that makes no sense is a parameter error that says what would."""
    failure = refusal(world, kind, most, **named(world, "acme", "acme"))
    assert failure.status == 431
    assert text in failure.errortext


def test_whose_limit_it_is_must_be_said_once(world: World) -> None:
    """Neither nobody's, nor an account without its domain, nor account and project at once."""
    acme, project = named(world, "acme", "acme"), world.id_of("projects", "moon")
    for holder in ({}, {"account": "acme"}, {**acme, "projectid": project}):
        assert refusal(world, VM, 1, **holder).status == 431
    assert refusal(world, VM, 1, account="nobody", domainid=acme["domainid"]).status == 431


def test_root_can_not_be_limited(world: World) -> None:
    """Root admin accounts and the ROOT domain take no limit but -1."""
    root = world.id_of("domains", "ROOT")
    for holder in ({"account": "admin", "domainid": root}, {"domainid": root}):
        failure = refusal(world, VM, 5, **holder)
        assert failure.status == 431
        assert "Only -1 limit is supported" in failure.errortext


def test_a_domain_gets_no_more_than_the_one_above(fresh_world: World) -> None:
    """A domain's limit is at most what holds for its parent."""
    set_limit(fresh_world, MEMORY, 1000, domainid=fresh_world.id_of("domains", "customers"))
    below = {"domainid": fresh_world.id_of("domains", "acme")}
    assert "it must be at most" in refusal(fresh_world, MEMORY, 1001, **below).errortext
    assert set_limit(fresh_world, MEMORY, 1000, **below)["max"] == 1000


def test_domain_admins_set_limits_below_themselves(fresh_world: World) -> None:
    """Not their own, not their domain's, not of others; but of accounts and domains below."""
    world = fresh_world
    own = named(world, "customers-admin", "customers")
    for holder in (own, {"domainid": own["domainid"]}):
        assert refusal(world, VM, 5, DOMAIN_ADMIN, **holder).status == 531
    assert refusal(world, VM, 5, DOMAIN_ADMIN, domainid=world.id_of("domains", "ROOT")).status == 431
    for holder in (named(world, "acme", "acme"), {"domainid": world.id_of("domains", "acme")}):
        assert set_limit(world, VM, 5, DOMAIN_ADMIN, **holder)["max"] == 5


def test_a_project_has_limits_of_its_own(fresh_world: World) -> None:
    """``projectid`` sets and shows the limit of the account behind the project, under the project's name."""
    fresh_world.change("INSERT INTO accounts (name, domain_id, account_type, role_id) VALUES ('behind', 1, 5, 4);")
    fresh_world.change(
        "INSERT INTO projects (name, domain_id, account_id)"
        " SELECT 'moon', 1, id FROM accounts WHERE name = 'behind'"
    )
    project = fresh_world.id_of("projects", "moon")
    row = set_limit(fresh_world, VM, 3, projectid=project)
    assert (row["project"], row["projectid"], "account" in row) == ("moon", project, False)
    assert limits(fresh_world, projectid=project)[VM] == 3
