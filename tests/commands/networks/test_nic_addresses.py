"""addIpToNic, removeIpFromNic, updateVmNicIp: no address of a network is ever two nics' or lost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from bulkdeploy.store.auditing.audit import check_invariants
from bulkdeploy.store.ledger.release import release_vms
from tests.support.api.api_client import ApiFailure
from tests.support.api.async_calls import refusal
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import ADMIN, NEIGHBOUR, USER, World

ADDRESS_PROMISES = ("unique_addresses", "address_books", "addresses", "no_orphans")
FREE_OF_A_SMALL_ONE = 13
"""Addresses of a /28 beside the gateway's."""


def network(world: World, name: str, subnet: str) -> str:
    """An Isolated network of acme of 13 addresses beside the gateway's."""
    offering = world.id_of("network_offerings", "DefaultIsolatedNetworkOfferingWithSourceNatService")
    made = world.client(USER).call(
        "createNetwork",
        name=name,
        zoneid=world.id_of("zones", "small"),
        networkofferingid=offering,
        gateway=f"{subnet}.1",
        netmask="255.255.255.240",
    )
    return str(made["network"]["id"])


def vm_in(world: World, name: str, network_id: str, state: str = "Stopped") -> tuple[str, dict[str, Any]]:
    """A VM with a nic in the network, and the nic."""
    vm = deployed_vm(world, name, state="Stopped")
    world.client(USER).call("addNicToVirtualMachine", virtualmachineid=vm, networkid=network_id)
    world.change("UPDATE virtual_machines SET state = :state WHERE uuid = :vm", state=state, vm=vm)
    return vm, nic_of(world, vm, network_id)


def nic_of(world: World, vm: str, network_id: str) -> dict[str, Any]:
    """A VM's nic in a network, the same as listNics and as listVirtualMachines show it."""
    (listed,) = world.rows("listNics", USER, virtualmachineid=vm, networkid=network_id)
    (row,) = world.rows("listVirtualMachines", USER, id=vm)
    (shown,) = [nic for nic in row["nic"] if nic["id"] == listed["id"]]
    assert (shown["ipaddress"], shown["secondaryip"]) == (listed["ipaddress"], listed["secondaryip"])
    return listed


def result(world: World, command: str, **parameters: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a call answers, and its job, done."""
    answer = world.client(USER).call(command, **parameters)
    job = world.client(USER).call("queryAsyncJobResult", jobid=answer["jobid"])
    assert job["jobstatus"] == 1, job
    return answer, job


def assert_audit_finds_nothing(world: World) -> None:
    """No address is two nics', lost, or both in use and free."""
    found = {finding.name: finding.breaches for finding in check_invariants(world.engine)}
    assert {name: found[name] for name in ADDRESS_PROMISES} == dict.fromkeys(ADDRESS_PROMISES, ())


def test_a_nic_gets_secondary_addresses_and_loses_them(owned_world: World) -> None:
    """Any or a named one, while the VM runs; shown with the nic; given back by call, and free for others."""
    world = owned_world
    vm, nic = vm_in(world, "many-addresses", network(world, "secondary", "10.81.0"), "Running")
    assert nic["secondaryip"] == []
    answer, job = result(world, "addIpToNic", nicid=nic["id"])
    any_one = job["jobresult"]["nicsecondaryip"]
    assert any_one["id"] == answer["id"] == job["jobinstanceid"]
    assert (any_one["nicid"], any_one["networkid"], any_one["virtualmachineid"]) == (
        nic["id"],
        nic["networkid"],
        vm,
    )
    named = result(world, "addIpToNic", nicid=nic["id"], ipaddress="10.81.0.9")[1]["jobresult"]["nicsecondaryip"]
    assert named["ipaddress"] == "10.81.0.9"
    shown = nic_of(world, vm, nic["networkid"])
    assert shown["secondaryip"] == [{"id": one["id"], "ipaddress": one["ipaddress"]} for one in (any_one, named)]
    assert len({nic["ipaddress"], any_one["ipaddress"], named["ipaddress"]}) == 3
    assert_audit_finds_nothing(world)
    assert result(world, "removeIpFromNic", id=any_one["id"])[1]["jobresult"] == {"success": True}
    assert [one["ipaddress"] for one in nic_of(world, vm, nic["networkid"])["secondaryip"]] == ["10.81.0.9"]
    again = result(world, "addIpToNic", nicid=nic["id"], ipaddress=any_one["ipaddress"])[1]["jobresult"]
    assert again["nicsecondaryip"]["ipaddress"] == any_one["ipaddress"]
    kinds = [row["type"] for row in world.rows("listEvents", USER, pagesize=100, page=1)]
    assert {"NIC.SECONDARY.IP.ASSIGN", "NIC.SECONDARY.IP.UNASSIGN"} <= set(kinds)
    assert_audit_finds_nothing(world)


def test_a_stopped_vm_gets_another_first_address(owned_world: World) -> None:
    """The job's result is the VM; the old address is given back; while it runs the call is refused."""
    world = owned_world
    vm, nic = vm_in(world, "moving", network(world, "moved", "10.82.0"))
    _, job = result(world, "updateVmNicIp", nicid=nic["id"], ipaddress="10.82.0.12")
    (moved,) = [one for one in job["jobresult"]["virtualmachine"]["nic"] if one["id"] == nic["id"]]
    assert (moved["ipaddress"], moved["gateway"]) == ("10.82.0.12", "10.82.0.1")
    assert nic_of(world, vm, nic["networkid"])["ipaddress"] == "10.82.0.12"
    free = result(world, "addIpToNic", nicid=nic["id"], ipaddress=nic["ipaddress"])[1]["jobresult"]
    assert free["nicsecondaryip"]["ipaddress"] == nic["ipaddress"]
    result(world, "updateVmNicIp", nicid=nic["id"])
    assert nic_of(world, vm, nic["networkid"])["ipaddress"] not in ("10.82.0.12", nic["ipaddress"])
    world.change("UPDATE virtual_machines SET state = 'Running' WHERE uuid = :vm", vm=vm)
    failure = refusal(world, "updateVmNicIp", USER, nicid=nic["id"])
    assert (failure.status, "must be Stopped" in failure.errortext) == (431, True)
    assert_audit_finds_nothing(world)


def test_what_cannot_be_given_is_refused(owned_world: World) -> None:
    """Addresses in use, outside, malformed or the gateway; too many; another's nic; a VM in no state for it."""
    world = owned_world
    network_id = network(world, "refusing", "10.83.0")
    vm, nic = vm_in(world, "refused-1", network_id)
    _, other = vm_in(world, "refused-2", network_id)
    one = result(world, "addIpToNic", nicid=nic["id"])[1]["jobresult"]["nicsecondaryip"]
    for command in ("addIpToNic", "updateVmNicIp"):
        for ip in (other["ipaddress"], one["ipaddress"], "10.83.0.1", "10.83.0.200", "10.99.0.5", "x", "fe80::1"):
            failure = refusal(world, command, USER, nicid=nic["id"], ipaddress=ip)
            assert (failure.status, "ipaddress" in failure.errortext) == (431, True), failure.errortext
        assert refusal(world, command, NEIGHBOUR, nicid=nic["id"]).status == 431
    failure = refusal(world, "addNicToVirtualMachine", USER, virtualmachineid=vm, networkid=network_id)
    assert failure.status == 431
    assert refusal(world, "removeIpFromNic", NEIGHBOUR, id=one["id"]).status == 431
    world.client(ADMIN).call("updateConfiguration", name="vm.network.nic.max.secondary.ipaddresses", value=1)
    failure = refusal(world, "addIpToNic", USER, nicid=nic["id"])
    assert (failure.status, "max.secondary.ipaddresses is 1" in failure.errortext) == (431, True)
    world.client(ADMIN).call("updateConfiguration", name="vm.network.nic.max.secondary.ipaddresses", value=10)
    world.change("UPDATE virtual_machines SET state = 'Starting' WHERE uuid = :vm", vm=vm)
    for command, given in (("addIpToNic", {"nicid": nic["id"]}), ("removeIpFromNic", {"id": one["id"]})):
        failure = refusal(world, command, USER, **given)
        assert (failure.status, "its virtual machine is Starting" in failure.errortext) == (431, True)
    world.change("UPDATE virtual_machines SET state = 'Stopped' WHERE uuid = :vm", vm=vm)
    refused = refusal(world, "removeIpFromNic", USER, id=one["id"], accountid=nic["id"])
    assert "parameter accountid: it is not supported" in refused.errortext
    result(world, "removeIpFromNic", id=one["id"])
    assert refusal(world, "removeIpFromNic", USER, id=one["id"]).status == 431
    assert_audit_finds_nothing(world)


@pytest.mark.parametrize("how", ["nic", "vm"])
def test_secondary_addresses_go_with_what_has_them(owned_world: World, how: str) -> None:
    """The nic is taken away, or the VM is gone: all of its addresses are free again, and given to others."""
    world = owned_world
    subnet = f"10.84.{len(how)}"
    network_id = network(world, f"going with {how}", subnet)
    vm, nic = vm_in(world, f"going-{how}", network_id)
    for _ in range(5):
        result(world, "addIpToNic", nicid=nic["id"])
    if how == "nic":
        result(world, "removeNicFromVirtualMachine", virtualmachineid=vm, nicid=nic["id"])
    else:
        with world.engine.begin() as connection:
            ids = connection.execute(text("SELECT id FROM virtual_machines WHERE uuid = :vm"), {"vm": vm})
            release_vms(connection, [ids.scalar_one()])
        world.change("UPDATE virtual_machines SET state = 'Expunging', removed = now() WHERE uuid = :vm", vm=vm)
    assert_audit_finds_nothing(world)
    _, new_owner = vm_in(world, f"after-{how}", network_id)
    for _ in range(FREE_OF_A_SMALL_ONE - 1):
        world.client(ADMIN).call("updateConfiguration", name="vm.network.nic.max.secondary.ipaddresses", value=20)
        result(world, "addIpToNic", nicid=new_owner["id"])
    assert refusal(world, "addIpToNic", USER, nicid=new_owner["id"]).status == 533
    world.client(ADMIN).call("updateConfiguration", name="vm.network.nic.max.secondary.ipaddresses", value=10)
    assert_audit_finds_nothing(world)


def test_who_races_for_the_last_addresses_gets_each_once(owned_world: World) -> None:
    """Secondary, first, new and named addresses of one network at once: as many as there are, none twice."""
    world = owned_world
    network_id = network(world, "raced", "10.85.0")
    nics = [vm_in(world, f"racer-{number}", network_id)[1] for number in range(4)]
    extra = [deployed_vm(world, f"comer-{number}", state="Stopped") for number in range(4)]
    client = world.client(USER)

    def call(command: str, **given: object) -> Callable[[], int]:
        def request() -> int:
            try:
                client.call(command, **given)
            except ApiFailure as failure:
                return failure.status
            return 200

        return request

    wanted = [call("addIpToNic", nicid=nic["id"]) for nic in nics for _ in range(2)]
    wanted += [call("addNicToVirtualMachine", virtualmachineid=vm, networkid=network_id) for vm in extra]
    named = [call("addIpToNic", nicid=nic["id"], ipaddress="10.85.0.14") for nic in nics[:2]]
    named += [call("updateVmNicIp", nicid=nic["id"], ipaddress="10.85.0.14") for nic in nics[2:]]
    with ThreadPoolExecutor(8) as threads:
        named_answers = list(threads.map(lambda request: request(), named))
        answers = list(threads.map(lambda request: request(), wanted))
    assert sorted(named_answers) == [200, 431, 431, 431]
    in_use = world.scalar(
        "SELECT count(*) FROM (SELECT n.ip_address FROM nics n JOIN networks w ON w.id = n.network_id"
        " WHERE w.uuid = :network AND n.removed IS NULL UNION SELECT s.ip_address FROM nic_secondary_ips s"
        " JOIN networks w ON w.id = s.network_id WHERE w.uuid = :network) used",
        network=network_id,
    )
    assert in_use == FREE_OF_A_SMALL_ONE
    assert (set(answers), 4 + answers.count(200) + (named_answers[:2].count(200))) == ({200, 533}, in_use)
    assert_audit_finds_nothing(world)
