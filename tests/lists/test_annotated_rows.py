"""Rows of lists tell whether they have annotations, and annotations for root admins only tell it only to them."""

from collections.abc import Iterator

import pytest

from bulkdeploy.declare.command import Command
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS
from bulkdeploy.domain.accounts.accounts import RoleType
from bulkdeploy.services.resources.annotations import TYPES
from bulkdeploy.store.resources.annotations import MANAGEMENT_SERVER
from tests.lists.test_shapes import COMMANDS, everything
from tests.support.api.async_calls import change
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, USER, World, open_world

TYPE_NAMES = {
    "virtualmachine": "VM",
    "vmSnapshot": "VM_SNAPSHOT",
    "instancegroup": "INSTANCE_GROUP",
    "sshkeypair": "SSH_KEYPAIR",
    "userdata": "USER_DATA",
    "serviceoffering": "SERVICE_OFFERING",
    "diskoffering": "DISK_OFFERING",
    "networkoffering": "NETWORK_OFFERING",
    "storagepool": "PRIMARY_STORAGE",
    "imagestore": "SECONDARY_STORAGE",
}
"""CloudStack's names of the types of resources, by the keys of responses; others are the key in capitals."""


def fields_of(command: Command) -> tuple[object, ...]:
    """The fields of the objects of a list."""
    return () if command.response is None else command.response.fields


ANNOTATED = {name: command for name, command in COMMANDS.items() if HAS_ANNOTATIONS in fields_of(command)}


def type_of(command: Command) -> str:
    """CloudStack's name of the type of the objects of a list."""
    assert command.response is not None
    return TYPE_NAMES.get(command.response.key, command.response.key.upper())


@pytest.fixture(scope="module")
def annotated_world(request: pytest.FixtureRequest, populated_database: str) -> Iterator[World]:
    """A world with things of every kind that these tests annotate."""
    with open_world(request, populated_database) as made:
        yield made


def reader_of(command: Command) -> str | None:
    """A caller other than a root admin who may call a list, or None if only root admins may."""
    if RoleType.USER in command.roles:
        return USER
    return DOMAIN_ADMIN if RoleType.DOMAIN_ADMIN in command.roles else None


def is_annotated(world: World, name: str, by: str, row_id: str) -> bool:
    """What a list tells a caller of a row, the same in all zones."""
    parameters = everything(COMMANDS[name])
    if by != ADMIN:
        parameters |= dict.fromkeys(parameters.keys() & {"templatefilter", "isofilter"}, "executable")
    values = {row["hasannotations"] for row in world.rows(name, by, **parameters) if row["id"] == row_id}
    (value,) = values
    assert isinstance(value, bool)
    return value


@pytest.mark.parametrize("name", sorted(ANNOTATED))
def test_rows_tell_whether_the_caller_sees_annotations(annotated_world: World, name: str) -> None:
    """Deleted annotations do not count, and those for root admins only count for these."""
    world, reader = annotated_world, reader_of(ANNOTATED[name])
    parameters = everything(ANNOTATED[name]) if reader is None else {}
    if reader is not None and "templatefilter" in everything(ANNOTATED[name]):
        parameters = {"templatefilter": "executable"}
    annotated, *_ = world.rows(name, reader or ADMIN, **parameters)
    named = {"entitytype": type_of(ANNOTATED[name]), "entityid": annotated["id"]}

    def seen() -> tuple[bool, ...]:
        callers = (ADMIN,) if reader is None else (ADMIN, reader)
        return tuple(is_annotated(world, name, by, annotated["id"]) for by in callers)

    def expected(by_admin: bool, by_others: bool) -> tuple[bool, ...]:
        return (by_admin,) if reader is None else (by_admin, by_others)

    assert seen() == expected(False, False)
    hidden = change(world, "addAnnotation", ADMIN, annotation="hidden", adminsonly=True, **named)
    assert seen() == expected(True, False)
    public = change(world, "addAnnotation", ADMIN, annotation="public", **named)
    assert seen() == expected(True, True)
    change(world, "removeAnnotation", ADMIN, id=hidden["id"])
    assert seen() == expected(True, True)
    change(world, "updateAnnotationVisibility", ADMIN, id=public["id"], adminsonly=True)
    assert seen() == expected(True, False)
    change(world, "removeAnnotation", ADMIN, id=public["id"])
    assert seen() == expected(False, False)


def test_each_kind_of_resource_that_can_be_annotated_has_such_a_list() -> None:
    """The only one without the field in CloudStack as here is the management server."""
    assert {type_of(command) for command in ANNOTATED.values()} == {*TYPES} - {MANAGEMENT_SERVER}


def test_results_of_jobs_tell_each_reader_what_the_reader_sees(annotated_world: World) -> None:
    """The owner's job and the root admin who reads it: only the latter learns of annotations for root admins."""
    world = annotated_world
    (network, *_) = world.rows("listNetworks", USER, networkfilter="Account")
    named = {"entitytype": "NETWORK", "entityid": network["id"]}
    hidden = change(world, "addAnnotation", ADMIN, annotation="hidden", adminsonly=True, **named)
    job = world.client(USER).call("updateNetwork", id=network["id"], displaytext="other")["jobid"]
    results = [world.client(by).call("queryAsyncJobResult", jobid=job)["jobresult"] for by in (USER, ADMIN)]
    assert [result["network"]["hasannotations"] for result in results] == [False, True]
    change(world, "removeAnnotation", ADMIN, id=hidden["id"])
