"""The network that VMs get if their deployment names none, and the zone has no default network."""

from sqlalchemy import text

from tests.support.api.api_client import ApiFailure
from tests.support.zones.world import USER, World


def deploy(world: World, name: str, **more: object) -> str:
    """Deploy a VM of the user without naming a network; the id of the VM, or the text of the error."""
    places = {
        "zoneid": world.id_of("zones", "small"),
        "serviceofferingid": world.id_of("service_offerings", "Small"),
        "templateid": world.id_of("templates", "Debian 12"),
    }
    try:
        return str(world.client(USER).call("deployVirtualMachine", name=name, **places, **more).get("id", ""))
    except ApiFailure as failure:
        return str(failure.errortext)


def isolated(world: World) -> list[str]:
    """Return the names of the user's isolated networks."""
    return world.names("listNetworks", USER, type="Isolated")


def test_the_first_vm_gets_an_isolated_network_of_its_account(fresh_world: World) -> None:
    """A dry run makes none, the first VM makes one, the next VM gets the same, and two of them are one too many."""
    with fresh_world.engine.begin() as connection:
        connection.execute(text("UPDATE networks SET is_default = false"))
        connection.execute(text("UPDATE networks SET removed = now() WHERE guest_type = 'Isolated'"))
    deploy(fresh_world, "looked-at", dryrun=True)
    assert isolated(fresh_world) == []
    vms = [deploy(fresh_world, f"vm-{number}") for number in (1, 2)]
    assert isolated(fresh_world) == [f"{USER}-network"]
    for vm in vms:
        (row,) = fresh_world.rows("listVirtualMachines", USER, id=vm)
        assert [nic["networkname"] for nic in row["nic"]] == [f"{USER}-network"]
    (network,) = fresh_world.rows("listNetworks", USER, type="Isolated")
    made = fresh_world.client(USER).call(
        "createNetwork", name="another", zoneid=network["zoneid"], networkofferingid=network["networkofferingid"]
    )
    assert made["network"]["name"] == "another"
    assert "please specify networkIds" in deploy(fresh_world, "vm-3")


def test_a_limit_of_networks_keeps_the_first_vm_from_getting_one(fresh_world: World) -> None:
    """An account that may have no network gets no VM without one, and the call leaves nothing."""
    with fresh_world.engine.begin() as connection:
        connection.execute(text("UPDATE networks SET is_default = false"))
        connection.execute(text("UPDATE networks SET removed = now() WHERE guest_type = 'Isolated'"))
    account = fresh_world.rows("listAccounts", USER)[0]
    fresh_world.client().call(
        "updateResourceLimit", resourcetype=6, max=0, account=account["name"], domainid=account["domainid"]
    )
    assert "network" in deploy(fresh_world, "vm-1").lower()
    assert isolated(fresh_world) == []


def test_a_shared_network_is_never_chosen(fresh_world: World) -> None:
    """The only network that the account may use is shared: the call fails until an offering is required again."""
    with fresh_world.engine.begin() as connection:
        connection.execute(text("UPDATE networks SET is_default = false"))
        connection.execute(text("UPDATE networks SET removed = now() WHERE guest_type <> 'Shared'"))
        connection.execute(text("UPDATE network_offerings SET availability = 'Optional'"))
    assert len(fresh_world.rows("listNetworks", USER)) == 1
    assert "availability=Required" in deploy(fresh_world, "vm-1")
    with fresh_world.engine.begin() as connection:
        required = "UPDATE network_offerings SET availability = 'Required' WHERE guest_type = 'Isolated'"
        connection.execute(text(required))
    (row,) = fresh_world.rows("listVirtualMachines", USER, id=deploy(fresh_world, "vm-2"))
    assert [nic["networkname"] for nic in row["nic"]] == [f"{USER}-network"]
