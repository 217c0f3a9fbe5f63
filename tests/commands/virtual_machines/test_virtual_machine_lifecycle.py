"""startVirtualMachine, stopVirtualMachine, destroyVirtualMachine as clients call them."""

from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from bulkdeploy.api.app import create_app
from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.services.system import System
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving
from tests.support.api.callers import ACME, CUSTOMERS_ADMIN, refused
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.zones.fleet import Fleet


@pytest.fixture
def acme(api_url: str, fleet: Fleet) -> ApiClient:
    """A plain user's client."""
    del fleet
    return ApiClient(api_url, *ACME)


@pytest.fixture
def owned(fleet: Fleet) -> Fleet:
    """A fleet with one running VM of account acme."""
    fleet.deploy(1, account="acme", domain_id=fleet.id_of("domains", "acme"))
    fleet.run()
    assert fleet.vms()[0].state == "Running"
    return fleet


def _vm(fleet: Fleet) -> str:
    return str(fleet.vms()[0].uuid)


def _finish(fleet: Fleet, client: ApiClient, answer: dict[str, Any]) -> dict[str, Any]:
    """Run the job of an answer, and what it polls then."""
    assert set(answer) == {"jobid"}
    fleet.run()
    return client.call("queryAsyncJobResult", jobid=answer["jobid"])


def test_the_owner_stops_starts_and_destroys(owned: Fleet, acme: ApiClient) -> None:
    """Each call answers a job, whose result is the VM in its new state."""
    for command, state in (
        ("stopVirtualMachine", "Stopped"),
        ("startVirtualMachine", "Running"),
        ("destroyVirtualMachine", "Destroyed"),
    ):
        job = _finish(owned, acme, acme.call(command, id=_vm(owned)))
        assert (job["jobstatus"], job["jobresultcode"]) == (1, 0)
        assert job["jobresult"]["virtualmachine"]["state"] == state
        assert (job["jobinstancetype"], job["jobinstanceid"]) == ("VirtualMachine", _vm(owned))
    owned.assert_intact()


def test_calls_are_queued_behind_each_other(owned: Fleet, acme: ApiClient) -> None:
    """Calls made one after the other without waiting are all accepted and done in their order."""
    jobs = [
        acme.call(command, id=_vm(owned))["jobid"]
        for command in ("stopVirtualMachine", "startVirtualMachine", "stopVirtualMachine", "destroyVirtualMachine")
    ]
    for _ in jobs:
        owned.run()
        owned.zone.change("UPDATE async_jobs SET retry_at = now() WHERE phase = 'waiting'")
    assert [acme.call("queryAsyncJobResult", jobid=job)["jobstatus"] for job in jobs] == [1] * 4
    assert owned.vms()[0].state == "Destroyed"
    owned.assert_intact()


def test_jobs_are_made_even_while_redis_is_away(owned: Fleet, system: System) -> None:
    """A call made while the message broker is away is answered; its job waits in the outbox."""
    away = System(system.engine, CeleryJobQueue("redis://127.0.0.1:1/0"), system.cipher, system.data_dir, SIMULATED)
    with serving(create_app(away)) as url:
        answer = ApiClient(url, *ACME).call("stopVirtualMachine", id=_vm(owned))
    assert set(answer) == {"jobid"}
    assert owned.zone.scalar("SELECT count(*) FROM outbox WHERE kind = 'stop_virtual_machine'") == 1


def test_a_call_is_an_event(owned: Fleet, acme: ApiClient) -> None:
    """A call leaves Scheduled, its job Started and Completed, all of one action."""
    acme.call("stopVirtualMachine", id=_vm(owned))
    owned.run()
    rows = owned.zone.rows("SELECT * FROM events WHERE event_type = 'VM.STOP' ORDER BY id")
    assert [row.state for row in rows] == ["Scheduled", "Started", "Completed"]
    assert [row.parent_uuid for row in rows] == [None, rows[0].uuid, rows[0].uuid]


def test_a_failed_job_says_why(owned: Fleet, acme: ApiClient, client: ApiClient) -> None:
    """A job that fails has status 2, code 530, and an object with the true code and the reason.

    Which hosts no rule lets it start on, root admins see, each rule with its text and remedy.
    """
    acme.call("stopVirtualMachine", id=_vm(owned))
    owned.run()
    owned.zone.change("UPDATE hosts SET resource_state = 'Disabled'")
    job = _finish(owned, acme, acme.call("startVirtualMachine", id=_vm(owned)))
    assert (job["jobstatus"], job["jobresultcode"], job["jobresult"]["errorcode"]) == (2, 530, 533)
    assert "no host has room" in job["jobresult"]["errortext"]
    reported = client.call("queryAsyncJobResult", jobid=job["jobid"])["jobresult"]
    excluded = {row["reason"]: row for row in reported.pop("excluded")}
    assert reported == job["jobresult"]
    disabled = excluded["host_not_enabled"]
    assert (disabled["text"], disabled["hosts"]) == ("the host is disabled or in maintenance", 3)
    assert "maintenance" in disabled["remedy"]


def test_others_may_not_touch_it(owned: Fleet, api_url: str, acme: ApiClient) -> None:
    """A VM of another account is not there; to an admin of a domain above it is."""
    owned.deploy(1)
    other = str(owned.vms()[1].uuid)
    for command in ("startVirtualMachine", "stopVirtualMachine", "destroyVirtualMachine"):
        assert refused(acme, command, id=other).status == 431
    admin = ApiClient(api_url, *CUSTOMERS_ADMIN)
    assert set(admin.call("stopVirtualMachine", id=_vm(owned))) == {"jobid"}
    assert refused(admin, "stopVirtualMachine", id=other).status == 431


def test_states_that_do_not_fit_are_refused(owned: Fleet, acme: ApiClient) -> None:
    """Starting what runs is an error that names the state and the ones accepted; no job is made."""
    failure = refused(acme, "startVirtualMachine", id=_vm(owned))
    assert failure.status == 431
    assert "Running" in failure.errortext
    assert "Stopped" in failure.errortext
    assert len(owned.jobs()) == 1


def test_a_protected_vm_is_not_destroyed(owned: Fleet, acme: ApiClient) -> None:
    """Delete protection refuses destroyVirtualMachine for everybody."""
    owned.zone.change("UPDATE virtual_machines SET delete_protection = true")
    failure = refused(acme, "destroyVirtualMachine", id=_vm(owned))
    assert (failure.status, "has delete protection enabled" in failure.errortext) == (431, True)


def test_users_expunge_only_where_they_are_let(owned: Fleet, acme: ApiClient) -> None:
    """``expunge`` is for admins, and for users under ``allow.user.expunge.recover.vm``."""
    assert refused(acme, "destroyVirtualMachine", id=_vm(owned), expunge=True).status == 531
    owned.zone.change(
        "INSERT INTO configuration_values VALUES ('Global', 0, 'allow.user.expunge.recover.vm', 'true')"
    )
    _finish(owned, acme, acme.call("destroyVirtualMachine", id=_vm(owned), expunge=True))
    assert owned.vms()[0].removed is not None
    owned.assert_nothing_held()


def test_users_force_only_where_they_are_let(owned: Fleet, acme: ApiClient) -> None:
    """``forced`` is refused to users when ``allow.user.force.stop.vm`` is false."""
    owned.zone.change("INSERT INTO configuration_values VALUES ('Global', 0, 'allow.user.force.stop.vm', 'false')")
    assert refused(acme, "stopVirtualMachine", id=_vm(owned), forced=True).status == 531
    assert set(acme.call("stopVirtualMachine", id=_vm(owned))) == {"jobid"}


def test_an_expunged_vm_is_gone(owned: Fleet, client: ApiClient) -> None:
    """Nothing can be done with a VM that was expunged."""
    _finish(owned, client, client.call("destroyVirtualMachine", id=_vm(owned), expunge=True))
    failure = refused(client, "startVirtualMachine", id=_vm(owned))
    assert (failure.status, "expunged" in failure.errortext) == (431, True)


def test_only_root_admins_pin_a_start(owned: Fleet, acme: ApiClient, client: ApiClient) -> None:
    """A host given by a user is ignored, as CloudStack does; given by a root admin it counts."""
    owned.zone.change("UPDATE storage_pools SET scope = 'ZONE', cluster_id = NULL, pod_id = NULL")
    host = owned.zone.id_of("hosts", "b-2-3")
    acme.call("stopVirtualMachine", id=_vm(owned))
    owned.run()
    acme.call("startVirtualMachine", id=_vm(owned), hostid=host)
    assert owned.jobs()[-1].params == {"consider_last_host": True}
    owned.run()
    acme.call("stopVirtualMachine", id=_vm(owned))
    owned.run()
    client.call("startVirtualMachine", id=_vm(owned), hostid=host)
    owned.run()
    assert owned.vms()[0].host_id == owned.id_of("hosts", "b-2-3")


def test_a_call_that_made_its_job_is_answered_though_the_database_goes_away(owned: Fleet, acme: ApiClient) -> None:
    """When only the outbox could not be cleared any more, the call has done its work and says so."""

    def fault(place: str) -> None:
        if place == f"{Failpoint.CALL_CLEAR}.before":
            raise OperationalError("DELETE", {}, psycopg.OperationalError("gone"), connection_invalidated=True)

    failpoints.arm(fault)
    try:
        answer = acme.call("stopVirtualMachine", id=_vm(owned))
    finally:
        failpoints.arm(None)
    assert owned.zone.scalar("SELECT count(*) FROM outbox") == 1
    assert _finish(owned, acme, answer)["jobstatus"] == 1


def test_a_single_deployment_is_not_cancelled(owned: Fleet, client: ApiClient) -> None:
    """CancelBulkDeployment refuses what no bulk call made, in words."""
    owned.deploy(1, bulk=False)
    deployment = owned.zone.scalar("SELECT uuid FROM deployments WHERE NOT bulk")
    error = refused(client, "cancelBulkDeployment", id=deployment)
    assert error.errorcode == 431
    assert "deployment of a single virtual machine" in error.errortext
