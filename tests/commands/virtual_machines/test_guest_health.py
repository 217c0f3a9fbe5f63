"""A replaced VM counts as available only if its guest answers the health check of the deployment."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from bulkdeploy.api.app import create_app
from bulkdeploy.drivers.guests import GuestCheck
from bulkdeploy.drivers.registry import Drivers
from bulkdeploy.drivers.simulator.control import FaultKind, Step, cut_off
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.watches import guest_health
from bulkdeploy.provisioning.watches.guest_health import GuestHealthWatch
from bulkdeploy.security.guest_networks import GuestNetworks
from bulkdeploy.services.system import System
from bulkdeploy.wiring.scheduled_work import due_managed_deployments
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving
from tests.support.api.callers import refused
from tests.support.processes.deaths import Died, dies_at
from tests.support.zones.fleet import Fleet, OneDriver

REPLACE, RESUME, UPDATE = "replaceBulkDeployment", "resumeBulkOperation", "updateBulkDeployment"


GUESTS = GuestNetworks.read(["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"])


@pytest.fixture
def system(system: System) -> System:
    """The service, with a setting that allows connections to the zone's guests."""
    return replace(system, guest_networks=GUESTS)


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
    GuestHealthWatch(fleet.engine, OneDriver(fleet.driver), 30, GUESTS).check_guests()


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
    fleet.zone.change("UPDATE async_jobs SET completed = completed - interval '1 hour'")
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


@pytest.mark.parametrize("answers_then", [True, False])
def test_guests_that_never_answer_count_as_failures(
    fleet: Fleet, client: ApiClient, web: str, answers_then: bool
) -> None:
    """After the timeout the replacement fails and keeps the VM. A resumption gives its guest the timeout again.

    A VM whose guest does not answer then is destroyed, and does not count twice.
    """
    old = {vm.uuid for vm in _live(fleet)}
    client.call(REPLACE, id=web, keypairs="")
    _step(fleet)
    fleet.fault(Step.HEALTH, FaultKind.PERMANENT)
    _step(fleet)
    (silent,) = _new(fleet, old)
    _time_out(fleet)
    assert _shown(client, web)["state"] == "Failed"
    client.call(RESUME, id=web)
    fleet.run()
    if not answers_then:
        _step(fleet)
        assert silent in {vm.uuid for vm in _live(fleet)}
        _time_out(fleet)
        assert silent not in {vm.uuid for vm in _live(fleet)}
    fleet.clear_faults()
    _steps_until(fleet, client, web, "Completed")
    assert (silent in {vm.uuid for vm in _live(fleet)}) is answers_then
    assert not old & {vm.uuid for vm in _live(fleet)}
    assert _shown(client, web)["failed"] == 0
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
        with dies_at(f"{Failpoint.SWEEP_HEALTH}.{place}"), pytest.raises(Died):
            _check(fleet)
        assert fleet.zone.scalar("SELECT count(*) FROM guest_health") == {"before": 0, "after": 4}[place]
    fleet.zone.change("UPDATE guest_health SET checked = now() + interval '1 minute'")
    fleet.fault(Step.HEALTH)
    GuestHealthWatch(fleet.engine, OneDriver(fleet.driver), 30, GUESTS).check_guests()
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

    watch = GuestHealthWatch(fleet.engine, OneDriver(RecordingDriver()), 30, GUESTS)
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


def test_only_listed_networks_are_connected_to(fleet: Fleet, client: ApiClient, web: str, system: System) -> None:
    """Without the setting, or with guests elsewhere, calls are rejected; the sweeper connects to no such guest."""
    _steps_after_replacing(fleet, client, web)
    fleet.zone.change("UPDATE nics SET ip_address = inet '127.0.0.0' + id WHERE is_default")
    fleet.zone.change("DELETE FROM guest_health")
    ids = {vm.uuid for vm in _live(fleet)}
    _time_out(fleet)
    assert fleet.zone.scalar("SELECT count(*) FROM guest_health") == 0
    assert _shown(client, web)["state"] == "InProgress"
    assert {vm.uuid for vm in _live(fleet)} == ids
    error = refused(client, UPDATE, id=web, healthcheck="tcp:80")
    assert "guest_health_networks" in error.errortext
    assert "127.0.0." in error.errortext
    client.call(REPLACE, id=web, pause=True)
    assert "guest_health_networks" in refused(client, REPLACE, id=web, rollback=True).errortext
    fleet.zone.change("UPDATE nics SET ip_address = NULL WHERE is_default")
    assert "has no IP address" in refused(client, REPLACE, id=web, rollback=True).errortext
    with serving(create_app(replace(system, guest_networks=GuestNetworks()))) as url:
        unset = ApiClient(url, client.api_key, client.secret_key)
        for command, given in (
            (UPDATE, {"id": web}),
            ("bulkDeployVirtualMachine", fleet.zone.bulk_parameters(1, managed=True)),
        ):
            error = refused(unset, command, **given, healthcheck="tcp:22")
            assert "guest_health_networks" in error.errortext


def _steps_after_replacing(fleet: Fleet, client: ApiClient, web: str) -> None:
    client.call(REPLACE, id=web, userdata="YQ==", method="Restore", maxunavailable=4)
    _step(fleet)


def test_agents_need_a_driver_that_asks_them(fleet: Fleet, client: ApiClient, web: str, system: System) -> None:
    """The check is rejected before anything is replaced."""
    with serving(create_app(replace(system, drivers=Drivers({})))) as url:
        error = refused(ApiClient(url, client.api_key, client.secret_key), UPDATE, id=web, healthcheck="agent")
    assert "healthcheck" in error.errortext
    assert fleet.zone.scalar("SELECT health_check FROM managed_deployments") == "tcp:22"


def test_a_timeout_needs_a_check_and_has_a_maximum(fleet: Fleet, client: ApiClient, web: str) -> None:
    """A deployment without a check gets no timeout."""
    assert "86400" in refused(client, UPDATE, id=web, healthtimeout=86401).errortext
    client.call(UPDATE, id=web, healthcheck="none")
    assert "healthcheck" in refused(client, UPDATE, id=web, healthtimeout=60).errortext
    deploying = fleet.zone.bulk_parameters(1, managed=True, healthtimeout=60)
    assert "healthcheck" in refused(client, "bulkDeployVirtualMachine", **deploying).errortext


def test_the_results_of_each_batch_are_written_before_the_next(
    fleet: Fleet, client: ApiClient, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results of the first guests do not wait for the last ones, and each batch has its own time."""
    monkeypatch.setattr(guest_health, "BATCH", 2)
    client.call(REPLACE, id=web, userdata="YQ==", method="Restore", maxunavailable=4)
    fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
    due_managed_deployments(fleet.system).handle()
    fleet.run()
    written: list[Any] = []

    class CountingDriver:
        def answers_of_guests(self, checks: Any, *, timeout_s: float) -> Any:
            written.append(fleet.zone.scalar("SELECT count(*) FROM guest_health"))
            return fleet.driver.answers_of_guests(checks, timeout_s=timeout_s)

    GuestHealthWatch(fleet.engine, OneDriver(CountingDriver()), 30, GUESTS).check_guests()
    assert written == [0, 2]
    assert fleet.zone.scalar("SELECT count(*) FROM guest_health") == 4
    assert fleet.zone.scalar("SELECT count(DISTINCT checked) FROM guest_health") == 2


def test_a_guest_that_has_answered_is_kept_after_a_migration(fleet: Fleet, client: ApiClient, web: str) -> None:
    """The VM is not available while its guest is silent, and does not count as failed."""
    old = {vm.uuid for vm in _live(fleet)}
    client.call(REPLACE, id=web, keypairs="")
    _step(fleet)
    _step(fleet)
    _check(fleet)
    (new,) = _new(fleet, old)
    client.call("migrateVirtualMachine", virtualmachineid=new, autoselect=True)
    fleet.run()
    fleet.fault(Step.HEALTH)
    _check(fleet)
    fleet.zone.change("UPDATE guest_health SET silent_since = silent_since - interval '1 hour'")
    fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
    due_managed_deployments(fleet.system).handle()
    assert (_shown(client, web)["state"], _shown(client, web)["failed"]) == ("InProgress", 0)
    assert new in {vm.uuid for vm in _live(fleet)}
    assert _shown(client, web)["unanswered"] == 1
    client.call(UPDATE, id=web, healthcheck="none")
    assert _shown(client, web)["unanswered"] == 0
