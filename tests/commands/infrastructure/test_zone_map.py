"""getZoneMap: one number for each host of a zone."""

from tests.support.zones.world import World

NOT_MEASURED = "-1"


def clusters_of(world: World, **parameters: object) -> dict[str, dict[str, list[str]]]:
    """Return the columns of each cluster by its name, each as a list."""
    found = world.client().call("getZoneMap", zoneid=world.id_of("zones", "small"), **parameters)["zonemap"]
    return {
        row["name"]: {
            "hosts": row["hosts"],
            "states": list(row["states"]),
            **{name: row[name].split(",") for name in ("shares", "vms") if name in row},
        }
        for row in found["clusters"]
    }


def test_it_says_of_each_host_what_the_list_says(fresh_world: World) -> None:
    """Each live host of the zone stands once in its cluster, with its share and state, in one order."""
    world = fresh_world
    first, second, *_ = (row["name"] for row in world.rows("listHosts", clusterid=world.id_of("clusters", "a-1")))
    world.change(f"UPDATE hosts SET state = 'Down' WHERE name = '{first}'")
    world.change(f"UPDATE hosts SET resource_state = 'Disabled' WHERE name = '{second}'")
    listed = {row["name"]: row for row in world.rows("listHosts", zoneid=world.id_of("zones", "small"))}
    for by, field in (
        ("memoryallocated", "memoryallocatedpercentage"),
        ("cpuallocated", "cpuallocatedwithoverprovisioning"),
    ):
        found = clusters_of(world, by=by)
        shares = {
            name: int(share)
            for columns in found.values()
            for name, share in zip(columns["hosts"], columns["shares"], strict=True)
        }
        assert shares == {name: round(float(row[field].rstrip("%"))) for name, row in listed.items()}
    cluster = found["a-1"]
    states = dict(zip(cluster["hosts"], cluster["states"], strict=True))
    assert (states.pop(first), states.pop(second), {*states.values()}) == ("l", "d", {"u"})
    assert {*clusters_of(world, by="cpuused")["a-1"]["shares"]} == {NOT_MEASURED}
    assert "vms" not in cluster


def test_it_counts_the_vms_of_an_owner_or_a_deployment(fresh_world: World) -> None:
    """The counts of all hosts are those of the lists; an owner outside the caller's reach is rejected."""
    world = fresh_world
    world.deploy("counted-1", "acme", "acme")
    world.deploy("counted-2", "acme", "acme")
    of_acme = "SELECT v.id FROM virtual_machines v JOIN accounts a ON a.id = v.account_id WHERE a.name = 'acme'"
    world.change(f"UPDATE virtual_machines SET host_id = (SELECT min(id) FROM hosts) WHERE id IN ({of_acme})")
    named = {"account": "acme", "domainid": world.id_of("domains", "acme")}
    found = clusters_of(world, **named)
    counts = {
        name: int(count)
        for columns in found.values()
        for name, count in zip(columns["hosts"], columns["vms"], strict=True)
        if count != "0"
    }
    vms = world.scalar(f"SELECT count(*) FROM ({of_acme} AND v.removed IS NULL) found")
    assert counts == {world.scalar("SELECT name FROM hosts ORDER BY id LIMIT 1"): vms}
    assert vms == 2
    deployment = world.scalar("SELECT uuid FROM deployments ORDER BY id LIMIT 1")
    vms = world.scalar(
        "SELECT count(*) FROM virtual_machines v JOIN deployments d ON d.id = v.deployment_id"
        f" WHERE d.uuid = '{deployment}' AND v.host_id IS NOT NULL"
    )
    found = clusters_of(world, deploymentid=deployment)
    assert sum(int(count) for columns in found.values() for count in columns["vms"]) == vms == 1
