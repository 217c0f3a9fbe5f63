"""The pages of a VM and of a job, and the actions on one or many VMs."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlencode

from flask import Response

from bulkdeploy.cli import failures
from bulkdeploy.cli.connection.catalogue import Api, Catalogue
from bulkdeploy.cli.deployments.explain import explain_job
from bulkdeploy.console.calls import ApiRefused, Row
from bulkdeploy.console.graphs import vm_graphs
from bulkdeploy.console.nouns import VMS
from bulkdeploy.console.pages.deploy import COMMAND as DEPLOY
from bulkdeploy.console.pages.deploy import like
from bulkdeploy.console.pages.things import actions_of
from bulkdeploy.console.rendering import PAGE_ADDRESS, address
from bulkdeploy.console.table_declarations import TABLES, bulk_command
from bulkdeploy.console.visit import Visit

NOT_FOUND = 404
RECENT = 20
FAILED = ("Error",)
PASSING = ("Starting", "Stopping", "Migrating", "Expunging")
ACTIONS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "startVirtualMachine": ("Stopped",),
        "stopVirtualMachine": ("Running",),
        "rebootVirtualMachine": ("Running",),
        "recoverVirtualMachine": ("Destroyed",),
        "destroyVirtualMachine": ("Running", "Stopped", "Error"),
        "expungeVirtualMachine": ("Destroyed",),
    }
)
"""What can be done to a VM, and in which states it makes sense."""
AT_ONCE = ("startVirtualMachine", "recoverVirtualMachine")
"""What needs no second thought."""
JOB_OF = {"resourcetype": "VirtualMachine"}


def virtual_machine(visit: Visit) -> Response:
    """Return the page of a VM."""
    return visit.page("virtual_machine.html", **_values(visit))


def virtual_machine_live(visit: Visit) -> Response:
    """Return the part of a VM's page that is refreshed periodically."""
    return visit.page("fragments/virtual_machine.html", **_values(visit))


def job(visit: Visit) -> Response:
    """Return the page of a job."""
    return visit.page("job.html", **_job_values(visit))


def job_live(visit: Visit) -> Response:
    """Return the part of a job's page that is refreshed periodically."""
    return visit.page("fragments/job.html", **_job_values(visit))


def change(visit: Visit) -> Response:
    """Run an action on the selected VMs, or on all VMs that match the table's filters, by one bulk operation.

    An action that stops running VMs asks for confirmation first. The question shows the result of a dry run: the
    number of VMs, their names, and the VMs that are left out with reasons.
    """
    action, back = visit.form.get("action", ""), visit.form.get("next", "")
    back = back if PAGE_ADDRESS.fullmatch(back) else "virtual-machines"
    chosen = _chosen(visit, back)
    if action not in ACTIONS or not chosen or bulk_command(action) not in visit.may:
        return Response(status=303, headers={"Location": back})
    if action not in AT_ONCE and "sure" not in visit.form:
        return _confirm(action, chosen, back, visit)
    given = {**chosen, "partial": True, "requesttoken": visit.form.get("requesttoken", "")}
    done = visit.calls(bulk_command(action), given)
    left_out = _by_reason(done.get("failed") or ())
    if left_out:
        return visit.page("changed.html", 422, refused=left_out, begun=done["count"], back=back, action=action)
    where = back if done["count"] == 1 else address("bulk-operation", id=done["operationid"])
    return Response(status=303, headers={"Location": where})


def _chosen(visit: Visit, back: str) -> dict[str, Any]:
    """Return the selection of a bulk operation: the ids of rows, or the filters of the table.

    Empty if there is none.
    """
    if "everything" in visit.form:
        given = dict(parse_qsl(back.partition("?")[2]))
        filters = {one.name for one in TABLES["virtual-machines"].filters}
        return {"listall": True, **{name: value for name, value in given.items() if name in filters}}
    ids = visit.request.form.getlist("id")
    return {"ids": ",".join(ids)} if ids else {}


def _confirm(action: str, chosen: Mapping[str, Any], back: str, visit: Visit) -> Response:
    """Return the page that asks for confirmation of an action, with the result of its dry run."""
    texts = visit.pages.texts
    checked = visit.calls(bulk_command(action), {**chosen, "dryrun": True, "summary": True})["bulkoperation"]
    count, names = checked["count"], [str(vm["name"]) for vm in checked["virtualmachines"]]
    left_out = _by_reason(checked.get("failed") or ())
    unnamed = checked["failedcount"] - sum(left_out.values())
    if unnamed:
        left_out[texts.tables.other_reasons] = unnamed
    if not count:
        return visit.page("changed.html", 422, refused=left_out, begun=0, back=back, action=action)
    more = [texts.tables.more(count=count - len(names))] if count > len(names) else []
    kept = [("everything", "1")] if "everything" in visit.form else []
    return visit.page(
        "confirm.html",
        title=texts.questions.get(action + "_title")(count=count),
        text=texts.questions.get(action),
        yes=texts.questions.get(action + "_yes")(count=count),
        action="virtual-machines-change",
        fields=[
            ("action", action),
            ("next", back),
            ("requesttoken", secrets.token_urlsafe(16)),
            *kept,
            *(("id", one) for one in ([] if kept else visit.request.form.getlist("id"))),
        ],
        back=back,
        names=[*names, *more],
        skipped=left_out,
    )


def _by_reason(failed: Sequence[Row]) -> dict[str, int]:
    """Return the number of VMs that are left out, by the reason without the VM's own name and id.

    ``failed`` are the VMs, or the reasons of a summary with their counts.
    """
    reasons: Counter[str] = Counter()
    for one in failed:
        text = str(one["errortext"])
        for own in (one.get("virtualmachineid"), one.get("name")):
            text = text.replace(str(own), "…") if own else text
        reasons[text] += int(one.get("count") or 1)
    return dict(reasons)


def open_console(visit: Visit) -> Response:
    """Redirect to the page with a VM's screen.

    The token follows the ``#`` in the URL and is never sent to a server.
    """
    endpoint = visit.calls("createConsoleEndpoint", {"virtualmachineid": visit.form.get("id", "")})
    token = urlencode({"token": endpoint["consoleendpoint"]["websocket"]["token"]})
    return Response(status=303, headers={"Location": f"vnc#{token}"})


def _values(visit: Visit) -> dict[str, Any]:
    vm_id = visit.given.get("id") or "-"
    rows = visit.calls.rows("listVirtualMachines", {"id": vm_id, "listall": True})
    if not rows:
        raise ApiRefused(NOT_FOUND, visit.pages.texts.vm.gone)
    vm = rows[0]
    jobs = visit.calls.rows(
        "listAsyncJobs", {"resourceid": vm_id, **JOB_OF, "listall": True, "page": 1, "pagesize": RECENT}
    )
    events = visit.calls.rows(
        "listEvents", {"resourceid": vm_id, **JOB_OF, "listall": True, "page": 1, "pagesize": RECENT}
    )
    volumes = visit.calls.rows("listVolumes", {"virtualmachineid": vm_id, "listall": True})
    first = next((one for one in reversed(jobs) if "DeployVM" in str(one.get("cmd"))), None)
    return {
        "vm": vm,
        "graphs": vm_graphs(visit, vm_id),
        "more": actions_of(VMS, visit),
        "volumes": volumes,
        "jobs": [TABLES["jobs"].read(one) for one in jobs],
        "events": events,
        "explained": {} if first is None else _explained(visit, str(first["jobid"])),
        "actions": [
            action
            for action, states in ACTIONS.items()
            if vm.get("state") in states and bulk_command(action) in visit.may
        ],
        "again": like(vm) if vm.get("state") in FAILED and DEPLOY in visit.may else "",
        "has_console": vm.get("state") == "Running" and "createConsoleEndpoint" in visit.may,
        "passing": vm.get("state") in PASSING or any(one.get("jobstatus") == 0 for one in jobs),
    }


def _job_values(visit: Visit) -> dict[str, Any]:
    job_id = visit.given.get("id") or "-"
    row = visit.calls("queryAsyncJobResult", {"jobid": job_id})
    return {"job": TABLES["jobs"].read({"jobid": job_id, **row}), "explained": _explained(visit, job_id)}


def _explained(visit: Visit, job_id: str) -> Row:
    """Return the explanation of a job as ``bulkmonkey explain`` shows it.

    Returns an empty row if the user may not see the explanation.
    """

    def call(command: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        try:
            return visit.calls(command, parameters)
        except ApiRefused as error:
            raise failures.ApiRefused(command, error.status, {"errortext": str(error)}) from None

    catalogue = Catalogue(Api(name, "", is_async=False, parameters=(), fields=()) for name in visit.may)
    try:
        return explain_job(catalogue, call, job_id)
    except failures.ApiRefused:
        return {}


VIEWS = MappingProxyType(
    {
        ("GET", "virtual-machine"): virtual_machine,
        ("GET", "virtual-machine-live"): virtual_machine_live,
        ("GET", "job"): job,
        ("GET", "job-live"): job_live,
        ("POST", "virtual-machines-change"): change,
        ("POST", "vnc"): open_console,
    }
)
