"""A replaced VM counts as available only if its guest answers the health check of the deployment."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from bulkdeploy.drivers.driver import GuestCheck
from bulkdeploy.drivers.simulator.control import FaultKind, Step, cut_off
from bulkdeploy.processes.failpoints import Failpoint, arm
from bulkdeploy.provisioning.watches.guest_health import GuestHealthWatch
from bulkdeploy.wiring.scheduled_work import due_managed_deployments
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.zones.fleet import Fleet, OneDriver

REPLACE, RESUME, UPDATE = "replaceBulkDeployment", "resumeBulkOperation", "updateBulkDeployment"


class Died(BaseException):
    """A process that ends at a failpoint."""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)


@pytest.fixture
def web(fleet: Fleet, client: ApiClient) -> str:
    """A managed deployment of four running VMs with a health check; its id."""
    call = fleet.zone.bulk_parameters(4, nameprefix="web", managed=True, healthcheck="tcp:22")
    job = client.call("bulkDeployVirtualMachine", **call)["asyncjobs"][0]
    fleet.run()
    return str(job["deploymentid"])


def _check(fleet: Fleet) -> None:
    """Check all guests now, however lately they were checked."""
    fleet.zone.change("UPDATE guest_health SET checked = checked - interval '10 seconds'")
    GuestHealthWatch(fleet.engine, OneDriver(fleet.driver), 30).check_guests()


def _step(fleet: Fleet) -> None:
    """Check the guests, let the sweeper take a step, and let all jobs end."""
    _check(fleet)
    fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
    due_managed_deployments(fleet.system).handle()
    fleet.run()


def _time_out(fleet: Fleet) -> None:
    """Let the timeout of guests that do not answer pass."""
    _check(fleet)
    fleet.zone.change("UPDATE guest_health SET silent_since = silent_since - interval '1 hour'")
    fleet.zone.change("UPDATE virtual_machines SET updated = updated - interval '1 hour'")
    fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
    due_managed_deployments(fleet.system).handle()
    fleet.run()


def _steps_until(fleet: Fleet, client: ApiClient, web: str, state: str) -> None:
    for _ in range(20):
        _step(fleet)
        if _shown(client, web)["state"] == state:
            return
    raise AssertionError(_shown(client, web))


def _shown(client: ApiClient, web: str) -> dict[str, Any]:
    (row,) = client.call("listBulkDeployments", id=web)["bulkdeployment"]
    return dict(row["replacement"][0])


def _live(fleet: Fleet) -> list[Any]:
    return [vm for vm in fleet.vms() if vm.state not in ("Destroyed", "Expunging") and vm.removed is None]


def _new(fleet: Fleet, old: set[UUID]) -> set[UUID]:
    return {vm.uuid for vm in _live(fleet)} - old


def test_a_replacement_waits_for_guests_that_do_not_answer(fleet: Fleet, client: ApiClient, web: str) -> None:
    """One VM at a time is replaced. While its guest does not answer, no other VM is touched."""
    old = {vm.uuid for vm in _live(fleet)}
    client.call(REPLACE, id=web, keypairs="")
    _step(fleet)
    fleet.fault(Step.HEALTH)
    for _ in range(4):
        _step(fleet)
    assert len(_new(fleet, old)) == 1
    assert len(_live(fleet)) == 4
    assert (_shown(client, web)["replaced"], _shown(client, web)["unanswered"]) == (1, 1)
    fleet.clear_faults()
    _steps_until(fleet, client, web, "Completed")
    assert not old & {vm.uuid for vm in _live(fleet)}
    fleet.assert_intact()
    assert fleet.zone.scalar("SELECT count(*) FROM guest_health WHERE silent_since IS NOT NULL") == 0


def test_guests_that_never_answer_count_as_failures(fleet: Fleet, client: ApiClient, web: str) -> None:
    """After the timeout the replacement fails and keeps the VM; a resumption makes another VM in its place."""
    old = {vm.uuid for vm in _live(fleet)}
    client.call(REPLACE, id=web, keypairs="")
    _step(fleet)
    fleet.fault(Step.HEALTH, FaultKind.PERMANENT)
    _step(fleet)
    (silent,) = _new(fleet, old)
    _time_out(fleet)
    assert _shown(client, web)["state"] == "Failed"
    assert silent in {vm.uuid for vm in _live(fleet)}
    fleet.clear_faults()
    client.call(RESUME, id=web)
    fleet.run()
    _steps_until(fleet, client, web, "Completed")
    assert not {silent, *old} & {vm.uuid for vm in _live(fleet)}
    assert len(_live(fleet)) == 4
    fleet.assert_intact()


def test_restored_guests_that_never_answer_count_as_failures(fleet: Fleet, client: ApiClient, web: str) -> None:
    """The VM stays, and is restored again after a resumption. The replacement does not end before guests answer."""
    ids = [vm.uuid for vm in _live(fleet)]
    client.call(REPLACE, id=web, userdata="YQ==", method="Restore", maxunavailable=2, maxfailures=1)
    _step(fleet)
    fleet.fault(Step.HEALTH)
    for _ in range(3):
        _step(fleet)
    assert _shown(client, web)["replaced"] == 2
    _time_out(fleet)
    assert (_shown(client, web)["state"], _shown(client, web)["failed"]) == ("Failed", 2)
    fleet.clear_faults()
    client.call(RESUME, id=web)
    _steps_until(fleet, client, web, "Completed")
    assert [vm.uuid for vm in _live(fleet)] == ids
    restored = "SELECT count(*) FROM async_jobs WHERE kind = 'restore_virtual_machine' AND status = 1"
    assert fleet.zone.scalar(restored) == 6
    fleet.assert_intact()


def test_a_sweeper_that_dies_while_it_writes_answers_loses_nothing(
    fleet: Fleet, client: ApiClient, web: str
) -> None:
    """The next check finds the same; an answer that comes late does not replace a newer one."""
    client.call(REPLACE, id=web, userdata="YQ==", method="Restore", maxunavailable=4)
    _step(fleet)
    for place in ("before", "after"):

        def die(at: str, place: str = place) -> None:
            if at == f"{Failpoint.SWEEP_HEALTH}.{place}":
                raise Died

        arm(die)
        with pytest.raises(Died):
            _check(fleet)
        arm(None)
        assert fleet.zone.scalar("SELECT count(*) FROM guest_health") == {"before": 0, "after": 4}[place]
    fleet.zone.change("UPDATE guest_health SET checked = now() + interval '1 minute'")
    fleet.fault(Step.HEALTH)
    GuestHealthWatch(fleet.engine, OneDriver(fleet.driver), 30).check_guests()
    assert fleet.zone.scalar("SELECT count(*) FROM guest_health WHERE silent_since IS NOT NULL") == 0
    fleet.clear_faults()
    _steps_until(fleet, client, web, "Completed")
    fleet.assert_intact()


def test_guests_of_a_silent_host_do_not_answer_and_others_are_not_checked(
    fleet: Fleet, client: ApiClient, web: str
) -> None:
    """Only guests of replaced VMs are asked, with their addresses."""
    checks_made: list[GuestCheck] = []

    class RecordingDriver:
        def answers_of_guests(self, checks: Any, *, timeout_s: float) -> Any:
            checks_made.extend(checks)
            return fleet.driver.answers_of_guests(checks, timeout_s=timeout_s)

    watch = GuestHealthWatch(fleet.engine, OneDriver(RecordingDriver()), 30)
    watch.check_guests()
    assert checks_made == []
    fleet.deploy(1)
    fleet.run()
    client.call(REPLACE, id=web, userdata="YQ==", method="Restore", maxunavailable=4)
    watch.check_guests()
    assert checks_made == []
    _step(fleet)
    cut_off(
        fleet.control,
        str(
            fleet.zone.scalar(
                "SELECT h.name FROM hosts h JOIN virtual_machines v ON v.host_id = h.id ORDER BY v.id LIMIT 1"
            )
        ),
    )
    watch.check_guests()
    assert len(checks_made) == 4
    assert {one.check.port for one in checks_made} == {22}
    addresses = {str(row.ip) for row in fleet.zone.rows("SELECT host(ip_address) AS ip FROM nics")}
    assert {one.address for one in checks_made} <= addresses
    silent = fleet.zone.scalar("SELECT count(*) FROM guest_health WHERE silent_since IS NOT NULL")
    assert silent == fleet.zone.scalar(
        "SELECT count(*) FROM virtual_machines WHERE deployment_id = (SELECT min(id) FROM deployments)"
        " AND host_id = (SELECT host_id FROM virtual_machines ORDER BY id LIMIT 1)"
    )


def test_the_check_is_given_shown_changed_and_ended(fleet: Fleet, client: ApiClient, web: str) -> None:
    """Checks that are none are rejected, and a deployment without one needs no answers."""

    def shown() -> tuple[Any, Any]:
        (row,) = client.call("listBulkDeployments", id=web)["bulkdeployment"]
        return row.get("healthcheck"), row.get("healthtimeout")

    assert shown() == ("tcp:22", 300)
    for wrong in ("tcp", "tcp:0", "tcp:65536", "tcp:٢٢", "http:80"):
        for command, given in (
            (UPDATE, {"id": web}),
            ("bulkDeployVirtualMachine", fleet.zone.bulk_parameters(1, managed=True)),
        ):
            error = refused(client, command, **given, healthcheck=wrong)
            assert "healthcheck" in error.errortext
    client.call(UPDATE, id=web, healthcheck="agent", healthtimeout=60)
    assert shown() == ("agent", 60)
    client.call(UPDATE, id=web, healthcheck="none")
    assert shown() == (None, None)
    fleet.fault(Step.HEALTH)
    client.call(REPLACE, id=web, keypairs="")
    _steps_until(fleet, client, web, "Completed")
    assert fleet.zone.scalar("SELECT count(*) FROM guest_health") == 0
