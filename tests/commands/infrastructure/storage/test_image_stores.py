"""Image stores: added, changed and deleted by calls, as Terraform and Ansible do it; nothing needs one."""

import pytest

from tests.support.zones.infrastructure_calls import Cloud

URL = "nfs://10.0.0.9/export/secondary"


def test_an_image_store_lives_and_goes(cloud: Cloud) -> None:
    """Its provider is one that listStorageProviders names; a zone with one stays."""
    zone = cloud.zone()
    (provider,) = cloud.rows("listStorageProviders", type="image")
    made = cloud.make("addImageStore", provider=provider["name"], url=URL, zoneid=zone["id"], name="secondary")
    facts = {"url": URL, "protocol": "nfs", "providername": "NFS", "scope": "ZONE", "readonly": False}
    assert facts.items() <= made.items()
    assert (made["zoneid"], made["zonename"], made["name"]) == (zone["id"], zone["name"], "secondary")
    assert cloud.rows("listImageStores", id=made["id"]) == [made]
    changed = cloud.make("updateImageStore", id=made["id"], name="closed", readonly="true", capacitybytes=7)
    assert (changed["name"], changed["readonly"], changed["disksizetotal"]) == ("closed", True, 7)
    assert "image stores" in cloud.refused("deleteZone", id=zone["id"]).errortext
    cloud.done("deleteImageStore", id=made["id"])
    assert cloud.rows("listImageStores", id=made["id"]) == []
    assert "deleted" in cloud.refused("deleteImageStore", id=made["id"]).errortext
    kinds = {row["type"] for row in cloud.rows("listEvents") if row["type"].startswith("IMAGE.STORE.")}
    assert kinds == {"IMAGE.STORE.CREATE", "IMAGE.STORE.EDIT", "IMAGE.STORE.DELETE"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"provider": "S3"}, "NFS"),
        ({"url": "s3://bucket/images"}, "NFS export"),
        ({"url": "nfs://10.0.0.9"}, "NFS export"),
        ({"url": "nfs://user:secret@10.0.0.9/a"}, "password"),
        ({"name": "taken"}, "another image store"),
        ({"details[0].key": "x"}, "details"),
    ],
)
def test_bad_image_stores_are_refused(cloud: Cloud, given: dict[str, str], said: str) -> None:
    """A value that breaks a rule is refused with parameter and rule, and nothing is added."""
    zone = cloud.zone()["id"]
    if "name" in given:
        cloud.make("addImageStore", provider="nfs", url=URL, zoneid=zone, name="taken")
    failure = cloud.refused("addImageStore", **{"provider": "NFS", "url": URL, "zoneid": zone, **given})
    assert (failure.status, said in failure.errortext) == (431, True), failure.errortext
