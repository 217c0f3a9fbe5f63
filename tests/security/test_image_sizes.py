"""Files that were fetched for templates count by their real size, against limits and pools, while they exist."""

from uuid import UUID

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.drivers.records import CopyState, Records
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.wiring.driver_records import records_in
from tests.support.zones.world import ADMIN, USER, World

GIB = 1 << 30
SECONDARY_STORAGE = 11


@pytest.fixture
def records(fresh_world: World) -> Records:
    """What a driver is given in this world."""
    return records_in(fresh_world.engine, lambda _: True)


@pytest.fixture
def template(fresh_world: World) -> UUID:
    """A template of a plain user's, who may have 2 GiB of secondary storage."""
    account = fresh_world.rows("listAccounts", name="acme", listall="true")[0]
    limited = {"account": "acme", "domainid": account["domainid"], "resourcetype": SECONDARY_STORAGE}
    fresh_world.client(ADMIN).call("updateResourceLimit", max=2, **limited)
    zone = fresh_world.id_of("zones", "small")
    made = fresh_world.client(USER).call(
        "registerTemplate", name="mine", displaytext="mine", zoneid=zone, format="QCOW2", hypervisor="KVM",
        url="http://images.example/mine.qcow2",
    )  # fmt: skip
    return UUID(made["template"][0]["id"])


def pool_of(world: World) -> UUID:
    """A shared pool."""
    return UUID(str(world.scalar("SELECT uuid FROM storage_pools WHERE scope <> 'HOST' ORDER BY id LIMIT 1")))


def counted(world: World) -> tuple[float, float]:
    """The GiB of secondary storage of the account and of its domain, as the API shows them."""
    account = world.rows("listAccounts", name="acme", listall="true")[0]
    domain = world.rows("listDomains", id=account["domainid"])[0]
    return account["secondarystoragetotal"], domain["secondarystoragetotal"]


def allocated(world: World, pool: UUID) -> int:
    """The bytes that a pool has allocated, as the API shows them."""
    return int(world.rows("listStoragePools", id=pool)[0]["disksizeallocated"])


def assert_intact(engine: Engine) -> None:
    """The audit finds nothing."""
    assert [finding for finding in audit(engine, []) if finding.breaches] == []


def begin(records: Records, template: UUID, pool: UUID) -> int:
    """Begin a copy; its attempt."""
    copy = records.copies.begin(template, pool)
    assert copy.state is CopyState.TO_MAKE
    return copy.attempt


def test_a_file_counts_by_its_real_size(fresh_world: World, records: Records, template: UUID) -> None:
    """Of the account, its domain, the pool and the template, from before its first byte is in the pool."""
    pool, other = pool_of(fresh_world), UUID(int=7)
    before = allocated(fresh_world, pool)
    attempt = begin(records, template, pool)
    assert counted(fresh_world) == (0, 0)
    assert records.copies.admit(template, pool, GIB, 5 * GIB) is None
    assert records.copies.end(template, pool, attempt, made=True)
    assert counted(fresh_world) == (1, 1)
    assert allocated(fresh_world, pool) == before + GIB
    (row,) = fresh_world.rows("listTemplates", templatefilter="all", id=template)
    assert (row["physicalsize"], row["size"]) == (GIB, 5 * GIB)
    consumers = {row["consumertype"] for row in fresh_world.rows("listAllocations", storageid=pool)}
    assert "Template" in consumers
    assert records.copies.begin(template, other).state is CopyState.TO_MAKE
    assert "deleted" in (records.copies.admit(template, other, GIB, GIB) or "")
    assert_intact(fresh_world.engine)


def test_a_file_above_the_limit_is_refused(fresh_world: World, records: Records, template: UUID) -> None:
    """2.5 GiB of an account that may have 2; nothing of it is counted."""
    pool = pool_of(fresh_world)
    before = allocated(fresh_world, pool)
    attempt = begin(records, template, pool)
    refusal = records.copies.admit(template, pool, 5 * GIB // 2, 5 * GIB // 2)
    assert refusal is not None
    assert "secondary_storage" in refusal
    records.copies.end(template, pool, attempt, made=False)
    assert (counted(fresh_world), allocated(fresh_world, pool)) == ((0, 0), before)
    assert_intact(fresh_world.engine)


def test_a_file_that_a_pool_has_no_room_for_is_refused(
    fresh_world: World, records: Records, template: UUID
) -> None:
    """The pool is as full as its volumes and files make it."""
    pool = pool_of(fresh_world)
    fresh_world.change("UPDATE storage_pools SET capacity_bytes = 1024 WHERE uuid = :pool", pool=pool)
    begin(records, template, pool)
    assert "no space" in (records.copies.admit(template, pool, GIB, GIB) or "")
    assert_intact(fresh_world.engine)


def test_an_attempt_that_fails_counts_nothing(fresh_world: World, records: Records, template: UUID) -> None:
    """A checksum that is wrong at the end; the next attempt counts once, whatever size it has."""
    pool = pool_of(fresh_world)
    before = allocated(fresh_world, pool)
    attempt = begin(records, template, pool)
    assert records.copies.admit(template, pool, GIB, GIB) is None
    assert records.copies.end(template, pool, attempt, made=False)
    assert (counted(fresh_world), allocated(fresh_world, pool)) == ((0, 0), before)
    attempt = begin(records, template, pool)
    for size in (GIB, 2 * GIB):
        assert records.copies.admit(template, pool, size, size) is None
    assert records.copies.end(template, pool, attempt, made=True)
    assert counted(fresh_world) == (2, 2)
    assert allocated(fresh_world, pool) == before + 2 * GIB
    assert_intact(fresh_world.engine)


def test_a_deleted_template_and_a_deleted_pool_count_no_more(
    fresh_world: World, records: Records, template: UUID
) -> None:
    """A pool that has copies of templates and no volumes can be deleted."""
    world = fresh_world
    world.change(
        "INSERT INTO storage_pools (name, zone_id, scope, pool_type, ip_address, path, capacity_bytes, hypervisor)"
        " SELECT 'spare', id, 'ZONE', 'NetworkFilesystem', '10.0.0.9', '/spare', 1099511627776, 'KVM' FROM zones"
        " WHERE name = 'small'"
    )
    pool = UUID(world.id_of("storage_pools", "spare"))
    attempt = begin(records, template, pool)
    assert records.copies.admit(template, pool, GIB, GIB) is None
    assert records.copies.end(template, pool, attempt, made=True)
    world.client(ADMIN).call("deleteStoragePool", id=pool, forced=True)
    assert_intact(world.engine)
    with world.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM template_copies")).scalar_one() == 0
    assert counted(world) == (0, 0)
    pool = pool_of(world)
    attempt = begin(records, template, pool)
    assert records.copies.admit(template, pool, GIB, GIB) is None
    assert records.copies.end(template, pool, attempt, made=True)
    assert counted(world) == (1, 1)
    world.client(USER).call("deleteTemplate", id=template)
    assert counted(world) == (0, 0)


def test_another_checksum_is_another_image(fresh_world: World, records: Records, template: UUID) -> None:
    """What was copied under one checksum is not used for another; its file is not among those to remove."""
    copies, pool = records.copies, pool_of(fresh_world)
    assert copies.begin(template, pool, "a").state is CopyState.TO_MAKE
    assert copies.end(template, pool, 1, made=True)
    assert (copies.find(template, pool, "a"), copies.find(template, pool, "b")) == (1, None)
    begun = copies.begin(template, pool, "b")
    assert (begun.state, begun.attempt, list(begun.abandoned)) == (CopyState.TO_MAKE, 2, [])
    copies.end(template, pool, 2, made=False)
    begun = copies.begin(template, pool, "b")
    assert (begun.attempt, list(begun.abandoned)) == (3, [2])
