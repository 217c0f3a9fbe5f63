"""Host names: no two VMs of one network have the same, whoever asks for it at the same moment, and how."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest

from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from tests.commands.networks.test_networks import L2, make
from tests.commands.virtual_machines.test_concurrent_device_changes import WAITING
from tests.commands.volumes.test_volumes import assert_audit_finds_nothing
from tests.support.api.api_client import Answer
from tests.support.api.async_calls import change, refusal
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import ADMIN, USER, World

CALLERS = 4


class Meeting:
    """Calls at the same moment: none commits before each has written what it writes, or waits for another's."""

    def __init__(self, world: World, calls: Sequence[Callable[[], Answer]]) -> None:
        self._world, self._calls = world, calls
        self._arrived = self._answered = 0
        self._met = Event()

    def hold(self) -> list[Answer]:
        """The answers, in the order of the calls."""
        failpoints.arm(self._wait_for_others)
        try:
            with ThreadPoolExecutor(len(self._calls)) as pool:
                return list(pool.map(self._make, self._calls))
        finally:
            failpoints.arm(None)

    def _make(self, call: Callable[[], Answer]) -> Answer:
        answer = call()
        self._answered += 1
        return answer

    def _wait_for_others(self, place: str) -> None:
        if place != f"{Failpoint.CALL_COMMIT}.before" or self._met.is_set():
            return
        self._arrived += 1
        while self._arrived + self._answered + self._world.scalar(WAITING) < len(self._calls):
            time.sleep(0.01)
        self._met.set()


def at_once(world: World, calls: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Make these calls at the same moment."""
    return Meeting(world, calls).hold()


def image(world: World) -> dict[str, object]:
    """A template whose guests need no password of the network's."""
    return {"templateid": world.id_of("templates", "Any hypervisor"), "hypervisor": "KVM"}


def holders(world: World, network: str, name: str) -> int:
    """How many VMs that are not destroyed have this name in the network."""
    return int(
        world.scalar(
            "SELECT count(*) FROM virtual_machines v JOIN nics n ON n.vm_id = v.id JOIN networks w"
            " ON w.id = n.network_id WHERE w.uuid = :network AND lower(v.name) = lower(:name)"
            " AND n.removed IS NULL AND v.removed IS NULL AND v.state NOT IN ('Destroyed', 'Expunging')",
            network=network,
            name=name,
        )
    )


def assert_one(world: World, network: str, name: str, answers: Sequence[Answer]) -> None:
    """One call got the name; the others were told that it is in use, and changed nothing."""
    assert sorted(answer.status for answer in answers) == [200] + [431] * (len(answers) - 1)
    assert holders(world, network, name) == 1
    assert_audit_finds_nothing(world)


def vm_elsewhere(world: World, name: str, network: str) -> str:
    """A stopped VM in a network of its own; its uuid."""
    own = make(world, L2, f"{network} of its own")["id"]
    world.deploy(name, "acme", "acme", networkids=own, **image(world))
    vm = str(
        world.scalar("SELECT uuid FROM virtual_machines WHERE name = :name ORDER BY id DESC LIMIT 1", name=name)
    )
    world.change(
        "UPDATE async_jobs SET status = 1, phase = 'done', result = '{}', completed = now()"
        " WHERE instance_uuid = :vm AND status = 0",
        vm=vm,
    )
    world.change("UPDATE virtual_machines SET state = 'Stopped' WHERE uuid = :vm", vm=vm)
    return vm


@pytest.mark.parametrize("startvm", ["true", "false"])
def test_deployed_at_the_same_moment_one_vm_gets_the_name(owned_world: World, startvm: str) -> None:
    """In a network without addresses, where nothing else has deployments wait for each other."""
    world, name = owned_world, f"twin-{startvm}"
    network = str(make(world, L2, name)["id"])
    spelled = (name, name.upper(), name.title(), name)
    # Calls that choose addresses share no transaction, as those of several processes.
    macs = [{"macaddress": f"02:00:5e:00:{len(name):02x}:{number:02x}"} for number in range(len(spelled))]
    calls = [_like(world, network, one) | mac for one, mac in zip(spelled, macs, strict=True)]
    client = world.client(USER)
    answers = at_once(
        world, [partial(client.get, "deployVirtualMachine", startvm=startvm, **call) for call in calls]
    )
    assert_one(world, network, name, answers)
    refused = next(answer for answer in answers if answer.status == 431)
    assert f"already exists in the network domain of network {name}" in refused.body["errortext"]


def test_given_nics_at_the_same_moment_one_vm_gets_in(owned_world: World) -> None:
    """VMs of one name, each in a network of its own, cannot both have a nic in a third."""
    world, name = owned_world, "guest-of-many"
    network = str(make(world, L2, "the third")["id"])
    vms = [vm_elsewhere(world, name, f"{name} {number}") for number in range(CALLERS)]
    client = world.client(USER)
    given = [partial(client.get, "addNicToVirtualMachine", virtualmachineid=vm, networkid=network) for vm in vms]
    assert_one(world, network, name, at_once(world, given))


def test_renamed_at_the_same_moment_one_vm_gets_the_name(owned_world: World) -> None:
    """VMs of one network."""
    world, name = owned_world, "wanted"
    network = str(make(world, L2, "of renamed ones")["id"])
    vms = [
        deployed_vm(world, f"before-{number}", state="Stopped", networkids=network, **image(world))
        for number in range(CALLERS)
    ]
    client = world.client(USER)
    answers = at_once(world, [partial(client.get, "updateVirtualMachine", id=vm, name=name) for vm in vms])
    assert_one(world, network, name, answers)


def test_a_destroyed_vm_leaves_its_name_and_is_not_recovered_beside_its_heir(owned_world: World) -> None:
    """The name of a destroyed VM may be used; then it is recovered only once nobody else has it."""
    world, name = owned_world, "phoenix"
    network = str(make(world, L2, "of the reborn")["id"])
    old = deployed_vm(world, name, state="Stopped", networkids=network, **image(world))
    world.change("UPDATE virtual_machines SET state = 'Destroyed' WHERE uuid = :vm", vm=old)
    world.change(
        "UPDATE nics SET vm_name = NULL WHERE vm_id = (SELECT id FROM virtual_machines WHERE uuid = :vm)", vm=old
    )
    world.deploy(name, "acme", "acme", networkids=network, **image(world))
    assert "has its host name" in refusal(world, "recoverVirtualMachine", ADMIN, id=old).errortext
    assert holders(world, network, name) == 1
    (heir,) = (vm for vm in world.rows("listVirtualMachines", USER, name=name) if vm["id"] != old)
    change(world, "updateVirtualMachine", USER, id=heir["id"], name="heir")
    change(world, "recoverVirtualMachine", ADMIN, id=old)
    assert holders(world, network, name) == 1
    assert "already exists" in refusal(world, "deployVirtualMachine", USER, **_like(world, network, name)).errortext


def test_one_mac_address_given_at_the_same_moment_is_given_once(owned_world: World) -> None:
    """Also in networks of different VMs."""
    world = owned_world
    network = str(make(world, L2, "of one MAC address")["id"])
    vms = [vm_elsewhere(world, f"mac-{number}", f"mac {number}") for number in range(CALLERS)]
    client, mac = world.client(USER), "02:00:00:00:00:77"
    given = [
        lambda vm=vm: client.get("addNicToVirtualMachine", virtualmachineid=vm, networkid=network, macaddress=mac)
        for vm in vms
    ]
    answers = at_once(world, given)
    assert sorted(answer.status for answer in answers) == [200] + [431] * (CALLERS - 1)
    assert world.scalar("SELECT count(*) FROM nics WHERE mac_address = :mac", mac=mac) == 1


def _like(world: World, network: str, name: str) -> dict[str, object]:
    return {
        "zoneid": world.id_of("zones", "small"),
        "serviceofferingid": world.id_of("service_offerings", "Small"),
        "networkids": network,
        "name": name,
        **image(world),
    }
