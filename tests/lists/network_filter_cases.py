"""Cases of the filters of what networks stand on (see ``filter_cases``)."""

from tests.lists.filter_cases import Case, Cases, equal, inside, of_name, word
from tests.support.zones.world import World


def ground(world: World) -> dict[str, Cases]:
    """Physical networks, traffic types, providers, address ranges."""
    physical = world.id_of("physical_networks", "far-wires")
    zone, pod = world.id_of("zones", "for-rivals"), world.id_of("pods", "pod-a")
    network = world.id_of("networks", "customers-wide")
    public = world.scalar("SELECT uuid::text FROM ip_ranges WHERE network_id IS NULL")
    number, zone_number = world.scalar("SELECT ARRAY[id, zone_id] FROM physical_networks WHERE name = 'far-wires'")
    return {
        "listPhysicalNetworks": {
            "id": equal("id", physical),
            "name": equal("name", "FAR-wires", "far-wires"),
            "zoneid": equal("zoneid", zone),
            "keyword": word("wire", "name"),
        },
        "listTrafficTypes": {
            "physicalnetworkid": equal("physicalnetworkid", physical),
            "keyword": word("pub", "traffictype"),
        },
        "listNetworkServiceProviders": {
            "physicalnetworkid": equal("physicalnetworkid", physical),
            "name": equal("name", "virtualrouter", "VirtualRouter"),
            "state": equal("state", "enabled", "Enabled"),
            "keyword": word("vpc", "name"),
        },
        "listVirtualRouterElements": elements(world, "VpcVirtualRouter"),
        "listInternalLoadBalancerElements": {**elements(world, "InternalLbVm"), "keyword": Case("vm", bool, False)},
        "listSupportedNetworkServices": {
            "service": of_name("Dhcp", "dhcp"),
            "provider": inside("provider", "name", "ConfigDrive"),
            "keyword": word("nat", "name"),
        },
        "listDedicatedGuestVlanRanges": {
            "id": equal("id", world.scalar("SELECT uuid::text FROM dedicated_vlan_ranges WHERE first_vlan = 4010")),
            "guestvlanrange": equal("guestvlanrange", "4000-4009"),
            "physicalnetworkid": equal("physicalnetworkid", physical, shown=number),
            "zoneid": equal("zoneid", zone, shown=zone_number),
            "domainid": equal("domainid", world.id_of("domains", "rivals")),
            "keyword": word("4010", "guestvlanrange"),
        },
        "listVlanIpRanges": {
            "id": equal("id", public),
            "zoneid": equal("zoneid", zone),
            "networkid": equal("networkid", network),
            "podid": equal("podid", pod),
            "physicalnetworkid": equal("physicalnetworkid", physical),
            "vlan": equal("vlan", "50", "vlan://50"),
            "forvirtualnetwork": equal("forvirtualnetwork", "true", shown=True),
            "keyword": word("192.0.2", "startip"),
        },
    }


def dedications(world: World) -> dict[str, Cases]:
    """Places that are dedicated: one to the account rival, another to the domain customers."""
    group = world.id_of("affinity_groups", "DedicatedGrp-rival")
    places = {"zone": "for-rivals", "pod": "far", "cluster": "far-1", "host": "far-host"}
    return {
        f"listDedicated{word.capitalize()}s": {
            f"{word}id": equal(f"{word}id", world.id_of(f"{word}s", name)),
            "domainid": equal("domainid", world.id_of("domains", "rivals")),
            "account": of_name(name, "rival", f"{word}name"),
            "affinitygroupid": equal("affinitygroupid", group),
            "keyword": word_of(word),
        }
        for word, name in places.items()
    }


def word_of(place: str) -> Case:
    """A part of a place's name that only one of the two has."""
    return word({"zone": "rival", "pod": "-2", "cluster": "-1", "host": "-2"}[place], f"{place}name")


def elements(world: World, name: str) -> Cases:
    """Those of two providers of this name, on two physical networks; one is enabled."""
    of_name_ids = set(
        world.scalar("SELECT array_agg(uuid::text) FROM network_service_providers WHERE name = :name", name=name)
    )
    one = world.scalar(
        "SELECT uuid::text FROM network_service_providers WHERE name = :name AND element_enabled", name=name
    )
    return {
        "id": equal("id", one),
        "nspid": equal("nspid", one),
        "enabled": equal("enabled", "true", shown=True),
        "keyword": Case(name, lambda row: row["id"] in of_name_ids),
    }
