"""What a deploy call says besides sizes and places: registered user data, and flags of the VM."""

import pytest

from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, NEIGHBOUR, USER, World


def requested(world: World, name: str, **more: object) -> dict[str, object]:
    """Parameters of deployVirtualMachine."""
    return {
        "name": name,
        "zoneid": world.id_of("zones", "small"),
        "serviceofferingid": world.id_of("service_offerings", "Small"),
        "templateid": world.id_of("templates", "Debian 12"),
        "networkids": world.id_of("networks", "guests"),
        **more,
    }


def test_registered_user_data_reaches_the_vm(owned_world: World) -> None:
    """``userdataid`` gives the VM what was registered, of its own and not deleted, and nothing beside it."""
    world = owned_world
    data = change(world, "registerUserData", USER, name="for a VM", userdata="aGVsbG8gd29ybGQ=")["id"]
    made = world.client(USER).call("deployVirtualMachine", **requested(world, "with-data", userdataid=data))
    kept = world.client(USER).call("getVirtualMachineUserData", virtualmachineid=made["id"])
    assert kept["virtualmachineuserdata"]["userdata"] == "aGVsbG8gd29ybGQ="
    assert world.names("listVirtualMachines", USER, userdataid=data) == ["with-data"]
    both = requested(world, "both", userdataid=data, userdata="aGVsbG8=")
    assert refusal(world, "deployVirtualMachine", USER, **both).status == 431
    assert (
        refusal(world, "deployVirtualMachine", NEIGHBOUR, **requested(world, "theirs", userdataid=data)).status
        == 431
    )
    whose = {"account": "acme", "domainid": world.id_of("domains", "acme")}
    moon = world.id_of("projects", "moon")
    assert refusal(world, "deleteUserData", USER, id=data, projectid=moon).status == 531
    assert change(world, "deleteUserData", USER, id=data, **whose) == {"success": True}
    failure = refusal(world, "deployVirtualMachine", USER, **requested(world, "late", userdataid=data))
    assert (failure.status, "deleted" in failure.errortext) == (431, True)


def test_a_vm_is_hidden_and_not_scalable_from_the_start(owned_world: World) -> None:
    """``displayvm`` and ``dynamicscalingenabled`` are what listVirtualMachines then says."""
    world = owned_world
    world.client().call("updateConfiguration", name="enable.dynamic.scale.vm", value="true")
    plain = world.client().call("deployVirtualMachine", **requested(world, "plain-vm", displayvm="true"))
    other = requested(world, "hidden-vm", displayvm="false", dynamicscalingenabled="false", keyboard="de")
    hidden = world.client().call("deployVirtualMachine", **other)
    rows = {row["id"]: row for row in world.rows("listVirtualMachines", ADMIN, ids=f"{plain['id']},{hidden['id']}")}
    shown = [(rows[one["id"]]["displayvm"], rows[one["id"]]["isdynamicallyscalable"]) for one in (plain, hidden)]
    assert shown == [(True, True), (False, False)]


@pytest.mark.parametrize(
    ("parameter", "honoured", "refused"),
    [("boottype", "bios", "UEFI"), ("bootmode", "Legacy", "SECURE"), ("bootintosetup", "false", "true")],
)
def test_vms_boot_as_they_can(owned_world: World, parameter: str, honoured: str, refused: str) -> None:
    """What is the case anyway may be asked for; what is not the case is refused by name."""
    world, name = owned_world, f"boot-{parameter}"
    failure = refusal(world, "deployVirtualMachine", USER, **requested(world, name, **{parameter: refused}))
    assert (failure.status, parameter in failure.errortext) == (431, True)
    made = world.client(USER).call("deployVirtualMachine", **requested(world, name, **{parameter: honoured}))
    for details, boots in (("{}", ("Bios", "legacy")), ('{"UEFI": "SECURE"}', ("Uefi", "secure"))):
        set_details = "UPDATE virtual_machines SET details = CAST(:details AS jsonb) WHERE uuid = :vm"
        world.change(set_details, details=details, vm=made["id"])
        (row,) = world.rows("listVirtualMachines", ADMIN, id=made["id"])
        assert (row["boottype"], row["bootmode"]) == boots


def test_vms_get_the_user_data_of_their_template(owned_world: World) -> None:
    """Unless the call gives other data, where the policy lets it; data that is linked is not deleted."""
    world, admin = owned_world, owned_world.client()
    template = {"templateid": requested(world, "x")["templateid"]}
    data = change(world, "registerUserData", ADMIN, name="linked", userdata="aGVsbG8gd29ybGQ=", params="a,b")["id"]

    def user_data_of(name: str, **more: object) -> str:
        made = world.client(USER).call("deployVirtualMachine", **requested(world, name, **more))
        kept = world.client(USER).call("getVirtualMachineUserData", virtualmachineid=made["id"])
        return str(kept["virtualmachineuserdata"]["userdata"])

    assert refusal(world, "linkUserDataToTemplate", USER, **template).status == 531
    linked = admin.call("linkUserDataToTemplate", **template, userdataid=data)["template"]
    assert (linked["userdataid"], linked["userdatapolicy"]) == (data, "ALLOWOVERRIDE")
    assert (linked["userdataname"], linked["userdataparams"]) == ("linked", "a,b")
    iso = world.scalar("SELECT uuid FROM templates WHERE kind = 'iso' AND removed IS NULL LIMIT 1")
    assert admin.call("linkUserDataToTemplate", isoid=iso, userdataid=data)["template"]["userdataid"] == data
    (listed,) = world.rows("listIsos", ADMIN, id=iso, isofilter="all", showunique=True)
    assert listed["userdataid"] == data
    admin.call("linkUserDataToTemplate", isoid=iso)
    assert user_data_of("linked") == "aGVsbG8gd29ybGQ="
    assert user_data_of("overridden", userdata="aGVsbG8=") == "aGVsbG8="
    admin.call("linkUserDataToTemplate", **template, userdataid=data, userdatapolicy="denyoverride")
    denied = refusal(world, "deployVirtualMachine", USER, **requested(world, "denied", userdata="aGVsbG8="))
    assert (denied.status, "DENYOVERRIDE" in denied.errortext) == (431, True)
    assert user_data_of("kept") == "aGVsbG8gd29ybGQ="
    assert refusal(world, "deleteUserData", ADMIN, id=data).status == 536
    assert "userdataid" not in admin.call("linkUserDataToTemplate", **template)["template"]
    admin.call("deleteUserData", id=data)


def test_a_template_says_that_its_vms_boot_with_uefi(owned_world: World) -> None:
    """Where the hypervisor is not able to, the template is named; the call may say BIOS; a VM keeps what it has."""
    world = owned_world
    template = requested(world, "x")["templateid"]
    admin = world.client()
    admin.call("updateTemplate", id=template, **{"details[0].UEFI": "SECURE"})
    try:
        failure = refusal(world, "deployVirtualMachine", USER, **requested(world, "uefi-1"))
        assert (
            failure.status,
            "templateid" in failure.errortext,
            "does not support UEFI" in failure.errortext,
        ) == (
            431,
            True,
            True,
        )
        made = world.client(USER).call("deployVirtualMachine", **requested(world, "uefi-2", boottype="BIOS"))
        for more in ({"bootmode": "SECURE", "boottype": "BIOS"}, {"details[0].UEFI": "LEGACY", "boottype": "BIOS"}):
            assert refusal(world, "deployVirtualMachine", USER, **requested(world, "uefi-3", **more)).status == 431
        kept = refusal(world, "updateVirtualMachine", USER, id=made["id"], **{"details[0].UEFI": "LEGACY"})
        assert "cannot be changed" in kept.errortext
    finally:
        admin.call("updateTemplate", id=template, cleanupdetails="true")


NINES = "9" * 5000


@pytest.mark.parametrize(
    ("parameter", "offering", "value"),
    [
        ("details[0].cpuNumber", "Custom", "00000000000" + "12"),
        ("details[0].memory", "Custom", "000000000512" + "000"),
        ("details[0].cpuNumber", "Custom", "000000000001" + NINES),
        ("details[0].cpuSpeed", "Boundless", 2**31 - 1),
        ("rootdisksize", "Small", 2**33),
        ("rootdisksize", "Small", 2**63 - 1),
    ],
)
def test_sizes_past_all_bounds_are_refused(
    owned_world: World, parameter: str, offering: str, value: object
) -> None:
    """However a number is written, and however large it is: the bounds hold, and the parameter is named."""
    if offering not in owned_world.names("listServiceOfferings"):
        text = {"name": offering, "displaytext": "sizes of your choice"}
        change(owned_world, "createServiceOffering", ADMIN, **text, customized="true")
    sizes = {} if offering == "Small" else {"details[0].cpuNumber": 1, "details[0].memory": 512}
    more = {"serviceofferingid": owned_world.id_of("service_offerings", offering), **sizes, parameter: value}
    failure = refusal(owned_world, "deployVirtualMachine", ADMIN, **requested(owned_world, "too-large", **more))
    assert (failure.status, parameter in failure.errortext) == (431, True), failure.errortext
