"""Counts that are repaired from the truth, settings that are taken back, events that are archived and deleted."""

from typing import Any

import pytest

from tests.support.api.account_calls import refusal
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, RIVAL, USER, World

SPOIL = "UPDATE resource_counts SET amount = amount + 7 WHERE resource_type IN (0, 10)"
PICTURE = "SELECT string_agg(c::text, ',' ORDER BY c::text) FROM resource_counts c"


@pytest.mark.parametrize("by", [ADMIN, DOMAIN_ADMIN])
def test_a_domain_is_counted_anew(world: World, by: str) -> None:
    """Accounts in and below it and all domains above are right again; storage is answered in GiB."""
    customers = world.id_of("domains", "customers")
    world.client(by).call("updateResourceCount", domainid=customers)
    before = world.scalar(PICTURE)
    world.change(
        f"{SPOIL} AND owner_kind = 'account' AND owner_id IN (SELECT a.id FROM accounts a JOIN domains d"
        " ON d.id = a.domain_id WHERE d.path LIKE 'ROOT/customers%')"
    )
    rows = world.client(by).call("updateResourceCount", domainid=customers)["resourcecount"]
    assert world.scalar(PICTURE) == before
    counts = {row["resourcetypename"]: row["resourcecount"] for row in rows}
    assert set(counts) == {"user_vm", "volume", "cpu", "memory", "primary_storage"}
    shown = world.rows("listDomains", id=customers)[0]
    assert (counts["user_vm"], counts["primary_storage"]) == (shown["vmtotal"], shown["primarystoragetotal"])


def test_one_account_is_counted_anew(world: World) -> None:
    """With all domains above it."""
    rival, domain = world.id_of("accounts", "rival"), world.id_of("domains", "rivals")
    world.change(
        f"{SPOIL} AND owner_kind = 'account' AND owner_id = (SELECT id FROM accounts WHERE uuid = :id)", id=rival
    )
    sent: dict[str, Any] = {"account": "rival", "domainid": domain, "resourcetype": 0}
    (row,) = world.client().call("updateResourceCount", **sent)["resourcecount"]
    assert (row["account"], row["resourcetype"], row["resourcecount"]) == ("rival", "0", 1)
    for wrong, code in (({"resourcetype": 6}, 431), ({"account": "nobody"}, 431)):
        assert refusal(world.client().get("updateResourceCount", **{**sent, **wrong}))[0] == code
    assert refusal(world.client(DOMAIN_ADMIN).get("updateResourceCount", **sent))[0] == 431


@pytest.mark.parametrize("command", ["updateResourceLimit", "listResourceLimits"])
def test_limits_by_tag_are_refused(world: World, command: str) -> None:
    """They are not kept, so that nobody sets the plain limit by mistake."""
    sent = {
        "resourcetype": 0,
        "max": 1,
        "account": "acme",
        "domainid": world.id_of("domains", "acme"),
        "tag": "gpu",
    }
    code, text = refusal(world.client().get(command, **sent))
    assert (code, "tag" in text) == (431, True)


def test_settings_are_taken_back(world: World) -> None:
    """The next wider value holds again: a cluster's gives way to the global one, that to the default."""
    cluster = world.id_of("clusters", "a-1")
    client = world.client()
    for name, default in (
        ("cluster.cpu.allocated.capacity.disablethreshold", "0.85"),
        ("cpu.overprovisioning.factor", "1.0"),
    ):
        own = client.call(
            "updateConfiguration", name=name, value="0.5" if "threshold" in name else "3", clusterid=cluster
        )
        assert own["configuration"]["value"] != default
        back = client.call("resetConfiguration", name=name, clusterid=cluster)["configuration"]
        assert float(back["value"]) == float(default)
    client.call("updateConfiguration", name="expunge.delay", value="7")
    again = client.call("resetConfiguration", name="expunge.delay")["configuration"]
    assert again["value"] == again["defaultvalue"]
    assert refusal(client.get("resetConfiguration", name="nonsense"))[0] == 431


def test_domain_admins_set_what_is_their_accounts(world: World) -> None:
    """For accounts below them, and nothing wider."""
    sent = {"name": "api.allowed.source.cidr.list", "value": "127.0.0.0/8"}
    acme, rival = world.id_of("accounts", "acme"), world.id_of("accounts", "rival")
    assert world.client(DOMAIN_ADMIN).get("updateConfiguration", **sent, accountid=acme).status == 200
    for more, code in (({"accountid": rival}, 431), ({}, 531)):
        assert refusal(world.client(DOMAIN_ADMIN).get("updateConfiguration", **sent, **more))[0] == code


def test_events_are_archived_and_deleted_by_their_owners(world: World) -> None:
    """By id, type or date; what others did stays out of reach."""
    ids = [row["id"] for row in world.rows("listEvents", USER)]
    for command in ("archiveEvents", "deleteEvents"):
        assert world.client(USER).get(command, ids="").status == 431
        assert refusal(world.client(RIVAL).get(command, ids=ids[0]))[0] == 431
        assert refusal(world.client(NEIGHBOUR).get(command, ids=ids[0]))[0] == 431
        code, text = refusal(world.client(USER).get(command))
        assert (code, "ids" in text) == (431, True)
    assert world.client(USER).call("archiveEvents", ids=ids[0]) == {"success": True}
    assert ids[0] not in [row["id"] for row in world.rows("listEvents", USER)]
    assert ids[0] in [row["id"] for row in world.rows("listEvents", USER, archived="true")]
    others = world.scalar(
        "SELECT count(*) FROM events e JOIN accounts a ON a.id = e.account_id WHERE a.name <> 'acme'"
    )
    world.client(USER).call("deleteEvents", startdate="2000-01-01", enddate="2999-01-01")
    assert world.rows("listEvents", USER, archived="true") == []
    now = world.scalar(
        "SELECT count(*) FROM events e JOIN accounts a ON a.id = e.account_id WHERE a.name <> 'acme'"
    )
    assert now == others
