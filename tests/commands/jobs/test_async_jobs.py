"""queryAsyncJobResult and listAsyncJobs (cloudstack-protocol.md 3)."""

import re
from dataclasses import replace

import pytest

from tests.support.api.api_client import ApiClient
from tests.support.api.callers import ACME, CUSTOMERS_ADMIN, refused
from tests.support.zones.fleet import Fleet

UNKNOWN = "00000000-0000-4000-8000-000000000000"
WIRE_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000")


@pytest.fixture
def acme(api_url: str, fleet: Fleet) -> ApiClient:
    """A plain user's client."""
    del fleet
    return ApiClient(api_url, *ACME)


def _deploy_for_acme(fleet: Fleet, acme: ApiClient) -> str:
    answer = acme.call(
        "deployVirtualMachine",
        zoneid=fleet.zone.id_of("zones", "small"),
        serviceofferingid=fleet.zone.id_of("service_offerings", "Small"),
        templateid=fleet.zone.id_of("templates", "Debian 12"),
    )
    return str(answer["jobid"])


def test_a_pending_job(fleet: Fleet, acme: ApiClient) -> None:
    """A job that was not run has status 0, code 0, no result and no end."""
    job_id = _deploy_for_acme(fleet, acme)
    job = acme.call("queryAsyncJobResult", jobid=job_id)
    assert (job["jobid"], job["jobstatus"], job["jobprocstatus"], job["jobresultcode"]) == (job_id, 0, 0, 0)
    assert {"jobresult", "jobresulttype", "completed"}.isdisjoint(job)
    assert (job["account"], job["domainpath"]) == ("acme", "ROOT/customers/acme")
    assert (job["jobinstancetype"], job["jobinstanceid"]) == ("VirtualMachine", str(fleet.vms()[0].uuid))
    assert WIRE_DATE.fullmatch(job["created"])


def test_a_finished_job_shows_each_role_what_it_may_see(fleet: Fleet, acme: ApiClient, client: ApiClient) -> None:
    """The result is one object; the host and the instance name in it are for root admins."""
    job_id = _deploy_for_acme(fleet, acme)
    fleet.run()
    job = acme.call("queryAsyncJobResult", jobid=job_id)
    assert (job["jobstatus"], job["jobresulttype"]) == (1, "object")
    assert WIRE_DATE.fullmatch(job["completed"])
    assert set(job["jobresult"]) == {"virtualmachine"}
    theirs = job["jobresult"]["virtualmachine"]
    ours = client.call("queryAsyncJobResult", jobid=job_id)["jobresult"]["virtualmachine"]
    hidden = {"hostid", "hostname", "instancename"}
    assert hidden <= set(ours)
    assert hidden.isdisjoint(theirs)
    assert theirs["nic"][0]["macaddress"] == ours["nic"][0]["macaddress"]
    assert isinstance(theirs["memory"], int)
    assert theirs["created"] == ours["created"]


def test_jobs_of_others_are_refused(fleet: Fleet, acme: ApiClient, client: ApiClient, api_url: str) -> None:
    """A job that somebody else made is not there; admins of domains above may look."""
    job_id = _deploy_for_acme(fleet, acme)
    fleet.deploy(1)
    mine = str(fleet.jobs()[-1].uuid)
    assert refused(acme, "queryAsyncJobResult", jobid=mine).status == 431
    for seer in (client, ApiClient(api_url, *CUSTOMERS_ADMIN)):
        assert seer.call("queryAsyncJobResult", jobid=job_id)["jobid"] == job_id
    assert refused(ApiClient(api_url, *CUSTOMERS_ADMIN), "queryAsyncJobResult", jobid=mine).status == 431


def test_a_poll_looks_up_caller_and_job_at_once_and_answers_as_one_after_the_other(
    fleet: Fleet, acme: ApiClient, client: ApiClient, api_url: str
) -> None:
    """A job's id in capitals, which is looked up after the caller, has the same answers to the byte, and errors."""
    mine = _deploy_for_acme(fleet, acme)
    admins = ApiClient(api_url, *CUSTOMERS_ADMIN)
    fleet.deploy(1)
    theirs = str(fleet.jobs()[-1].uuid)
    for finished in (False, True):
        if finished:
            fleet.run()
        for caller in (acme, admins, client):
            for job in (mine, theirs, UNKNOWN.replace("0", "a")):
                together, apart = (caller.get("queryAsyncJobResult", jobid=one) for one in (job, job.upper()))
                assert (together.status, together.text) == (apart.status, apart.text.replace(job.upper(), job))
    wrong = (replace(acme, secret_key="wrong"), replace(acme, api_key="nobody's"))
    for stranger in wrong:
        assert refused(stranger, "queryAsyncJobResult", jobid=mine).status == 401


def test_a_key_that_is_disabled_polls_no_more(fleet: Fleet, acme: ApiClient) -> None:
    """The next poll is refused, whatever a process had looked up before."""
    job_id = _deploy_for_acme(fleet, acme)
    assert acme.call("queryAsyncJobResult", jobid=job_id)["jobid"] == job_id
    fleet.zone.change("UPDATE users SET state = 'disabled' WHERE username = 'acme'")
    assert refused(acme, "queryAsyncJobResult", jobid=job_id).status == 401
    fleet.zone.change("UPDATE users SET state = 'enabled' WHERE username = 'acme'")
    assert acme.call("queryAsyncJobResult", jobid=job_id)["jobid"] == job_id


def test_unknown_and_expired_jobs_are_the_same(fleet: Fleet, client: ApiClient) -> None:
    """431 with the text that clients know, for ids that never were and for jobs that expired, swept or not."""
    fleet.deploy(1)
    fleet.run()
    job_id = str(fleet.jobs()[0].uuid)
    assert client.call("queryAsyncJobResult", jobid=job_id)["jobstatus"] == 1
    fleet.zone.change("UPDATE async_jobs SET completed = now() - interval '1441 minutes'")
    for gone in (UNKNOWN, job_id):
        failure = refused(client, "queryAsyncJobResult", jobid=gone)
        assert failure.status == 431
        assert f"Invalid parameter jobid value={gone} due to incorrect long value format" in failure.errortext
    assert client.call("listAsyncJobs", listall=True) == {}


def test_a_job_is_found_by_its_vm(fleet: Fleet, client: ApiClient) -> None:
    """With resourceid and resourcetype the last job of the VM is answered; one without the other is refused."""
    fleet.deploy(2)
    fleet.run()
    vm = str(fleet.vms()[1].uuid)
    stop = client.call("stopVirtualMachine", id=vm)["jobid"]
    found = client.call("queryAsyncJobResult", resourceid=vm, resourcetype="VirtualMachine")
    assert found["jobid"] == stop
    assert refused(client, "queryAsyncJobResult", resourceid=vm).status == 431
    assert refused(client, "queryAsyncJobResult").status == 431


def test_lists_honour_their_filters(fleet: Fleet, acme: ApiClient, client: ApiClient) -> None:
    """Own jobs only without listall; keyword matches the command, startdate the time, resourceid the VM."""
    job_id = _deploy_for_acme(fleet, acme)
    batch = fleet.deploy(3)
    fleet.run()
    assert [job["jobid"] for job in acme.call("listAsyncJobs", listall=True)["asyncjobs"]] == [job_id]
    assert client.call("listAsyncJobs")["count"] == 3
    assert client.call("listAsyncJobs", listall=True)["count"] == 4
    assert client.call("listAsyncJobs", listall=True, page=1, pagesize=2)["count"] == 4
    assert client.call("listAsyncJobs", listall=True, keyword="DeployVM")["count"] == 4
    assert client.call("listAsyncJobs", listall=True, keyword="Destroy") == {}
    assert client.call("listAsyncJobs", listall=True, startdate="2100-01-01T00:00:00+0000") == {}
    vm = str(fleet.vms()[0].uuid)
    of_vm = client.call("listAsyncJobs", listall=True, resourceid=vm, resourcetype="VirtualMachine")
    assert [job["jobid"] for job in of_vm["asyncjobs"]] == [job_id]
    of_batch = client.call("listAsyncJobs", listall=True, deploymentid=batch.uuid)
    assert of_batch["count"] == 3
    assert {job["deploymentid"] for job in of_batch["asyncjobs"]} == {str(batch.uuid)}


def test_a_vm_row_names_its_running_job(fleet: Fleet, acme: ApiClient) -> None:
    """While a job works on a VM its row carries jobid and jobstatus."""
    job_id = _deploy_for_acme(fleet, acme)
    (row,) = acme.call("listVirtualMachines")["virtualmachine"]
    assert (row["jobid"], row["jobstatus"]) == (job_id, 0)
    fleet.run()
    (row,) = acme.call("listVirtualMachines")["virtualmachine"]
    assert "jobid" not in row
