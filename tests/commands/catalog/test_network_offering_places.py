"""Network offerings for some domains and zones."""

from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, RIVAL, USER, World

OFFERING = {"guestiptype": "Isolated", "traffictype": "Guest", "enable": True}


def test_a_network_offering_is_for_the_domains_and_zones_that_it_names(owned_world: World) -> None:
    """Accounts of other domains neither see nor use it; a domain below another one adds nothing."""
    world = owned_world
    root, zone = world.id_of("domains", "ROOT"), world.id_of("zones", "small")
    (acme,) = world.rows("listAccounts", name="acme", listall=True)
    (rival,) = world.rows("listAccounts", name="rival", listall=True)
    assert acme["domainid"] != rival["domainid"]
    made = change(world, "createNetworkOffering", ADMIN, name="kept", domainid=acme["domainid"], **OFFERING)
    assert made["domainid"] == acme["domainid"]
    assert made["id"] in {row["id"] for row in world.rows("listNetworkOfferings", USER)}
    assert made["id"] not in {row["id"] for row in world.rows("listNetworkOfferings", RIVAL)}
    network = {"displaytext": "n", "zoneid": zone, "networkofferingid": made["id"]}
    assert refusal(world, "createNetwork", RIVAL, name="no", **network).status == 431
    theirs = {"account": "rival", "domainid": rival["domainid"]}
    assert refusal(world, "createNetwork", ADMIN, name="no", **network, **theirs).status == 531
    both = f"{root},{acme['domainid']}"
    assert change(world, "updateNetworkOffering", ADMIN, id=made["id"], domainid=both)["domainid"] == root
    assert "domainid" not in change(world, "updateNetworkOffering", ADMIN, id=made["id"], domainid="public")
    assert change(world, "updateNetworkOffering", ADMIN, id=made["id"], zoneid=zone)["zoneid"] == zone
    assert refusal(world, "updateNetworkOffering", ADMIN, id=made["id"], zoneid="nowhere").status == 431


def test_a_tag_chooses_the_physical_network(fresh_world: World) -> None:
    """Among several physical networks it is the one with the tag; the tag of a single one does not matter."""
    world = fresh_world
    zone = world.id_of("zones", "small")
    made = change(world, "createNetworkOffering", ADMIN, name="tagged", tags="fast", **OFFERING)
    assert (made["tags"], world.names("listNetworkOfferings", tags="fast", istagged=True)) == ("fast", ["tagged"])
    network = {"displaytext": "n", "zoneid": zone, "networkofferingid": made["id"]}
    alone = change(world, "createNetwork", ADMIN, name="alone", **network)
    world.change(
        "INSERT INTO physical_networks (name, zone_id, vlan_range, tags)"
        " SELECT 'slow', id, '900-909', ARRAY['slow'] FROM zones WHERE name = 'small'"
    )
    refused = refusal(world, "createNetwork", ADMIN, name="none", **network)
    assert (refused.status, "tag fast" in str(refused)) == (431, True)
    change(world, "updateNetworkOffering", ADMIN, id=made["id"], tags="slow")
    other = change(world, "createNetwork", ADMIN, name="other", **network)
    assert other["physicalnetworkid"] != alone["physicalnetworkid"]
    assert "tags" not in change(world, "updateNetworkOffering", ADMIN, id=made["id"], tags="")
