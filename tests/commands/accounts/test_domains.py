"""Domains: made, renamed with all paths below, and deleted with all that is in them."""

import pytest

from tests.support.api.account_calls import can_log_in, done, keyed, make_account, new_name, refusal
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, RIVAL, World


def make_domain(world: World, by: str = ADMIN, **more: object) -> dict[str, object]:
    """A new domain."""
    return dict(world.client(by).call("createDomain", **{"name": new_name("domain"), **more})["domain"])


def test_a_domain_is_made_below_another(world: World) -> None:
    """Without a parent it is the caller's own; the path says where it is."""
    top = make_domain(world, networkdomain="d.example")
    assert (top["path"], top["level"], top["networkdomain"]) == (f"ROOT/{top['name']}", 1, "d.example")
    below = make_domain(world, DOMAIN_ADMIN)
    assert (below["path"], below["parentdomainname"]) == (f"ROOT/customers/{below['name']}", "customers")


@pytest.mark.parametrize("name", ["customers", "CUSTOMERS", "a/b", " x", ""])
def test_what_a_domain_cannot_be_called(world: World, name: str) -> None:
    """Names are unique beside each other, and stand in paths."""
    code, text = refusal(world.client().get("createDomain", name=name))
    assert (code, "name" in text) == (431, True)


def test_renaming_changes_all_paths_below(world: World) -> None:
    """People below log in by the new path from then on."""
    top = make_domain(world)
    below = make_domain(world, parentdomainid=top["id"])
    made = make_account(world, domainid=below["id"])
    new = new_name("renamed")
    assert world.client().call("updateDomain", id=top["id"], name=new)["domain"]["path"] == f"ROOT/{new}"
    assert can_log_in(world, made["name"], f"{new}/{below['name']}")
    assert not can_log_in(world, made["name"], f"{top['name']}/{below['name']}")
    assert refusal(world.client().get("updateDomain", id=top["id"], name="customers"))[0] == 431


def test_a_domain_in_use_needs_cleanup(world: World) -> None:
    """Without cleanup what is in it is named and nothing changes; with it all of it is gone at once."""
    top = make_domain(world)
    below = make_domain(world, parentdomainid=top["id"])
    made = make_account(world, domainid=below["id"])
    client = keyed(world, made)
    code, text = refusal(world.client().get("deleteDomain", id=top["id"]))
    assert (code, "1 domains" in text, client.get("listZones").status) == (536, True, 200)
    assert done(world, world.client().call("deleteDomain", id=top["id"], cleanup="true")) == {"success": True}
    assert client.get("listZones").status == 401
    for gone in (top, below):
        assert world.names("listDomains", id=gone["id"]) == []
        assert refusal(world.client().get("deleteDomain", id=gone["id"], cleanup="true"))[0] == 431
    code, text = refusal(world.client().get("createDomain", name="x", parentdomainid=top["id"]))
    assert (code, "parentdomainid" in text) == (431, True)
    assert make_domain(world, name=top["name"])["path"] == top["path"]


@pytest.mark.parametrize(("by", "domain"), [(ADMIN, "ROOT"), (DOMAIN_ADMIN, "customers"), (DOMAIN_ADMIN, "rivals")])
def test_root_own_and_foreign_domains_cannot_be_deleted(world: World, by: str, domain: str) -> None:
    """Neither ROOT, nor the own domain, nor one of others."""
    answer = world.client(by).get("deleteDomain", id=world.id_of("domains", domain), cleanup="true")
    assert refusal(answer)[0] in (431, 531)


def test_a_domains_virtual_machines_are_expunged_by_jobs(world: World) -> None:
    """The call's job is open until they are gone; their owner is gone at once."""
    client = world.client(RIVAL)
    domain = world.id_of("domains", "rivals")
    answer = world.client().call("deleteDomain", id=domain, cleanup="true")
    assert client.get("listZones").status == 401
    job = world.client().call("queryAsyncJobResult", jobid=answer["jobid"])
    assert (job["jobstatus"], job["jobinstanceid"]) == (0, domain)
    made = "SELECT count(*) FROM async_jobs j JOIN virtual_machines v ON v.id = j.instance_id"
    assert world.scalar(f"{made} WHERE v.name = 'rival-1' AND j.params ->> 'expunge' = 'true'") == 1
