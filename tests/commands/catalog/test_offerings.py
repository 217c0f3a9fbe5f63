"""Service and disk offerings: made, changed and deleted by calls of root admins and domain admins."""

from typing import Any

import pytest

from tests.support.zones.infrastructure_calls import Cloud
from tests.support.zones.world import DOMAIN_ADMIN, USER

SMALL: dict[str, Any] = {"name": "s", "displaytext": "S", "cpunumber": 1, "cpuspeed": 100, "memory": 128}
DISK: dict[str, Any] = {"name": "d", "displaytext": "D", "disksize": 5}


def test_a_service_offering_lives_and_goes(cloud: Cloud) -> None:
    """It says what it was given, with JSON's types; what changes shows; a deleted one is not listed."""
    zone = cloud.zone()["id"]
    made = cloud.make(
        "createServiceOffering",
        **{
            **SMALL,
            "name": "big",
            "rootdisksize": 20,
            "storagetype": "local",
            "tags": "ssd",
            "hosttags": "gpu,fast",
        },
        deploymentplanner="UserDispersingPlanner",
        offerha="True",
        isvolatile=True,
        networkrate=100,
        zoneid=zone,
        **{"serviceofferingdetails[0].key": "colour", "serviceofferingdetails[0].value": "red"},
    )
    assert (made["cpunumber"], made["cpuspeed"], made["memory"], made["rootdisksize"]) == (1, 100, 128, 20)
    assert (made["storagetags"], made["hosttags"], made["storagetype"]) == ("ssd", "gpu,fast", "local")
    assert (made["offerha"], made["iscustomized"], made["networkrate"], made["zoneid"]) == (True, False, 100, zone)
    assert (made["serviceofferingdetails"], made["state"], made["isvolatile"]) == (
        {"colour": "red"},
        "Active",
        True,
    )
    changed = cloud.make(
        "updateServiceOffering",
        id=made["id"],
        name="bigger",
        state="Inactive",
        hosttags="",
        zoneid="all",
        sortkey=3,
    )
    assert (changed["name"], changed["state"]) == ("bigger", "Inactive")
    assert not {"hosttags", "zoneid"} & changed.keys()
    assert cloud.rows("listServiceOfferings", id=made["id"]) == []
    assert len(cloud.rows("listServiceOfferings", id=made["id"], state="all")) == 1
    for _ in range(2):
        cloud.done("deleteServiceOffering", id=made["id"])
    assert cloud.rows("listServiceOfferings", id=made["id"], state="Inactive") == []


def test_sizes_may_be_left_to_the_caller(cloud: Cloud) -> None:
    """Without cores and memory an offering is custom, within bounds where some are given."""
    made = cloud.make(
        "createServiceOffering", name="c", displaytext="C", cpuspeed=500, mincpunumber=2, maxcpunumber=4,
        minmemory=256, maxmemory=512,
    )  # fmt: skip
    assert (made["iscustomized"], made["cpunumber"], made["memory"]) == (True, 2, 256)
    assert made["serviceofferingdetails"]["maxcpunumber"] == "4"


def test_a_disk_offering_lives_and_goes(cloud: Cloud) -> None:
    """Of a fixed size, or of one that the caller chooses."""
    made = cloud.make("createDiskOffering", **DISK, tags="ssd", provisioningtype="fat", **{"details[0].a": "b"})
    assert (made["disksize"], made["tags"], made["provisioningtype"], made["details"]) == (
        5,
        "ssd",
        "fat",
        {"a": "b"},
    )
    root = cloud.id_of("domains", "ROOT")
    changed = cloud.make(
        "updateDiskOffering", id=made["id"], state="Inactive", displayoffering="false", domainid=root
    )
    assert (changed["state"], changed["displayoffering"], changed["domainid"]) == ("Inactive", False, root)
    assert cloud.rows("listDiskOfferings", id=made["id"]) == []
    assert len(cloud.rows("listDiskOfferings", id=made["id"], state="all")) == 1
    cloud.done("deleteDiskOffering", id=made["id"])
    custom = cloud.make("createDiskOffering", name="any", displaytext="Any", customized="true")
    assert (custom["disksize"], custom["iscustomized"]) == (0, True)


@pytest.mark.parametrize(("noun", "given"), [("Service", SMALL), ("Disk", DISK)])
def test_domain_admins_keep_to_their_domains(cloud: Cloud, noun: str, given: dict[str, Any]) -> None:
    """They make offerings for domains of theirs, and touch no others; users make none."""
    acme, root = cloud.id_of("domains", "acme"), cloud.id_of("domains", "ROOT")
    create, update = f"create{noun}Offering", f"update{noun}Offering"
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 531),
        ({"domainid": root}, 431),
        ({"domainid": f"{acme},{root}"}, 431),
    )
    for domains, status in cases:
        assert cloud.refused(create, DOMAIN_ADMIN, **given, **domains).status == status
    own = cloud.make(create, DOMAIN_ADMIN, **given, domainid=acme)
    assert own["domain"] == "acme"
    assert cloud.make(update, DOMAIN_ADMIN, id=own["id"], name="mine")["name"] == "mine"
    for places, status in (("public", 531), (root, 431)):
        assert cloud.refused(update, DOMAIN_ADMIN, id=own["id"], domainid=places).status == status
    public = cloud.make(create, **given)["id"]
    assert cloud.refused(update, DOMAIN_ADMIN, id=public, name="stolen").status == 531
    assert cloud.refused(f"delete{noun}Offering", DOMAIN_ADMIN, id=public).status == 531
    assert cloud.refused(create, USER, **given, domainid=acme).status == 432
    for filters, shown in (({}, True), ({"isrecursive": True}, True), ({"isrecursive": False}, False)):
        ids = {row["id"] for row in cloud.rows(f"list{noun}Offerings", DOMAIN_ADMIN, **filters)}
        assert (own["id"] in ids, public in ids) == (shown, True)
    assert cloud.rows(f"list{noun}Offerings", domainid=-1, isrecursive=True) == []
    cloud.client(DOMAIN_ADMIN).call(f"delete{noun}Offering", id=own["id"])


@pytest.mark.parametrize(
    ("command", "parameters", "said"),
    [
        ("createServiceOffering", {**SMALL, "cpunumber": ""}, "give both"),
        ("createServiceOffering", {**SMALL, "cpuspeed": ""}, "needs cpunumber, cpuspeed and memory"),
        ("createServiceOffering", {**SMALL, "cpunumber": "0"}, "parameter cpunumber"),
        ("createServiceOffering", {**SMALL, "customized": "true"}, "give both"),
        ("createServiceOffering", {**SMALL, "minmemory": "1", "maxmemory": "2"}, "only for custom sizes"),
        ("createServiceOffering", {"name": "c", "displaytext": "C", "minmemory": "1"}, "given together"),
        ("createServiceOffering", {"name": "c", "displaytext": "C", "minmemory": "2", "maxmemory": "1"}, "below"),
        ("createServiceOffering", {**SMALL, "deploymentplanner": "Best"}, "one of: FirstFitPlanner"),
        ("createServiceOffering", {**SMALL, "miniops": "5"}, "parameter miniops: it is not supported"),
        ("createDiskOffering", {**DISK, "customized": "true"}, "give disksize"),
        ("createDiskOffering", {"name": "d", "displaytext": "D"}, "give disksize"),
        ("createDiskOffering", {**DISK, "disksize": "0"}, "parameter disksize"),
        ("createDiskOffering", {**DISK, "tags": "a,a"}, "parameter tags"),
        ("createDiskOffering", {**DISK, "customizediops": "true"}, "parameter customizediops: it is not supported"),
        ("updateDiskOffering", {"domainid": "nowhere"}, "parameter domainid"),
        ("updateDiskOffering", {"zoneid": ","}, "parameter zoneid"),
        ("updateServiceOffering", {"state": "Gone"}, "parameter state"),
    ],
)
def test_offerings_are_checked(cloud: Cloud, command: str, parameters: dict[str, str], said: str) -> None:
    """A value that breaks a rule is refused with parameter and rule, and changes nothing."""
    if command.startswith("update"):
        table = "disk_offerings" if "Disk" in command else "service_offerings"
        parameters = {"id": cloud.id_of(table, "Custom"), **parameters}
    failure = cloud.refused(command, **parameters)
    assert (failure.status, said in failure.errortext) == (431, True), failure.errortext
