"""The driver for CloudStack lives with what a CloudStack does: each VM is made once, or is refused as it says."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.cloudstack.cloudstack_call import host_id_of
from bulkdeploy.drivers.contract import Caller, guests_of
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.embedded.valkey import free_port
from tests.cloudstack.driven import HOSTS, SUBJECTS, driven, new_driver

LEFT, RIGHT = HOSTS


def small_guest() -> GuestSpec:
    """A guest with a root volume, which one call deploys."""
    return SUBJECTS.new_guest(volumes=1)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Patiently."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_one_call_deploys_a_vm_where_it_was_planned(engine: Engine) -> None:
    """With our id on both sides; its password is the one that was given."""
    guest = replace(small_guest(), password="secret", host_name="web-1")
    with driven(engine) as (upstream, driver):
        Caller(driver).run(LEFT, guest)
        assert upstream.running() == {str(guest.uuid): host_id_of(LEFT)}
        assert (upstream.calls["deployVirtualMachine"], upstream.passwords[str(guest.uuid)]) == (1, "secret")
        assert upstream.vms[str(guest.uuid)]["name"] == "web-1"


def test_a_guest_gets_the_password_that_its_owner_is_told_or_is_not_made(engine: Engine) -> None:
    """4.18 generates passwords, which only its jobs' results have: no guest with an unknown password is made."""
    guest = replace(small_guest(), password="secret")
    with driven(engine, release="4.18") as (upstream, driver):
        with pytest.raises(DriverError, match=r"CloudStack 4\.18\.1\.0 does not accept passwords") as refused:
            Caller(driver).run(LEFT, guest)
        assert not refused.value.transient
        assert (upstream.vms, upstream.passwords) == ({}, {})
        Caller(driver).run(LEFT, replace(guest, password=None))
    with driven(engine) as (upstream, driver):
        for _ in range(2):
            Caller(driver).run(LEFT, guest)
            assert upstream.passwords == {next(iter(upstream.vms)): "secret"}
            Caller(driver).stop(LEFT, guest)
            upstream.passwords.clear()


@pytest.mark.parametrize("volumes", [1, 2])
@pytest.mark.parametrize("command", ["deployVirtualMachine", "startVirtualMachine"])
def test_a_lost_answer_is_found_again(engine: Engine, command: str, volumes: int) -> None:
    """The VM is looked for by the id that it was given, and not made again."""
    guest = SUBJECTS.new_guest(volumes=volumes)
    with driven(engine) as (upstream, driver):
        upstream.habits.lost[command] = 1
        Caller(driver).run(LEFT, guest)
        assert upstream.running() == {str(guest.uuid): host_id_of(LEFT)}
        assert upstream.calls["deployVirtualMachine"] == 1


def test_a_cloud_that_cannot_be_reached_does_not_answer(engine: Engine) -> None:
    """The job waits for it, and no other host is tried: nothing was refused."""
    driver = new_driver(f"http://127.0.0.1:{free_port()}/client/api", engine)
    with pytest.raises(DriverError, match="Connection refused") as silence:
        driver.ensure_running(LEFT, small_guest(), fence=1, timeout_s=1)
    assert silence.value.unanswered
    driver.close()


def test_lost_answers_are_found_together(engine: Engine) -> None:
    """Several VMs whose answers were lost are looked for in one list call."""
    guests = [small_guest() for _ in range(12)]
    with driven(engine, poll_seconds=0.2) as (upstream, driver), ThreadPoolExecutor(12) as threads:
        upstream.habits.lost["deployVirtualMachine"] = len(guests)
        upstream.habits.slow_list_s = 0.1
        list(threads.map(lambda guest: Caller(driver).run(LEFT, guest), guests))
        assert upstream.calls["deployVirtualMachine"] == len(upstream.running()) == len(guests)
        assert upstream.most_ids > 1


def test_a_restart_ends_jobs_and_not_vms(engine: Engine) -> None:
    """What its jobs were making is looked at, and finished."""
    guests = [small_guest() for _ in range(4)]
    with driven(engine) as (upstream, driver), ThreadPoolExecutor(4) as threads:
        upstream.habits.start_s = 1.0
        made = [threads.submit(Caller(driver).run, LEFT, guest) for guest in guests]
        wait_until(lambda: any(vm["state"] == "Starting" for vm in list(upstream.vms.values())))
        upstream.restart()
        upstream.habits.start_s = 0.0
        for one in made:
            one.result()
        assert upstream.running() == {str(guest.uuid): host_id_of(LEFT) for guest in guests}
        assert len(upstream.volumes) == len(guests)


def test_lists_that_are_late_hide_nothing(engine: Engine) -> None:
    """A VM that is not listed yet is not made twice, and a removal does not take it for gone."""
    first, second = small_guest(), small_guest()
    with driven(engine) as (upstream, driver):
        upstream.habits.list_lag_s = 0.5
        Caller(driver).run(LEFT, first)
        upstream.habits.lost["deployVirtualMachine"] = 1
        Caller(driver).run(LEFT, second)
        assert sorted(upstream.running()) == sorted([str(first.uuid), str(second.uuid)])
        upstream.habits.list_lag_s = 3600.0
        Caller(driver).remove(LEFT, first)
        assert list(upstream.running()) == [str(second.uuid)]


def test_a_refusal_keeps_its_code_and_text(engine: Engine) -> None:
    """Overloaded and full may pass, a taken name does not; nothing is left, and what passed is made later."""
    guest = replace(small_guest(), host_name="web-1")
    with driven(engine) as (upstream, driver):
        caller = Caller(driver)
        for habit, code, text, transient in (
            ("overloaded", "530", "the management server is overloaded", True),
            ("names", "431", "The vm with hostName web-1 already exists in the network domain", False),
            ("capacity", "533", "Unable to create a deployment for VM instance", True),
        ):
            usual = getattr(upstream.habits, habit)
            setattr(upstream.habits, habit, {"overloaded": 1, "names": {"web-1"}}.get(habit, {host_id_of(LEFT): 0}))
            with pytest.raises(DriverError) as refused:
                caller.run(LEFT, guest)
            assert f": {code} " in refused.value.reason
            assert text in refused.value.reason
            assert refused.value.transient is transient
            setattr(upstream.habits, habit, usual)
            caller.remove(LEFT, guest)
            assert (upstream.vms, upstream.volumes) == ({}, {})
        caller.run(LEFT, guest)
        assert len(upstream.running()) == 1


def test_a_host_that_is_fuller_than_we_think_sends_the_vm_elsewhere(engine: Engine) -> None:
    """Under another id, since ids are given once; ours stays what it was."""
    guest = small_guest()
    with driven(engine) as (upstream, driver):
        upstream.habits.capacity = {host_id_of(LEFT): 0}
        with pytest.raises(DriverError):
            Caller(driver).run(LEFT, guest)
        Caller(driver).remove(LEFT, guest)
        Caller(driver).run(RIGHT, guest)
        assert list(upstream.running().values()) == [host_id_of(RIGHT)]
        assert str(guest.uuid) not in upstream.vms
        assert guests_of(driver)[guest.uuid].host_uuid == RIGHT.uuid
        assert guests_of(driver)[guest.uuid].volume_uuids == {guest.volumes[0].uuid}


def test_limits_of_calls_slow_down_and_fail_nothing(engine: Engine) -> None:
    """So many calls a second, one job at a time, slow lists: all are made, with one deploy call each."""
    guests = [small_guest() for _ in range(12)]
    with driven(engine, job_threads=1, poll_seconds=0.2) as (upstream, driver), ThreadPoolExecutor(12) as threads:
        upstream.habits.calls_per_s, upstream.habits.one_at_a_time, upstream.habits.start_s = 8, True, 0.02
        upstream.habits.slow_list_s = 0.1
        list(threads.map(lambda guest: Caller(driver).run(LEFT, guest), guests))
        assert len(upstream.running()) == upstream.calls["deployVirtualMachine"] == len(guests)


def test_looks_are_shared_by_all_who_wait(engine: Engine) -> None:
    """However many VMs start at once, a list call looks at several of them."""
    guests = [small_guest() for _ in range(12)]
    with driven(engine, poll_seconds=0.2) as (upstream, driver), ThreadPoolExecutor(12) as threads:
        upstream.habits.start_s = 0.5
        list(threads.map(lambda guest: Caller(driver).run(LEFT, guest), guests))
        assert upstream.calls["deployVirtualMachine"] == len(upstream.running()) == len(guests)
        assert upstream.most_ids > 1


def test_two_services_beside_each_other_end_in_retries(engine: Engine) -> None:
    """VMs of others are not ours to list or to remove, and take room that we did not count."""
    ours, more = small_guest(), small_guest()
    with driven(engine) as (upstream, driver):
        other = {"id": "00000000-0000-4000-8000-00000000abcd", "name": "theirs", "state": "Running"}
        upstream.vms[other["id"]] = {**other, "hostid": host_id_of(LEFT), "made": 0.0, "nic": []}
        upstream.habits.capacity = {host_id_of(LEFT): 2}
        Caller(driver).run(LEFT, ours)
        with pytest.raises(DriverError) as refused:
            Caller(driver).run(LEFT, more)
        assert refused.value.transient
        Caller(driver).remove(LEFT, more)
        assert set(guests_of(driver)) == {ours.uuid}
        assert sorted(upstream.running()) == sorted([other["id"], str(ours.uuid)])
