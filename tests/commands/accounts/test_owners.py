"""Accounts, users, domains, projects and roles."""

import pytest

from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World


def test_accounts_are_shown_like_what_they_own(world: World) -> None:
    """An admin sees all or its subtree with ``listall``, itself without; a user only itself."""
    assert set(world.names("listAccounts", listall="true")) == {
        *("admin", "customers-admin", "acme", "neighbour", "rival")
    }
    assert set(world.names("listAccounts", DOMAIN_ADMIN, listall="true")) == {
        "customers-admin",
        "acme",
        "neighbour",
    }
    for caller in (ADMIN, DOMAIN_ADMIN, USER, RIVAL):
        assert world.names("listAccounts", caller) == [caller]
    assert world.names("listAccounts", USER, listall="true") == [USER]
    assert world.client(USER).get("listAccounts", id=world.id_of("accounts", "rival")).status == 431


def test_an_account_shows_limits_and_totals(world: World) -> None:
    """Limits and what is left are texts, totals numbers, storage in GiB, memory in MiB."""
    (row,) = world.rows("listAccounts", USER)
    assert (row["vmlimit"], row["vmtotal"], row["vmavailable"]) == ("1000", 4, "996")
    assert (row["cpulimit"], row["cputotal"], row["cpuavailable"]) == ("4000", 5, "3995")
    assert (row["memorylimit"], row["memorytotal"]) == (str(4 * 1024 * 1024), 5 * 512)
    assert (row["primarystoragelimit"], row["primarystoragetotal"]) == (str(100 * 1024), 10)
    assert (row["vmrunning"], row["vmstopped"], row["networktotal"], row["templatetotal"]) == (1, 1, 1, 2)
    assert (row["iptotal"], row["secondarystoragetotal"]) == (0, 0.0)
    (admin,) = world.rows("listAccounts", ADMIN)
    assert (admin["vmlimit"], admin["vmtotal"], admin["vmavailable"]) == ("Unlimited", 1, "Unlimited")
    assert [user["username"] for user in admin["user"]] == ["admin"]


@pytest.mark.parametrize("command", ["listAccounts", "listDomains"])
def test_limits_and_totals_can_be_left_out(world: World, command: str) -> None:
    """``details=min`` leaves out what costs the most; an unknown word is refused."""
    whole, small = world.rows(command)[0], world.rows(command, details="min")[0]
    assert {"vmlimit", "vmtotal", "vmavailable"} <= set(whole) - set(small)
    assert set(small) <= set(whole)
    assert world.rows(command, details="min,resource")[0] == whole
    assert world.client().get(command, details="most").status == 431


def test_what_is_over_the_limit_leaves_nothing(fresh_world: World) -> None:
    """A limit below what is used leaves 0, not less."""
    fresh_world.deploy("one", "acme", "acme")
    fresh_world.change("UPDATE resource_limits SET max = 0 WHERE resource_type = 0")
    (row,) = fresh_world.rows("listAccounts", USER)
    assert (row["vmlimit"], row["vmtotal"], row["vmavailable"]) == ("0", 1, "0")


def test_domains_add_up_what_is_below_them(world: World) -> None:
    """A domain's totals are those of all accounts in it and below it."""
    totals = {row["name"]: row["vmtotal"] for row in world.rows("listDomains")}
    # acme 5, neighbour 1 and the project 1 in acme; rival 1; admin 1.
    assert totals == {"ROOT": 8, "customers": 6, "acme": 6, "rivals": 1}
    (root,) = world.rows("listDomains", level="0")
    assert (root["path"], root["haschild"], root["vmlimit"]) == ("ROOT", True, "Unlimited")
    (acme,) = world.rows("listDomains", name="acme")
    assert (acme["path"], acme["level"], acme["parentdomainname"], acme["haschild"]) == (
        *("ROOT/customers/acme", 2, "customers"),
        False,
    )


def test_domains_are_shown_from_the_callers_down(world: World) -> None:
    """Root admins see all, domain admins their own, with ``listall`` those below it; others are refused."""
    assert set(world.names("listDomains")) == {"ROOT", "customers", "acme", "rivals"}
    assert world.names("listDomains", DOMAIN_ADMIN) == ["customers"]
    assert world.names("listDomains", DOMAIN_ADMIN, listall="true") == ["customers", "acme"]
    acme, rivals = world.id_of("domains", "acme"), world.id_of("domains", "rivals")
    assert world.names("listDomains", DOMAIN_ADMIN, id=acme) == ["acme"]
    for command in ("listDomains", "listDomainChildren"):
        assert world.client(DOMAIN_ADMIN).get(command, id=rivals).status == 431


def test_children_are_right_below_unless_recursive(world: World) -> None:
    """Without an id the caller's own domain is meant, and it is never among them."""
    assert set(world.names("listDomainChildren")) == {"customers", "rivals"}
    assert set(world.names("listDomainChildren", isrecursive="true")) == {"customers", "acme", "rivals"}
    assert world.names("listDomainChildren", DOMAIN_ADMIN) == ["acme"]
    assert world.names("listDomainChildren", id=world.id_of("domains", "acme")) == []


def test_users_are_shown_with_their_accounts(world: World) -> None:
    """A user sees the users of its account, a domain admin those below it, never a password or secret key."""
    rows = world.rows("listUsers", listall="true")
    assert {row["username"] for row in rows} == {"admin", "customers-admin", "acme", "neighbour", "rival"}
    assert all("secret" not in key and "password" not in key for row in rows for key in row)
    below = world.rows("listUsers", DOMAIN_ADMIN, listall="true")
    is_below = {row["username"]: row["iscallerchilddomain"] for row in below}
    assert is_below == {"customers-admin": False, "acme": True, "neighbour": True}
    for caller in (USER, NEIGHBOUR):
        assert [row["username"] for row in world.rows("listUsers", caller, listall="true")] == [caller]


def test_a_user_is_found_by_key(world: World) -> None:
    """Ansible's first call: the key's user as one object; an unknown key is a parameter error."""
    client = world.client(USER)
    user = world.client().call("getUser", userapikey=client.api_key)["user"]
    assert (user["username"], user["account"], user["domain"]) == ("acme", "acme", "acme")
    answer = world.client().get("getUser", userapikey="no such key")
    assert (answer.status, answer.body["cserrorcode"]) == (431, 4350)


@pytest.mark.parametrize(
    ("caller", "parameters", "expected"),
    [
        (ADMIN, {}, []),
        (ADMIN, {"listall": "true"}, ["moon"]),
        (DOMAIN_ADMIN, {"listall": "true"}, ["moon"]),
        (USER, {}, ["moon"]),
        (NEIGHBOUR, {"listall": "true"}, []),
        (RIVAL, {"listall": "true"}, []),
    ],
)
def test_projects_are_shown_to_members_and_admins_above(
    world: World, caller: str, parameters: dict[str, str], expected: list[str]
) -> None:
    """Members see their projects, admins with ``listall`` those below them; to others there is none of that id."""
    assert world.names("listProjects", caller, **parameters) == expected
    answer = world.client(caller).get("listProjects", id=world.id_of("projects", "moon"))
    assert answer.status == (431 if caller in (NEIGHBOUR, RIVAL) else 200)


def test_a_project_shows_its_managers_and_totals(world: World) -> None:
    """A project's VMs are counted on the account behind it."""
    (row,) = world.rows("listProjects", USER)
    assert row["owner"] == [{"account": "acme", "accountid": world.id_of("accounts", "acme")}]
    assert (row["vmtotal"], row["vmlimit"], row["projectaccountname"]) == (1, "20", "moon-account")


def test_projects_are_found_by_account_and_domain(world: World) -> None:
    """``account`` shows the projects of its members, ``domainid`` those of a domain."""
    acme, customers = world.id_of("domains", "acme"), world.id_of("domains", "customers")
    assert world.names("listProjects", account="acme", domainid=acme) == ["moon"]
    assert world.names("listProjects", account="neighbour", domainid=acme) == []
    assert world.names("listProjects", domainid=acme) == ["moon"]
    assert world.names("listProjects", domainid=customers) == []
    assert world.names("listProjects", domainid=customers, isrecursive="true") == ["moon"]


def test_offerings_are_shown_to_the_domains_they_are_for(world: World) -> None:
    """What is for one domain is hidden from others; hidden disk offerings are for root admins."""
    for command, private in (("listServiceOfferings", "Rivals only"), ("listDiskOfferings", "Rivals disk")):
        (row,) = world.rows(command, name=private)
        assert (row["domain"], row["zone"]) == ("rivals", "for-rivals")
        assert row["domainid"] == world.id_of("domains", "rivals")
        assert private not in world.names(command, USER)
        assert private not in world.names(command, DOMAIN_ADMIN)
        assert private not in world.names(command, zoneid=world.id_of("zones", "small"))
        assert private in world.names(command, zoneid=world.id_of("zones", "for-rivals"))
        assert world.client(USER).get(command, domainid=world.id_of("domains", "rivals")).status == 431
        rootwide = {"domainid": world.id_of("domains", "ROOT")}
        assert world.names(command, **rootwide) == []
        assert world.names(command, **rootwide, isrecursive="true") == [private]
    assert "Rivals only" in world.names("listServiceOfferings", RIVAL)
    assert "Rivals disk" not in world.names("listDiskOfferings", RIVAL)


def test_custom_offerings_say_what_they_allow(world: World) -> None:
    """An offering whose cores and memory are chosen shows the least of each, and says its bounds."""
    (row,) = world.rows("listServiceOfferings", name="Custom")
    assert (row["iscustomized"], row["cpunumber"], row["memory"], row["cpuspeed"]) == (True, 1, 256, 500)
    bounds = row["serviceofferingdetails"]
    assert (bounds["mincpunumber"], bounds["maxcpunumber"]) == ("1", "8")
    assert (bounds["minmemory"], bounds["maxmemory"]) == ("256", "16384")
    assert "Custom" in world.names("listServiceOfferings", cpunumber="8", memory="16384")
    assert "Custom" not in world.names("listServiceOfferings", cpunumber="9")


def test_networks_are_filtered_by_access(world: World) -> None:
    """``networkfilter`` shows an account's own, those of its domains, both, or those with a permission."""
    own, wide = {"acme-isolated"}, {"guests", "customers-wide"}
    expected = {"Account": own, "Domain": wide, "accountdomain": own | wide, "Shared": set(), "All": own | wide}
    for word, names in expected.items():
        assert set(world.names("listNetworks", USER, networkfilter=word)) == names
    assert world.client().get("listNetworks", networkfilter="Mine").status == 431


def test_archived_events_are_apart(world: World) -> None:
    """Archived events are listed where asked for, and the newest event comes first."""
    live = world.rows("listEvents", USER)
    assert {row["archived"] for row in live} == {False}
    assert [row["created"] for row in live] == sorted((row["created"] for row in live), reverse=True)
    (archived,) = world.rows("listEvents", USER, archived="true")
    assert archived["description"] == "an archived one"


@pytest.mark.parametrize(("parameter", "value"), [("startdate", "yesterday"), ("enddate", "2020-13-01")])
def test_dates_that_are_none_are_refused(world: World, parameter: str, value: str) -> None:
    """An unreadable date is a parameter error that names the parameter."""
    answer = world.client().get("listEvents", **{parameter: value})
    assert (answer.status, parameter in answer.body["errortext"]) == (431, True)
