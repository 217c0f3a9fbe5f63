"""A template means an operator's image by its uuid, or by its name if a root admin owns it: names are free."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.guests import GuestSpec, VolumeSpec
from bulkdeploy.drivers.incus.cluster import IncusCluster
from bulkdeploy.drivers.incus.driver import access_of
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import Incus
from bulkdeploy.drivers.records import TemplateImage
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.support.zones.world import ADMIN, USER, World

POOL = UUID(int=1)
IMAGE = TemplateImage(UUID(int=2), "debian12", "https://images.example/a", "TAR", None, 1)


def source(engine: Engine, image: TemplateImage, images: dict[str, str]) -> dict[str, object]:
    """What Incus makes the root disk of a guest from."""
    options = IncusOptions(images=images)
    cluster = IncusCluster(options, Incus(access_of(options)))
    cluster.records = replace(
        records_in(engine, lambda _: True), directory=FixedDirectory([], shared_pool(POOL), image)
    )
    guest = GuestSpec(uuid4(), "vm", 1, 1000, 512, (VolumeSpec(uuid4(), "ROOT", 1, POOL, image.uuid),), ())
    try:
        return cluster.source_of(guest)
    finally:
        cluster.incus.close()


def test_the_name_of_a_users_template_means_nothing(engine: Engine) -> None:
    """The user gets the user's own file; a root admin's template gets the image; a uuid always names its own."""
    images = {"debian12": "images-debian12"}
    assert source(engine, IMAGE, images)["alias"] == f"bulkdeploy-{IMAGE.uuid}"
    assert source(engine, replace(IMAGE, is_of_root_admin=True), images)["alias"] == "images-debian12"
    assert source(engine, IMAGE, {str(IMAGE.uuid): "other"})["alias"] == "other"


def test_another_checksum_is_another_image() -> None:
    """Copies of a template are kept under its uuid and a digest of its checksum."""
    keys = {replace(IMAGE, checksum=checksum).key for checksum in (None, "{MD5}aa", "{MD5}ab")}
    assert len(keys) == 3
    assert all(key.startswith(str(IMAGE.uuid)) for key in keys)


@pytest.mark.parametrize(("by", "is_trusted"), [(USER, False), (ADMIN, True)])
def test_owners_of_templates_are_told_apart(owned_world: World, by: str, is_trusted: bool) -> None:
    """As drivers are told of a template that was registered by HTTP."""
    zone = owned_world.id_of("zones", "small")
    made = owned_world.client(by).call(
        "registerTemplate", name="debian12", displaytext="x", zoneid=zone, format="TAR", hypervisor="LXC",
        url="http://images.example/debian12.tar.gz",
    )  # fmt: skip
    seen = records_in(owned_world.engine, lambda _: True).directory.template(UUID(made["template"][0]["id"]))
    assert seen is not None
    assert (seen.name, seen.is_of_root_admin) == ("debian12", is_trusted)
