"""What networks stand on: physical networks, traffic types, providers, offerings and address ranges."""

from typing import Any

import pytest

from tests.support.zones.infrastructure_calls import Cloud


@pytest.fixture(scope="module")
def zone(cloud: Cloud) -> dict[str, Any]:
    """An Advanced zone with a physical network that carries public traffic."""
    zone = cloud.zone()
    network = cloud.make("createPhysicalNetwork", zoneid=zone["id"], name="wires", vlan="100-199,300", tags="fast")
    cloud.make("addTrafficType", physicalnetworkid=network["id"], traffictype="public", kvmnetworklabel="cloudbr1")
    return {**zone, "physical": network}


def test_a_physical_network_comes_with_its_providers(cloud: Cloud, zone: dict[str, Any]) -> None:
    """It starts disabled; providers are configured, then enabled, as clients do that build a zone."""
    network = zone["physical"]
    assert (network["state"], network["vlan"], network["isolationmethods"]) == ("Disabled", "100-199,300", "VLAN")
    assert (network["broadcastdomainrange"], network["tags"], network["zoneid"]) == ("ZONE", "fast", zone["id"])
    enabled = cloud.make("updatePhysicalNetwork", id=network["id"], state="Enabled", vlan="200-299", tags="")
    assert (enabled["state"], enabled["vlan"], "tags" in enabled) == ("Enabled", "200-299", False)
    where = {"physicalnetworkid": network["id"]}
    (router,) = cloud.rows("listNetworkServiceProviders", name="VirtualRouter", state="Disabled", **where)
    assert "Dhcp" in router["servicelist"]
    change = {"id": router["id"], "state": "Enabled"}
    assert "must be configured first" in cloud.refused("updateNetworkServiceProvider", **change).errortext
    (element,) = cloud.rows("listVirtualRouterElements", nspid=router["id"])
    assert cloud.make("configureVirtualRouterElement", id=element["id"], enabled="True")["enabled"] is True
    assert cloud.make("updateNetworkServiceProvider", **change)["state"] == "Enabled"
    some = cloud.make("updateNetworkServiceProvider", id=router["id"], servicelist="Dns,Dhcp")
    assert (some["servicelist"], some["state"]) == (["Dns", "Dhcp"], "Enabled")
    wrong = cloud.refused("updateNetworkServiceProvider", id=router["id"], servicelist="Dns,Coffee")
    assert "provider VirtualRouter has the services Dhcp, Dns," in wrong.errortext
    (listed,) = cloud.rows("listNetworkServiceProviders", name="VirtualRouter", **where)
    assert listed["servicelist"] == ["Dns", "Dhcp"]
    added = cloud.make("addNetworkServiceProvider", name="SecurityGroupProvider", **where)
    assert added["servicelist"] == ["SecurityGroup"]
    assert (
        "a provider has this name"
        in cloud.refused("addNetworkServiceProvider", name=added["name"], **where).errortext
    )
    cloud.done("deleteNetworkServiceProvider", id=added["id"])
    for name in ("listNetworkServiceProviders", "listInternalLoadBalancerElements"):
        assert added["id"] not in {row["id"] for row in cloud.rows(name)}


def test_traffic_types_name_bridges(cloud: Cloud, zone: dict[str, Any]) -> None:
    """A physical network carries each type once; labels change; the type goes."""
    where = {"physicalnetworkid": zone["physical"]["id"]}
    answer = cloud.client().call("addTrafficType", traffictype="Guest", xennetworklabel="guest", vlan="7", **where)
    guest = cloud.rows("listTrafficTypes", **where)[-1]
    assert (answer["id"], guest["traffictype"], guest["xennetworklabel"]) == (guest["id"], "Guest", "guest")
    assert (guest["vlan"], guest["isolationmethods"]) == ("7", "VLAN")
    changed = cloud.make("updateTrafficType", id=guest["id"], kvmnetworklabel="br0", xennetworklabel="")
    assert (changed["kvmnetworklabel"], "xennetworklabel" in changed) == ("br0", False)
    assert "has this name already" in cloud.refused("addTrafficType", traffictype="guest", **where).errortext
    cloud.done("deleteTrafficType", id=guest["id"])


def test_public_addresses_keep_their_network(cloud: Cloud, zone: dict[str, Any]) -> None:
    """A public range overlaps no other, and keeps traffic type, physical network and zone alive."""
    given = {"zoneid": zone["id"], "forvirtualnetwork": "true", "gateway": "192.0.2.1", "netmask": "255.255.255.0"}
    made = cloud.make("createVlanIpRange", startip="192.0.2.10", endip="192.0.2.20", vlan="vlan://50", **given)
    assert (made["vlan"], made["forvirtualnetwork"], made["cidr"]) == ("vlan://50", True, "192.0.2.0/24")
    assert made["physicalnetworkid"] == zone["physical"]["id"]
    assert cloud.rows("listVlanIpRanges", zoneid=zone["id"], forvirtualnetwork="true", vlan="50") == [made]
    assert "overlaps one from" in cloud.refused("createVlanIpRange", startip="192.0.2.20", **given).errortext
    assert cloud.refused("deletePhysicalNetwork", id=zone["physical"]["id"]).status == 536
    public = cloud.rows("listTrafficTypes", physicalnetworkid=zone["physical"]["id"])[0]
    assert cloud.refused("deleteTrafficType", id=public["id"]).status == 536
    assert "physical networks, public address ranges" in cloud.refused("deleteZone", id=zone["id"]).errortext
    cloud.done("deleteVlanIpRange", id=made["id"])


def test_public_addresses_come_before_or_after_public_traffic(cloud: Cloud, zone: dict[str, Any]) -> None:
    """A range that names its physical network needs no traffic type; without a name there must be one to choose."""
    other = cloud.zone(name="without-traffic")
    silent = cloud.make("createPhysicalNetwork", zoneid=other["id"], name="silent")
    given = {
        "forvirtualnetwork": "true",
        "gateway": "192.0.2.1",
        "netmask": "255.255.255.0",
        "startip": "192.0.2.2",
    }
    assert "has traffic type Public" in cloud.refused("createVlanIpRange", zoneid=other["id"], **given).errortext
    foreign = zone["physical"]["id"]
    refused = cloud.refused("createVlanIpRange", zoneid=other["id"], physicalnetworkid=foreign, **given)
    assert "is not in zone without-traffic" in refused.errortext
    made = cloud.make("createVlanIpRange", zoneid=other["id"], physicalnetworkid=silent["id"], **given)
    assert made["physicalnetworkid"] == silent["id"]
    assert cloud.refused("deletePhysicalNetwork", id=silent["id"]).status == 536
    cloud.done("deleteVlanIpRange", id=made["id"])
    cloud.done("deletePhysicalNetwork", id=silent["id"])
    cloud.done("deleteZone", id=other["id"])


def test_ranges_are_added_to_shared_networks(cloud: Cloud) -> None:
    """Gateway, netmask and VLAN are the network's; a range is deleted only while nobody has an address of it."""
    network, zone = cloud.id_of("networks", "guests"), cloud.id_of("zones", "small")
    cloud.change("UPDATE networks SET netmask = '255.255.0.0' WHERE uuid = :id", id=network)
    made = cloud.make("createVlanIpRange", networkid=network, startip="10.1.0.2", endip="10.1.0.9")
    assert (made["networkid"], made["zoneid"], made["forvirtualnetwork"]) == (network, zone, False)
    assert (made["gateway"], made["vlan"]) == ("10.1.0.1", "vlan://100")
    assert "overlaps" in cloud.refused("createVlanIpRange", networkid=network, startip="10.1.0.9").errortext
    nic = (
        "INSERT INTO nics (vm_id, network_id, ip_range_id, ip_address, mac_address, device_id, is_default)"
        " SELECT -1, network_id, id, start_ip, 'x', 0, true FROM ip_ranges WHERE uuid = :id"
    )
    cloud.change(nic, id=made["id"])
    failure = cloud.refused("deleteVlanIpRange", id=made["id"])
    assert (failure.status, failure.cserrorcode) == (536, 4375)
    cloud.change("DELETE FROM nics WHERE vm_id = -1")
    cloud.done("deleteVlanIpRange", id=made["id"])


def test_a_basic_zone_has_one_physical_network(cloud: Cloud) -> None:
    """With the provider of security groups, and without public addresses."""
    zone = cloud.zone(networktype="Basic")
    assert zone["securitygroupsenabled"] is True
    network = cloud.make("createPhysicalNetwork", zoneid=zone["id"], name="wires")
    names = {row["name"] for row in cloud.rows("listNetworkServiceProviders", physicalnetworkid=network["id"])}
    assert "SecurityGroupProvider" in names
    assert "one physical network" in cloud.refused("createPhysicalNetwork", zoneid=zone["id"], name="b").errortext
    public = {"zoneid": zone["id"], "startip": "192.0.2.2", "gateway": "192.0.2.1", "netmask": "255.255.255.0"}
    assert "no public addresses" in cloud.refused("createVlanIpRange", forvirtualnetwork="true", **public).errortext
    cloud.done("deletePhysicalNetwork", id=network["id"])
    cloud.done("deleteZone", id=zone["id"])


def test_a_network_offering_lives_and_goes(cloud: Cloud) -> None:
    """It says its services with their providers and capabilities; one that a network has stays."""
    made = cloud.make(
        "createNetworkOffering",
        name="own",
        guestiptype="shared",
        traffictype="GUEST",
        supportedservices="dhcp,UserData",
        networkrate=200,
        maxconnections=1000,
        serviceofferingid=cloud.rows("listServiceOfferings", name="Small")[0]["id"],
        **{"serviceproviderlist[0].service": "dhcp", "serviceproviderlist[0].provider": "virtualrouter"},
        **{
            "servicecapabilitylist[0].service": "Dhcp",
            "servicecapabilitylist[0].capabilitytype": "DhcpAccrossMultipleSubnets",
            "servicecapabilitylist[0].capabilityvalue": "true",
        },
    )
    assert (made["state"], made["guestiptype"], made["specifyipranges"]) == ("Disabled", "Shared", True)
    assert made["serviceofferingid"] == cloud.rows("listServiceOfferings", name="Small")[0]["id"]
    assert made["maxconnections"] == 1000
    assert cloud.make("updateNetworkOffering", id=made["id"], maxconnections=50)["maxconnections"] == 50
    dhcp, user_data = made["service"]
    assert dhcp["provider"] == [{"name": "VirtualRouter"}]
    assert dhcp["capability"] == [{"name": "DhcpAccrossMultipleSubnets", "value": "true"}]
    assert user_data == {"name": "UserData"}
    changed = cloud.make("updateNetworkOffering", id=made["id"], state="Enabled", displaytext="Own")
    assert (changed["state"], changed["displaytext"]) == ("Enabled", "Own")
    cloud.done("deleteNetworkOffering", id=made["id"])
    used = cloud.id_of("network_offerings", "DefaultSharedNetworkOffering")
    assert "is a default offering" in cloud.refused("deleteNetworkOffering", id=used).errortext
    cloud.change("UPDATE network_offerings SET is_default = false WHERE uuid = :id", id=used)
    assert cloud.refused("deleteNetworkOffering", id=used).status == 536
    cloud.change("UPDATE network_offerings SET is_default = true WHERE uuid = :id", id=used)


OFFERING = {"name": "n", "guestiptype": "Isolated", "traffictype": "Guest"}
RANGE = {"startip": "192.0.2.10", "gateway": "192.0.2.1", "netmask": "255.255.255.0"}


@pytest.mark.parametrize(
    ("command", "parameters", "said"),
    [
        ("createPhysicalNetwork", {"name": "p", "vlan": "200-100"}, "parameter vlan"),
        ("createPhysicalNetwork", {"name": "p", "vlan": "1-5000"}, "ids from 0 to 4095"),
        ("createPhysicalNetwork", {"name": "p", "isolationmethods": "MAGIC"}, "parameter isolationmethods"),
        ("createPhysicalNetwork", {"name": ""}, "name"),
        ("createVlanIpRange", {**RANGE, "forvirtualnetwork": "true", "startip": "1.51.100.1"}, "parameter startip"),
        ("createVlanIpRange", {**RANGE, "forvirtualnetwork": "true", "endip": "192.0.2.9"}, "must not be below"),
        ("createVlanIpRange", {**RANGE, "forvirtualnetwork": "true", "vlan": "blue"}, "parameter vlan"),
        ("createVlanIpRange", {**RANGE, "forvirtualnetwork": "true", "gateway": ""}, "gateway"),
        ("createVlanIpRange", {**RANGE, "forvirtualnetwork": "true", "startipv6": "::1"}, "parameter startipv6"),
        ("createVlanIpRange", RANGE, "has 0 guest networks"),
        ("createNetworkOffering", {**OFFERING, "supportedservices": "Dhcp,Magic"}, "parameter supportedservices"),
        ("createNetworkOffering", {**OFFERING, "serviceproviderlist[0].service": "Dhcp"}, "not among supported"),
        (
            "createNetworkOffering",
            {**OFFERING, "supportedservices": "Dhcp", "serviceproviderlist[0].service": "Dhcp",
             "serviceproviderlist[0].provider": "Netscaler"},
            "the providers of Dhcp are",
        ),
        ("createNetworkOffering", {**OFFERING, "guestiptype": "Shared", "specifyipranges": "false"}, "need spec"),
        ("createNetworkOffering", {**OFFERING, "forvpc": "true"}, "parameter forvpc: it is not supported"),
        ("createNetworkOffering", {**OFFERING, "name": "DefaultL2NetworkOffering"}, "another network offering"),
    ],
)  # fmt: skip
def test_the_ground_is_checked(
    cloud: Cloud, zone: dict[str, Any], command: str, parameters: dict[str, str], said: str
) -> None:
    """A value that breaks a rule is refused with parameter and rule, and changes nothing."""
    failure = cloud.refused(
        command, **{"zoneid": zone["id"], **parameters} if "Offering" not in command else parameters
    )
    assert (failure.status, said in failure.errortext) == (431, True), failure.errortext
