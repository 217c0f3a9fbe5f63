"""resizeVolume: what is claimed, counted, on the pool and shown is one size, whatever fails and whoever races."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bulkdeploy.drivers.simulator.control import FaultKind, HangEffect, Step
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.support.api.api_client import ApiFailure
from tests.support.api.callers import refused
from tests.support.zones.fleet import OPTIONS

__all__ = ["owned"]

GIB = 1024**3
TIME_IS_UP = """UPDATE async_jobs SET progress = progress || '{"overdue": "it took too long"}' WHERE status = 0"""


def custom(owned: Owned, gib: int = 4) -> str:
    """A volume of a custom size that no VM has, and that is nowhere."""
    zone = owned.fleet.zone
    where = {"zoneid": zone.id_of("zones", "small"), "diskofferingid": zone.id_of("disk_offerings", "Custom")}
    return str(owned.client.call("createVolume", name=f"custom {gib}", size=gib, **where)["id"])


def attached(owned: Owned, gib: int = 4) -> str:
    """A volume of a custom size that the guest of the first VM has."""
    volume = custom(owned, gib)
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    return volume


def root(owned: Owned) -> dict[str, Any]:
    """The root disk of the first VM."""
    (row,) = owned.client.call("listVolumes", virtualmachineid=owned.vm, type="ROOT")["volume"]
    return dict(row)


def on_pool(owned: Owned, volume: str) -> int | None:
    """The size that the hypervisor gives a volume, bytes; None: it has none."""
    sizes = {str(uuid): size for uuid, _, size in owned.fleet.driver.list_volumes()}
    return sizes.get(volume)


def counted(owned: Owned) -> int:
    """Bytes of primary storage that the account counts."""
    return int(
        owned.fleet.zone.scalar(
            "SELECT amount FROM resource_counts WHERE owner_kind = 'account' AND resource_type = 10"
            " AND owner_id = (SELECT id FROM accounts WHERE name = 'acme')"
        )
    )


def sizes(owned: Owned, volume: str) -> tuple[int, int | None]:
    """A volume's size as it is shown and as it is, once the accounting are known to agree."""
    owned.fleet.assert_intact()
    return owned.row(volume)["size"], on_pool(owned, volume)


def test_a_volume_grows_under_its_running_guest(owned: Owned) -> None:
    """The job's result is the volume with its new size; room is claimed, storage counted, events told."""
    volume, before = attached(owned), counted(owned)
    job = owned.done("resizeVolume", id=volume, size=9)
    assert (job["jobstatus"], job["cmd"].rpartition(".")[2]) == (1, "ResizeVolumeCmd")
    assert job["jobresult"]["volume"] == owned.row(volume)
    assert sizes(owned, volume) == (9 * GIB, 9 * GIB)
    assert counted(owned) - before == 5 * GIB
    events = owned.client.call("listEvents", type="VOLUME.RESIZE")["event"]
    assert {event["state"] for event in events} == {"Scheduled", "Started", "Completed"}
    first = root(owned)
    assert owned.done("resizeVolume", id=first["id"], size=first["size"] // GIB + 7)["jobstatus"] == 1
    grown = (first["size"] // GIB + 7) * GIB
    assert sizes(owned, first["id"]) == (grown, grown)


def test_a_stopped_vms_root_disk_grows_as_ansible_asks_for_it(owned: Owned) -> None:
    """Stopped, resized, started again: it is larger with the answer, and on the pool with the start."""
    disk = root(owned)
    assert owned.done("stopVirtualMachine", id=owned.vm)["jobstatus"] == 1
    job = owned.poll(owned.call("resizeVolume", id=disk["id"], size=40, shrinkok=False))
    assert (job["jobstatus"], job["jobresult"]["volume"]["size"]) == (1, 40 * GIB)
    assert sizes(owned, disk["id"]) == (40 * GIB, disk["size"])
    assert owned.done("startVirtualMachine", id=owned.vm)["jobstatus"] == 1
    assert sizes(owned, disk["id"]) == (40 * GIB, 40 * GIB)


def test_a_detached_volume_is_resized_as_terraform_asks_for_it(owned: Owned) -> None:
    """Detached, resized by offering and size, attached again; its own offering given again says nothing."""
    zone, volume = owned.fleet.zone, attached(owned)
    assert owned.done("detachVolume", id=volume)["jobstatus"] == 1
    mine = zone.id_of("disk_offerings", "Custom")
    for size in (6, 8):
        job = owned.poll(owned.call("resizeVolume", id=volume, diskofferingid=mine, size=size, shrinkok=False))
        assert (job["jobstatus"], sizes(owned, volume)) == (1, (size * GIB, 4 * GIB))
    fixed = zone.id_of("disk_offerings", "20 GiB")
    job = owned.poll(owned.call("resizeVolume", id=volume, diskofferingid=fixed, size=8, shrinkok=False))
    shown = job["jobresult"]["volume"]
    assert (shown["size"], shown["diskofferingid"], shown["diskofferingname"]) == (20 * GIB, str(fixed), "20 GiB")
    assert owned.done("attachVolume", id=volume, virtualmachineid=owned.vm)["jobstatus"] == 1
    assert sizes(owned, volume) == (20 * GIB, 20 * GIB)
    events = owned.client.call("listEvents", resourceid=volume)["event"]
    assert [event["type"] for event in events].count("VOLUME.RESIZE") == 3


@pytest.mark.long
def test_a_volume_shrinks_when_it_may(owned: Owned) -> None:
    """One that is nowhere with the answer; one on a pool by a job, while its VM is stopped; all is given back."""
    nowhere, there, before = custom(owned, 5), attached(owned, 9), counted(owned)
    job = owned.poll(owned.call("resizeVolume", id=nowhere, size=2, shrinkok=True))
    assert (job["jobstatus"], sizes(owned, nowhere)) == (1, (2 * GIB, None))
    assert owned.done("stopVirtualMachine", id=owned.vm)["jobstatus"] == 1
    claimed = owned.fleet.zone.scalar("SELECT sum(allocated_bytes) FROM storage_pools")
    job = owned.done("resizeVolume", id=there, size=3, shrinkok=True)
    assert (job["jobstatus"], sizes(owned, there)) == (1, (3 * GIB, 3 * GIB))
    assert claimed - owned.fleet.zone.scalar("SELECT sum(allocated_bytes) FROM storage_pools") == 6 * GIB
    assert before - counted(owned) == 9 * GIB
    assert owned.done("startVirtualMachine", id=owned.vm)["jobstatus"] == 1
    assert sizes(owned, there) == (3 * GIB, 3 * GIB)


def test_what_may_not_be_is_refused_at_once(owned: Owned) -> None:
    """With CloudStack's texts and codes; nothing changes, and no job is made."""
    zone = owned.fleet.zone
    volume, fixed, disk = attached(owned), owned.volume(), root(owned)
    twenty, own = (zone.id_of("disk_offerings", name) for name in ("20 GiB", "Custom"))
    loose = attached(owned, 7)
    assert owned.done("detachVolume", id=loose)["jobstatus"] == 1
    before, jobs = owned.client.call("listVolumes")["volume"], len(owned.fleet.jobs())
    larger = disk["size"] // GIB + 1
    cases: list[tuple[dict[str, object], int, str]] = [
        ({"id": volume}, 431, "size or another disk offering must be given"),
        ({"id": volume, "diskofferingid": own}, 431, "size or another disk offering must be given"),
        ({"id": volume, "size": 3}, 431, "would shrink the volume"),
        ({"id": volume, "size": 3, "shrinkok": False}, 431, "supplying the shrinkok parameter"),
        ({"id": volume, "size": 3, "shrinkok": True}, 431, "its virtual machine is Running"),
        ({"id": loose, "size": 3, "shrinkok": True}, 431, "it is not attached to a virtual machine"),
        ({"id": volume, "size": 0}, 431, "size"),
        ({"id": volume, "size": 100_000}, 431, "the size must be from"),
        ({"id": volume, "size": 10**9}, 431, "size"),
        ({"id": fixed, "size": 30}, 431, "its current disk offering must be customizable"),
        ({"id": fixed, "diskofferingid": own}, 431, "requires a custom size"),
        ({"id": disk["id"], "size": 1, "shrinkok": True}, 431, "never made smaller"),
        ({"id": disk["id"], "size": larger, "diskofferingid": twenty}, 431, "a root volume is resized by size"),
        ({"id": volume, "size": 9, "maxiops": 100}, 431, "operations per second"),
    ]
    for parameters, status, text in cases:
        failure = refused(owned.client, "resizeVolume", **parameters)
        assert (failure.status, text in failure.errortext) == (status, True), failure.errortext
    zone.change("UPDATE service_offerings SET root_disk_gib = 30")
    failure = refused(owned.client, "resizeVolume", id=disk["id"], size=larger)
    assert (failure.status, "configured with a root disk size" in failure.errortext) == (431, True)
    zone.change("UPDATE storage_pools SET capacity_bytes = 1")
    assert refused(owned.client, "resizeVolume", id=volume, size=9).status == 534
    assert refused(owned.client, "resizeVolume", id=loose, size=9).status == 534
    zone.change("UPDATE storage_pools SET capacity_bytes = 1::bigint << 50")
    assert (owned.client.call("listVolumes")["volume"], len(owned.fleet.jobs())) == (before, jobs)
    owned.fleet.assert_intact()


@pytest.mark.long
@pytest.mark.parametrize("kind", [FaultKind.TRANSIENT, FaultKind.PERMANENT])
def test_a_volume_that_did_not_grow_gives_everything_back(owned: Owned, kind: FaultKind) -> None:
    """The job says what the hypervisor said; all is as before, and it can be asked again."""
    volume = attached(owned)
    before = counted(owned)
    owned.fleet.fault(Step.RESIZE, kind, remaining=1)
    job = owned.done("resizeVolume", id=volume, size=9)
    assert (job["jobstatus"], "simulated failure" in job["jobresult"]["errortext"]) == (2, True)
    assert (sizes(owned, volume), counted(owned)) == ((4 * GIB, 4 * GIB), before)
    assert owned.done("resizeVolume", id=volume, size=9)["jobstatus"] == 1
    assert sizes(owned, volume) == (9 * GIB, 9 * GIB)


@pytest.mark.long
@pytest.mark.parametrize("effect", HangEffect)
def test_an_unanswered_resize_is_verified_on_the_hypervisor(owned: Owned, effect: HangEffect) -> None:
    """Done means done, undone means failed: nothing is shrunk because nobody heard that it had grown."""
    volume = attached(owned)
    owned.fleet.fault(Step.RESIZE, FaultKind.HANG, remaining=1, effect=effect)
    owned.patience_s = 3  # the look that follows is answered, also by a busy machine
    job = owned.done("resizeVolume", id=volume, size=9)
    gib = 9 if effect is HangEffect.DONE else 4
    assert (job["jobstatus"], sizes(owned, volume)) == (1 if gib == 9 else 2, (gib * GIB, gib * GIB))


@pytest.mark.long
def test_a_size_that_cannot_be_verified_stays_claimed(owned: Owned) -> None:
    """While the hypervisor is silent the job waits; out of time it fails, and the next start brings the size."""
    volume, before = attached(owned), counted(owned)
    owned.fleet.fault(Step.ANY, FaultKind.HANG, effect=HangEffect.UNDONE)
    owned.patience_s = 0.2
    job = owned.done("resizeVolume", id=volume, size=9)
    assert (job["jobstatus"], counted(owned) - before) == (0, 5 * GIB)
    owned.fleet.zone.change(TIME_IS_UP)
    owned.again()
    job = owned.poll(job["jobid"])
    assert (job["jobstatus"], "It is unknown which devices its guest has" in job["jobresult"]["errortext"]) == (
        2,
        True,
    )
    owned.fleet.clear_faults()
    owned.patience_s = OPTIONS.driver_timeout_s
    for command in ("stopVirtualMachine", "startVirtualMachine"):
        assert owned.done(command, id=owned.vm)["jobstatus"] == 1
    assert sizes(owned, volume) == (9 * GIB, 9 * GIB)


@pytest.mark.long
@pytest.mark.parametrize("bound", ["limit of the account", "limit of the domain", "pool"])
def test_eight_callers_claim_the_last_room_once(owned: Owned, bound: str) -> None:
    """Volumes grow by 3 GiB each where 7 are left: two grow, whoever asks first, and the accounting agree."""
    volumes = [attached(owned, 2) for _ in range(4)]
    assert owned.done("stopVirtualMachine", id=owned.vm)["jobstatus"] == 1
    zone = owned.fleet.zone
    if bound == "pool":
        zone.change("UPDATE storage_pools SET state = 'Maintenance' WHERE allocated_bytes = 0")
        zone.change(
            "UPDATE storage_pools p SET capacity_bytes = p.allocated_bytes + :capacity FROM (SELECT DISTINCT"
            " pool_id FROM volumes WHERE name = 'custom 2') v WHERE p.id = v.pool_id",
            capacity=7 * GIB,
        )
        for name in ("storage.overprovisioning.factor", "pool.storage.allocated.capacity.disablethreshold"):
            owned.fleet.set_value(name, 1)
    else:
        kind = "account" if "account" in bound else "domain"
        zone.change(
            "INSERT INTO resource_limits (owner_kind, owner_id, resource_type, max) SELECT :kind, c.owner_id, 10,"
            " c.amount + :capacity FROM resource_counts c JOIN accounts a ON a.name = 'acme' AND c.owner_id ="
            " CASE :kind WHEN 'account' THEN a.id ELSE a.domain_id END"
            " WHERE c.owner_kind = :kind AND c.resource_type = 10"
            " ON CONFLICT (owner_kind, owner_id, resource_type) DO UPDATE SET max = excluded.max",
            kind=kind,
            capacity=7 * GIB,
        )

    def grow(volume: str) -> int:
        try:
            owned.client.call("resizeVolume", id=volume, size=5)
        except ApiFailure as failure:
            return failure.status
        return 200

    with ThreadPoolExecutor(8) as threads:
        answers = sorted(threads.map(grow, volumes))
    pools = zone.scalar("SELECT count(DISTINCT pool_id) FROM volumes WHERE name = 'custom 2'")
    assert bound != "pool" or pools == 1
    assert answers == [200, 200, *([534 if bound == "pool" else 535] * 2)]
    assert sorted(owned.row(volume)["size"] for volume in volumes) == [2 * GIB, 2 * GIB, 5 * GIB, 5 * GIB]
    owned.fleet.assert_intact()


def test_jobs_in_a_queue_find_what_those_before_them_left(owned: Owned) -> None:
    """A detach before the resize: the job says that the VM does not have the volume any more."""
    volume = attached(owned)
    jobs = [owned.call("detachVolume", id=volume), owned.call("resizeVolume", id=volume, size=9)]
    for _ in jobs:
        owned.again()
    first, second = (owned.poll(job) for job in jobs)
    assert (first["jobstatus"], second["jobstatus"], second["jobresult"]["errorcode"]) == (1, 2, 530)
    assert "is no longer attached to the VM" in second["jobresult"]["errortext"]
    assert sizes(owned, volume) == (4 * GIB, 4 * GIB)


@pytest.mark.long
def test_a_volume_changed_by_eight_callers_at_once_has_one_size(owned: Owned) -> None:
    """Resized, attached, detached and deleted by eight callers: whatever order it was, the accounting agree."""
    for turn in range(3):
        volume, vm = custom(owned, 2), owned.vm
        calls: list[tuple[str, dict[str, object]]] = [
            ("resizeVolume", {"id": volume, "size": gib, "shrinkok": True}) for gib in (3, 4, 5, 1)
        ]
        calls += [
            ("attachVolume", {"id": volume, "virtualmachineid": vm}),
            ("detachVolume", {"id": volume}),
            ("updateVolume", {"id": volume, "name": f"turn {turn}"}),
            ("deleteVolume", {"id": volume}),
        ]

        def request(one: tuple[str, dict[str, object]]) -> int:
            try:
                owned.client.call(one[0], **one[1])
            except ApiFailure as failure:
                return failure.status
            return 200

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(request, calls)) <= {200, 431}
        for _ in range(3):
            owned.again()
        assert {job.status for job in owned.fleet.jobs()} <= {1, 2}
        owned.fleet.assert_intact()
