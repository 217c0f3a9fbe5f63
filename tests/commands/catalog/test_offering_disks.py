"""How offerings say that disks are provided, and offerings for system VMs."""

import pytest

from tests.support.api.api_client import ApiFailure
from tests.support.api.async_calls import change, refusal
from tests.support.zones.world import ADMIN, World


def test_offerings_say_how_disks_are_provided(owned_world: World) -> None:
    """Cache mode, rates and encryption are answered, filtered by and checked; what no driver can do is refused."""
    world = owned_world
    settings = {
        "provisioningtype": "fat",
        "cachemode": "writethrough",
        "bytesreadrate": 500,
        "bytesreadratemax": 1000,
        "bytesreadratemaxlength": 30,
        "iopswriterate": 70,
    }
    shown = {
        "provisioningtype": "fat",
        "cacheMode": "writethrough",
        "diskBytesReadRate": 500,
        "diskBytesReadRateMax": 1000,
        "diskBytesReadRateMaxLength": 30,
        "diskIopsWriteRate": 70,
    }
    size = {"cpunumber": 1, "cpuspeed": 500, "memory": 512}
    for command, encrypt, wanted in (
        ("createServiceOffering", "encryptroot", {"name": "tuned", **size}),
        ("createDiskOffering", "encrypt", {"name": "tuned", "disksize": 1}),
    ):
        made = change(world, command, ADMIN, **wanted, **settings)
        assert {name: made[name] for name in shown} == shown
        assert made[encrypt] is False
        assert refusal(world, command, ADMIN, **wanted, iopswriteratemaxlength=1).status == 431
        assert refusal(world, command, ADMIN, **wanted, cachemode="fast").status == 431
        secret = change(world, command, ADMIN, **{**wanted, "name": "encrypted"}, **{encrypt: True})
        listing = command.replace("create", "list") + "s"
        assert [row["id"] for row in world.rows(listing, ADMIN, **{encrypt: True})] == [secret["id"]]
        assert secret["id"] not in {row["id"] for row in world.rows(listing, ADMIN, **{encrypt: False})}
    ids = {name: world.id_of("service_offerings", name) for name in ("tuned", "encrypted")}
    world.deploy("tuned", serviceofferingid=ids["tuned"])
    with pytest.raises(ApiFailure, match=r"disk\.encrypt"):
        world.deploy("secret", serviceofferingid=ids["encrypted"])


def test_offerings_of_system_vms_are_listed_apart_and_of_no_use(owned_world: World) -> None:
    """No system VM exists here, and no other VM can have such an offering."""
    world = owned_world
    wanted = {"name": "router", "cpunumber": 1, "cpuspeed": 500, "memory": 512}
    made = change(world, "createServiceOffering", ADMIN, **wanted, issystem=True, systemvmtype="domainrouter")
    assert (made["issystem"], made["systemvmtype"]) == (True, "domainrouter")
    assert world.rows("listServiceOfferings", name="router") == []
    assert world.names("listServiceOfferings", issystem=True, systemvmtype="domainrouter") == ["router"]
    with pytest.raises(ApiFailure, match="not active"):
        world.deploy("router", serviceofferingid=made["id"])
