"""Guest networks: every type made as csbench and Terraform make it, changed, used, and deleted when unused."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.api.api_client import ApiFailure
from tests.support.api.async_calls import change, refusal
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, NEIGHBOUR, USER, World

SHARED, ISOLATED, L2 = (
    "DefaultSharedNetworkOffering",
    "DefaultIsolatedNetworkOfferingWithSourceNatService",
    "DefaultL2NetworkOffering",
)
RANGE = {"gateway": "10.60.0.1", "netmask": "255.255.252.0", "startip": "10.60.0.2", "endip": "10.60.3.254"}


def requested(world: World, offering: str, name: str, **more: object) -> dict[str, object]:
    """Parameters of createNetwork."""
    return {
        "name": name,
        "zoneid": world.id_of("zones", "small"),
        "networkofferingid": world.id_of("network_offerings", offering),
        **more,
    }


def make(world: World, offering: str, name: str, by: str = USER, **more: object) -> dict[str, object]:
    """A fresh network."""
    return change(world, "createNetwork", by, **requested(world, offering, name, **more))


def test_csbench_makes_shared_networks_of_a_domain(owned_world: World) -> None:
    """Its call, to the letter; the domain's VMs get addresses of it, and it is not deleted under them."""
    world = owned_world
    made = make(
        world,
        SHARED,
        "csbench",
        ADMIN,
        displaytext="csbench",
        domainid=world.id_of("domains", "acme"),
        acltype="Domain",
        vlan="700",
        bypassvlanoverlapcheck="true",
        **RANGE,
    )
    assert (made["type"], made["acltype"], made["domain"], made["vlan"]) == ("Shared", "Domain", "acme", "700")
    assert (made["cidr"], made["broadcasturi"], "account" in made) == ("10.60.0.0/22", "vlan://700", False)
    assert world.rows("listNetworks", ADMIN, id=made["id"], listall="true") == [made]
    assert world.names("listNetworks", USER, id=made["id"]) == ["csbench"]
    world.deploy("csbench-vm", "acme", "acme", networkids=made["id"])
    (vm,) = world.rows("listVirtualMachines", USER, name="csbench-vm")
    assert vm["ipaddress"] == "10.60.0.2"
    failure = refusal(world, "deleteNetwork", ADMIN, id=made["id"])
    assert (failure.status, failure.cserrorcode, vm["id"] in failure.errortext) == (536, 4375, True)
    again = requested(world, SHARED, "same vlan", vlan="700", **RANGE)
    assert "csbench" in refusal(world, "createNetwork", ADMIN, **again).errortext
    change(world, "createNetwork", ADMIN, **again, bypassvlanoverlapcheck="true")


def test_users_make_isolated_and_l2_networks(owned_world: World) -> None:
    """With a VLAN of the physical network each, the default CIDR or their own; L2 ones without addresses."""
    world = owned_world
    plain, own = (
        make(world, ISOLATED, "plain"),
        make(world, ISOLATED, "own", gateway="10.9.8.1", netmask="255.255.255.0"),
    )
    flat = make(world, L2, "flat")
    assert (plain["cidr"], plain["gateway"], plain["account"]) == ("10.1.1.0/24", "10.1.1.1", "acme")
    assert (own["cidr"], own["type"], flat["type"], "cidr" in flat) == ("10.9.8.0/24", "Isolated", "L2", False)
    vlans = [
        row["vlan"]
        for row in world.rows("listNetworks", ADMIN, listall="true")
        if row["name"] in ("plain", "own", "flat")
    ]
    assert len(set(vlans)) == 3
    assert all(100 < int(vlan) < 200 for vlan in vlans)
    world.deploy("on-own", "acme", "acme", networkids=f"{own['id']},{flat['id']}")
    (vm,) = world.rows("listVirtualMachines", USER, name="on-own")
    assert vm["ipaddress"] == "10.9.8.2"
    moon = make(world, L2, "of the moon", projectid=world.id_of("projects", "moon"))
    assert moon["project"] == "moon"
    assert world.names("listNetworks", DOMAIN_ADMIN, id=plain["id"]) == ["plain"]
    for command in ("listNetworks", "deleteNetwork"):
        assert refusal(world, command, NEIGHBOUR, id=plain["id"]).status == 431
    assert change(world, "deleteNetwork", DOMAIN_ADMIN, id=plain["id"]) == {"success": True}
    assert refusal(world, "deleteNetwork", USER, id=plain["id"]).status == 431
    events = [row for row in world.rows("listEvents", USER) if "plain" in row["description"]]
    kinds = {row["type"] for row in events if row["type"].startswith("NETWORK.")}
    assert kinds == {"NETWORK.CREATE", "NETWORK.DELETE"}


def test_a_network_has_dns_servers_and_packet_sizes_of_its_own(owned_world: World) -> None:
    """Given, changed and taken away again; without its own servers a network shows its zone's."""
    world, servers = owned_world, ("dns1", "dns2")
    zone = world.rows("listZones", name="small")[0]
    made = make(world, ISOLATED, "served", dns1="192.0.2.53", dns2="192.0.2.54", publicmtu=1500, privatemtu=9000)
    assert [made.get(name) for name in servers] == ["192.0.2.53", "192.0.2.54"]
    assert (made["publicmtu"], made["privatemtu"]) == (1500, 9000)
    changed = change(world, "updateNetwork", USER, id=made["id"], dns2="192.0.2.55", privatemtu=1400)
    assert [changed.get(name) for name in servers] == ["192.0.2.53", "192.0.2.55"]
    assert (changed["publicmtu"], changed["privatemtu"]) == (1500, 1400)
    changed = change(world, "updateNetwork", USER, id=made["id"], dns2="")
    assert [changed.get(name) for name in servers] == ["192.0.2.53", None]
    failure = refusal(world, "updateNetwork", USER, id=made["id"], dns1="", dns2="192.0.2.54")
    assert (failure.status, "dns1" in failure.errortext) == (431, True)
    changed = change(world, "updateNetwork", USER, id=made["id"], dns1="")
    assert [changed.get(name) for name in servers] == [zone.get(name) for name in servers]


@pytest.mark.parametrize(
    ("by", "offering", "parameters", "status", "text"),
    [
        (USER, L2, {"dns1": "192.0.2.53"}, 431, "has no service Dns"),
        (USER, ISOLATED, {"dns1": "here"}, 431, "dns1"),
        (USER, ISOLATED, {"dns2": "192.0.2.53"}, 431, "dns1"),
        (USER, ISOLATED, {"publicmtu": "67"}, 431, "68"),
        (USER, ISOLATED, {"privatemtu": "9217"}, 431, "9216"),
        (ADMIN, SHARED, RANGE, 431, "requires the parameter vlan"),
        (ADMIN, SHARED, {**RANGE, "vlan": "5000"}, 431, "4094"),
        (ADMIN, SHARED, {"vlan": "701"}, 431, "gateway is missing"),
        (ADMIN, SHARED, {**RANGE, "vlan": "701", "endip": "10.60.4.1"}, 431, "10.60.0.0/22"),
        (ADMIN, SHARED, {**RANGE, "vlan": "701", "startip": "10.60.1.9", "endip": "10.60.1.8"}, 431, "endip"),
        (ADMIN, SHARED, {**RANGE, "vlan": "701", "netmask": "255.0.255.0"}, 431, "netmask"),
        (ADMIN, SHARED, {**RANGE, "vlan": "701", "gateway": "10.60.0.0"}, 431, "gateway"),
        (ADMIN, SHARED, {**RANGE, "vlan": "701", "gateway": "here"}, 431, "IPv4"),
        (USER, SHARED, {**RANGE, "vlan": "701"}, 531, "root admins"),
        (USER, ISOLATED, {"gateway": "10.1.1.1"}, 431, "netmask is missing"),
        (USER, ISOLATED, {"startip": "10.1.1.1"}, 431, "startip"),
        (USER, ISOLATED, {"acltype": "Domain"}, 431, "Account"),
        (USER, ISOLATED, {"subdomainaccess": "true"}, 431, "subdomainaccess"),
        (USER, ISOLATED, {"networkdomain": "not a domain"}, 431, "networkdomain"),
        (USER, ISOLATED, {"account": "neighbour"}, 431, "domainId"),
        (USER, L2, {"gateway": "10.1.1.1"}, 431, "L2"),
    ],
)
def test_bad_networks_are_refused_by_name(
    owned_world: World, by: str, offering: str, parameters: dict[str, str], status: int, text: str
) -> None:
    """A combination that makes no network is refused, and says what would be accepted."""
    failure = refusal(
        owned_world, "createNetwork", by, **requested(owned_world, offering, "bad network", **parameters)
    )
    assert (failure.status, text in failure.errortext) == (status, True), failure.errortext
    assert owned_world.scalar("SELECT count(*) FROM networks WHERE name = 'bad network'") == 0


def test_a_network_is_renamed_and_restarted(owned_world: World) -> None:
    """UpdateNetwork answers the network in its job; restarting finds nothing to do."""
    world = owned_world
    made = make(world, L2, "before")
    changed = change(world, "updateNetwork", USER, id=made["id"], name="after", networkdomain="guests.example")
    assert (changed["name"], changed["displaytext"], changed["networkdomain"]) == (
        "after",
        "before",
        "guests.example",
    )
    assert "no virtual machine has a nic" in refusal(world, "restartNetwork", USER, id=made["id"]).errortext
    deployed_vm(world, "in-renamed-network")
    world.change(
        "INSERT INTO nics (vm_id, network_id, mac_address, device_id, is_default)"
        " SELECT v.id, n.id, '02:00:00:00:00:09', 9, false FROM networks n, virtual_machines v WHERE n.uuid = :id"
        " ORDER BY v.id LIMIT 1",
        id=made["id"],
    )
    assert change(world, "restartNetwork", USER, id=made["id"], cleanup="true") == {"success": True}
    assert refusal(world, "restartNetwork", USER, id=made["id"], makeredundant="true").status == 431
    for command in ("updateNetwork", "restartNetwork"):
        assert refusal(world, command, NEIGHBOUR, id=made["id"]).status == 431


def test_a_network_gets_another_offering(owned_world: World) -> None:
    """One of its type with all services that it has; that of today changes nothing, as Ansible sends it."""
    world = owned_world
    made = make(world, L2, "to upgrade")
    present = world.id_of("network_offerings", L2)
    world.change("UPDATE network_offerings SET services = '[\"UserData\"]' WHERE uuid = :id", id=present)
    world.change(
        "INSERT INTO network_offerings (name, display_text, guest_type, services) VALUES"
        " ('better', '', 'L2', '[\"UserData\", \"Dhcp\"]'), ('worse', '', 'L2', '[]')"
    )
    better, worse = (world.id_of("network_offerings", name) for name in ("better", "worse"))
    assert world.names("listNetworkOfferings", USER, networkid=made["id"]) == ["better"]
    same = change(world, "updateNetwork", USER, id=made["id"], networkofferingid=present)
    assert same["networkofferingid"] == present
    for refused, text in ((worse, "lacks UserData"), (world.id_of("network_offerings", ISOLATED), "L2")):
        failure = refusal(world, "updateNetwork", USER, id=made["id"], networkofferingid=refused)
        assert (failure.status, text in failure.errortext) == (431, True)
    assert refusal(world, "updateNetwork", NEIGHBOUR, id=made["id"], networkofferingid=better).status == 431
    changed = change(world, "updateNetwork", USER, id=made["id"], networkofferingid=better, displaynetwork="true")
    assert changed["networkofferingname"] == "better"
    world.change("DELETE FROM networks WHERE uuid = :id", id=made["id"])
    world.change("DELETE FROM network_offerings WHERE name IN ('better', 'worse')")
    world.change("UPDATE network_offerings SET services = '[]' WHERE uuid = :id", id=present)


def test_limits_of_networks_hold_under_races(owned_world: World) -> None:
    """Six calls at once for an account that may have two: two networks, each with a VLAN of its own."""
    world = owned_world
    neighbour = {"account": "neighbour", "domainid": world.id_of("domains", "acme")}
    world.client().call("updateResourceLimit", resourcetype=6, max=2, **neighbour)
    client = world.client(NEIGHBOUR)

    def one(number: int) -> int:
        try:
            client.call("createNetwork", **requested(world, L2, f"limited {number}"))
        except ApiFailure as failure:
            return failure.status
        return 200

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(one, range(6))) == [200, 200, 535, 535, 535, 535]
    vlans = "SELECT count(DISTINCT vlan) FROM networks WHERE name LIKE 'limited %'"
    assert world.scalar(vlans) == 2


def test_nics_come_and_go(owned_world: World) -> None:
    """One more nic, made the default one, the old one taken away: the job answers the VM each time."""
    world = owned_world
    vm = deployed_vm(world, "many-nics", state="Stopped")
    network = make(world, ISOLATED, "second", gateway="10.77.0.1", netmask="255.255.255.0")
    wanted = {"virtualmachineid": vm, "networkid": network["id"]}
    after = change(
        world, "addNicToVirtualMachine", USER, **wanted, ipaddress="10.77.0.50", macaddress="02:00:5E:10:00:01"
    )
    first, second = after["nic"]
    assert (second["ipaddress"], second["macaddress"], second["deviceid"]) == (
        "10.77.0.50",
        "02:00:5e:10:00:01",
        "1",
    )
    assert (first["isdefault"], second["isdefault"], after["ipaddress"]) == (True, False, first["ipaddress"])
    listed = world.rows("listNics", USER, virtualmachineid=vm)
    assert [nic["id"] for nic in listed] == [first["id"], second["id"]]
    assert listed[0] == {**first, "virtualmachineid": vm}
    assert world.rows("listNics", USER, virtualmachineid=vm, nicid=second["id"]) == listed[1:]
    of = {"virtualmachineid": vm, "nicid": first["id"]}
    assert "default nic" in refusal(world, "removeNicFromVirtualMachine", USER, **of).errortext
    after = change(world, "updateDefaultNicForVirtualMachine", USER, virtualmachineid=vm, nicid=second["id"])
    assert after["ipaddress"] == "10.77.0.50"
    after = change(world, "removeNicFromVirtualMachine", USER, **of)
    assert [nic["id"] for nic in after["nic"]] == [second["id"]]
    other = deployed_vm(world, "next-nic")
    (nic,) = world.rows("listNics", USER, virtualmachineid=other)
    assert nic["ipaddress"] == first["ipaddress"]
    held = (
        "SELECT count(*) FROM released_addresses r JOIN nics n USING (ip_range_id, ip_address)"
        " WHERE n.removed IS NULL"
    )
    assert world.scalar(held) == 0


def test_bad_nics_are_refused_by_name(owned_world: World) -> None:
    """Strangers, wrong networks, taken addresses, VMs in no state for it: refused, and the VM stays as it was."""
    world = owned_world
    vm = deployed_vm(world, "stays", state="Stopped")
    before = world.rows("listNics", USER, virtualmachineid=vm)
    mine, theirs = (
        make(world, ISOLATED, "mine", gateway="10.78.0.1", netmask="255.255.255.0"),
        world.id_of("networks", "guests"),
    )
    rivals = make(world, L2, "for rivals", "rival")
    cases: tuple[tuple[str, object, dict[str, Any], int, str], ...] = (
        (USER, mine["id"], {"ipaddress": "10.78.1.5"}, 431, "outside"),
        (USER, mine["id"], {"ipaddress": "10.78.0.1"}, 431, "in use"),
        (USER, mine["id"], {"ipaddress": "there"}, 431, "IPv4"),
        (USER, mine["id"], {"macaddress": "01:00:00:00:00:01"}, 431, "MAC"),
        (USER, mine["id"], {"macaddress": "00:00:00:00:00:00"}, 431, "MAC"),
        (USER, mine["id"], {"macaddress": "1e:ff:ff:FF:00:01"}, 431, "are generated for nics"),
        (USER, mine["id"], {"macaddress": before[0]["macaddress"]}, 431, "another nic"),
        (USER, theirs, {}, 431, "already"),
        (USER, rivals["id"], {}, 431, "does not exist"),
        (NEIGHBOUR, mine["id"], {}, 431, "does not exist"),
    )
    for by, network, more, status, text in cases:
        failure = refusal(world, "addNicToVirtualMachine", by, virtualmachineid=vm, networkid=network, **more)
        assert (failure.status, text in failure.errortext) == (status, True), failure.errortext
    assert refusal(world, "listNics", NEIGHBOUR, virtualmachineid=vm).status == 431
    world.change("UPDATE virtual_machines SET state = 'Destroyed' WHERE name = 'stays'")
    failure = refusal(world, "addNicToVirtualMachine", USER, virtualmachineid=vm, networkid=mine["id"])
    assert (failure.status, "Destroyed" in failure.errortext) == (431, True)
    assert world.rows("listNics", USER, virtualmachineid=vm) == before
    world.change("UPDATE virtual_machines SET state = 'Stopped' WHERE name = 'stays'")


@pytest.mark.parametrize(("offering", "vlan"), [(L2, "801"), (ISOLATED, "802")])
def test_a_network_is_allocated_until_it_has_a_vm(owned_world: World, offering: str, vlan: str) -> None:
    """A network is Implemented with its first VM. Shared and persistent networks are Implemented at once."""
    world = owned_world

    def seen(network: str) -> tuple[str, bool]:
        (row,) = world.rows("listNetworks", USER, id=network)
        return row["state"], row["ispersistent"]

    made = make(world, offering, f"empty {vlan}")
    assert seen(str(made["id"])) == (made["state"], False) == ("Allocated", False)
    template = world.id_of("templates", "Any hypervisor")
    deployed = {"networkids": made["id"], "templateid": template, "hypervisor": "KVM"}
    world.deploy(f"first-of-{vlan}", "acme", "acme", **deployed)
    assert seen(str(made["id"])) == ("Implemented", False)
    persistent = change(
        world,
        "createNetworkOffering",
        ADMIN,
        name=f"persistent {vlan}",
        displaytext="persistent",
        guestiptype="L2",
        traffictype="GUEST",
        ispersistent=True,
        specifyvlan=True,
    )
    change(world, "updateNetworkOffering", ADMIN, id=persistent["id"], state="Enabled")
    kept = make(world, persistent["name"], f"kept {vlan}", ADMIN, vlan=vlan)
    assert (kept["state"], kept["ispersistent"]) == ("Implemented", True)
