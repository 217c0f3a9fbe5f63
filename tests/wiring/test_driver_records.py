"""What the service remembers for drivers: fences hold against races, and one caller at a time copies a template."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.drivers.records import CopyState, FencedGuest, Overtaken, Records
from bulkdeploy.wiring.driver_records import records_in
from tests.support.zones.fleet import template_database

__all__ = ["template_database"]

HERE, THERE, POOL, TEMPLATE = (UUID(int=number) for number in range(4))
THREADS = 8


@pytest.fixture
def records(engine: Engine) -> Records:
    """The records of a driver for KVM."""
    return records_in(engine, lambda hypervisor: hypervisor == "KVM")


def claimed(records: Records, guest: UUID, host: UUID, volumes: Sequence[UUID] = (), fence: int = 1) -> UUID | None:
    """Where the guest is after a claim."""
    return records.fences.claim(guest, host, volumes, fence)[0].host_uuid


def test_a_guest_is_on_one_host(records: Records) -> None:
    """The first claim wins, whoever asks afterwards is told; after a release it is on none."""
    guest = uuid4()
    assert [claimed(records, guest, host) for host in (HERE, THERE, HERE)] == [HERE] * 3
    records.fences.release(guest, 1)
    assert claimed(records, guest, THERE) == THERE


def test_claims_that_meet_agree(records: Records) -> None:
    """Threads that claim one guest for two hosts all see the same one."""
    guest = uuid4()
    with ThreadPoolExecutor(THREADS) as threads:
        seen = set(threads.map(lambda number: claimed(records, guest, (HERE, THERE)[number % 2]), range(THREADS)))
    assert len(seen) == 1


def test_a_lower_fence_is_overtaken(records: Records) -> None:
    """It raises nothing, claims nothing, moves nothing, and releases nothing."""
    guest, fences = uuid4(), records.fences
    fences.claim(guest, HERE, [], 5)
    for call in (
        lambda: fences.raise_fence(guest, 4),
        lambda: fences.claim(guest, HERE, [], 4),
        lambda: fences.move(guest, THERE, None, 4),
    ):
        with pytest.raises(Overtaken):
            call()
    fences.release(guest, 4)
    assert (fences.is_highest(guest, 4), fences.is_highest(guest, 5)) == (False, True)
    assert fences.raise_fence(guest, 6) == FencedGuest(HERE)


def test_a_guest_that_moves_may_be_on_both_hosts(records: Records) -> None:
    """Until the move has ended, on one of the two."""
    guest, fences = uuid4(), records.fences
    fences.claim(guest, HERE, [], 1)
    fences.move(guest, HERE, THERE, 1)
    assert fences.raise_fence(guest, 1).host_uuids == {HERE, THERE}
    fences.move(guest, THERE, None, 1)
    assert fences.raise_fence(guest, 1).host_uuids == {THERE}


def test_a_volume_is_held_by_one_guest(records: Records) -> None:
    """Another guest that asks for it gets nothing; once its guest is on no host it is free."""
    guest, other, volume = uuid4(), uuid4(), uuid4()
    claimed(records, guest, HERE, [volume])
    assert records.fences.claim(other, HERE, [volume, uuid4()], 1) == (FencedGuest(), frozenset({volume}))
    with records.fences.volumes_in_use([volume]) as used:
        assert used == {volume: guest}
    records.fences.release(guest, 1)
    assert claimed(records, other, HERE, [volume]) == HERE


def test_one_of_many_guests_that_claim_a_volume_at_once_has_it(records: Records) -> None:
    """The other claims fail; claims that name the same volumes in another order do not deadlock."""
    volumes = [uuid4(), uuid4()]

    def claim(number: int) -> tuple[FencedGuest, frozenset[UUID]]:
        return records.fences.claim(uuid4(), HERE, volumes[:: 1 - 2 * (number % 2)], 1)

    with ThreadPoolExecutor(THREADS) as threads:
        outcomes = list(threads.map(claim, range(THREADS)))
    assert outcomes.count((FencedGuest(HERE), frozenset())) == 1
    assert outcomes.count((FencedGuest(), frozenset(volumes))) == THREADS - 1


def test_no_guest_takes_a_volume_that_is_being_removed(records: Records) -> None:
    """A claim waits until the removal has ended."""
    volume, order = uuid4(), []
    with ThreadPoolExecutor(1) as threads:
        with records.fences.volumes_in_use([volume]):
            claim = threads.submit(claimed, records, uuid4(), HERE, [volume])
            claim.add_done_callback(lambda _: order.append("claimed"))
            order.append("removed")
        claim.result()
    assert order == ["removed", "claimed"]


def test_one_caller_copies_a_template(records: Records) -> None:
    """Of many at once; others see how far it is, and then that it is there."""
    copies = records.copies
    with ThreadPoolExecutor(THREADS) as threads:
        begun = list(threads.map(lambda _: copies.begin(TEMPLATE, POOL), range(THREADS)))
    assert [one.state for one in begun].count(CopyState.TO_MAKE) == 1
    assert copies.report(TEMPLATE, POOL, 1, 40)
    assert (copies.begin(TEMPLATE, POOL).percent, copies.find(TEMPLATE, POOL)) == (40, None)
    assert copies.end(TEMPLATE, POOL, 1, made=True)
    assert (copies.begin(TEMPLATE, POOL).state, copies.find(TEMPLATE, POOL)) == (CopyState.READY, 1)


@pytest.mark.parametrize("how", ["failed", "died"])
def test_a_copy_that_failed_is_begun_anew(records: Records, engine: Engine, how: str) -> None:
    """At once where it said so, after a while where it was silent; its own end counts no more."""
    copies = records.copies
    copies.begin(TEMPLATE, POOL)
    if how == "failed":
        copies.end(TEMPLATE, POOL, 1, made=False)
    else:
        with engine.begin() as connection:
            connection.execute(text("UPDATE template_copies SET renewed = now() - interval '2 minutes'"))
    assert (copies.begin(TEMPLATE, POOL).state, copies.begin(TEMPLATE, POOL).attempt) == (CopyState.TO_MAKE, 2)
    assert not copies.end(TEMPLATE, POOL, 1, made=True)
    assert copies.find(TEMPLATE, POOL) is None


def test_the_directory_has_the_hosts_of_the_driver_and_what_they_reach(engine: Engine) -> None:
    """Hosts of other hypervisors are left out; pools reach hosts, and hosts pools; templates have their images."""
    for served in ("KVM", "VMware"):
        directory = records_in(engine, served.__eq__).directory
        hosts = {host.uuid: host for host in directory.hosts()}
        assert {host.hypervisor for host in hosts.values()} <= {served}
        reached = {(pool.uuid, host) for host in hosts for pool in directory.pools_of_host(host)}
        reaching = {
            (pool.uuid, host.uuid) for pool in directory.pools() for host in directory.hosts_of_pool(pool.uuid)
        }
        assert reached == reaching
        if served == "KVM":
            assert hosts
            assert reached
    with engine.connect() as connection:
        uuid = connection.execute(text("SELECT uuid FROM templates LIMIT 1")).scalar_one()
    image = directory.template(uuid)
    assert image is not None
    assert image.uuid == uuid
    assert directory.template(uuid4()) is None
