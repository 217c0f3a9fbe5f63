"""Deleting an account removes its VMs from their hosts, whatever dies, races or fails on the way."""

from typing import Any

import orjson
import pytest

from bulkdeploy.commands.registry import every_api
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.jobs import JobStatus
from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.services.accounts.accounts import delete_accounts, deleted, disable_account
from bulkdeploy.services.accounts.authority import AccountParameters
from tests.support.zones.fleet import Fleet

REMOVAL = "SELECT * FROM async_jobs WHERE cmd LIKE '%DeleteAccountCmd'"


def deploy_for_acme(fleet: Fleet) -> None:
    """Three VMs of account acme, not begun yet."""
    fleet.deploy(3, account="acme", domain_id=fleet.id_of("domains", "acme"))


def delete_acme(fleet: Fleet) -> None:
    """Delete account acme, as the API does."""
    account = fleet.zone.rows("SELECT id, uuid FROM accounts WHERE name = 'acme'")[0]
    ref = EntityRef(Entity.ACCOUNT, account.id, account.uuid, "acme")
    removed = fleet.change(delete_accounts, fleet.system.job_queue, fleet.caller, every_api(), [ref])
    fleet.change(deleted, fleet.caller, ref, removed)


def removal(fleet: Fleet) -> Any:
    """The job of the call, after a sweeper has looked at it."""
    fleet.sweeper().end_removals()
    (job,) = fleet.zone.rows(REMOVAL)
    return job


@pytest.mark.parametrize("begun", [True, False])
def test_the_job_ends_when_the_last_vm_is_gone(fleet: Fleet, *, begun: bool) -> None:
    """VMs that run are expunged, those whose deployment has not begun are cancelled; nothing is left."""
    deploy_for_acme(fleet)
    if begun:
        fleet.run()
    delete_acme(fleet)
    assert removal(fleet).status == JobStatus.IN_PROGRESS
    fleet.run()
    fleet.run()
    job = removal(fleet)
    assert (job.status, orjson.loads(job.result), job.result_code) == (JobStatus.SUCCEEDED, {"success": True}, 0)
    fleet.assert_nothing_held()


def test_the_job_that_disables_an_account_ends_when_its_vms_are_stopped(fleet: Fleet) -> None:
    """A client that waits for the job finds no VM of the account running. The job shows the account."""
    deploy_for_acme(fleet)
    fleet.run()
    account = fleet.zone.rows("SELECT id, uuid FROM accounts WHERE name = 'acme'")[0]
    requested = AccountParameters(EntityRef(Entity.ACCOUNT, account.id, account.uuid, "acme"))
    fleet.change(disable_account, fleet.system.job_queue, fleet.caller, every_api(), requested, lock=False)
    disabling = "SELECT * FROM async_jobs WHERE cmd LIKE '%DisableAccountCmd'"
    fleet.sweeper().end_removals()
    assert fleet.zone.rows(disabling)[0].status == JobStatus.IN_PROGRESS
    fleet.run()
    fleet.sweeper().end_removals()
    (job,) = fleet.zone.rows(disabling)
    assert (job.status, orjson.loads(job.result)["account"]["state"]) == (JobStatus.SUCCEEDED, "disabled")
    assert fleet.zone.scalar("SELECT count(*) FROM virtual_machines WHERE state <> 'Stopped'") == 0


def test_a_vm_that_slipped_in_is_found(fleet: Fleet) -> None:
    """A deployment that was committed just after its account was deleted is expunged by the sweeper."""
    deploy_for_acme(fleet)
    fleet.run()
    fleet.zone.change("UPDATE accounts SET removed = now() WHERE name = 'acme'")
    fleet.sweeper().expunge_destroyed()
    fleet.run()
    fleet.assert_nothing_held()


def test_hosts_that_do_not_answer_do_not_hold_the_job_for_ever(fleet: Fleet) -> None:
    """It fails in the end, with an object that says why; the VMs are removed as soon as that is possible."""
    deploy_for_acme(fleet)
    fleet.run()
    fleet.fault(Step.DELETE)
    delete_acme(fleet)
    fleet.run()
    fleet.zone.change("UPDATE async_jobs SET created = created - interval '2 hours'")
    job = removal(fleet)
    assert (job.status, job.result_code) == (JobStatus.FAILED, 530)
    assert "not removed from their hosts yet" in orjson.loads(job.result)["errortext"]
    fleet.clear_faults()
    fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE status = 0")
    fleet.sweeper().requeue_dropped()
    fleet.run()
    fleet.assert_nothing_held()
