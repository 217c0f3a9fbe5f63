"""One VM or one job: what happened to it, where it is and why; and what is done to VMs, one or many."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from flask import Response

from bulkdeploy.cli import failures
from bulkdeploy.cli.connection.catalogue import Api, Catalogue
from bulkdeploy.cli.deployments.explain import explain_job
from bulkdeploy.console.calls import ApiRefused, Row
from bulkdeploy.console.pages.deploy import COMMAND as DEPLOY
from bulkdeploy.console.pages.deploy import like
from bulkdeploy.console.rendering import PAGE_ADDRESS
from bulkdeploy.console.table_declarations import TABLES
from bulkdeploy.console.visit import Visit

NOT_FOUND = 404
RECENT = 20
MOST_CHOSEN = 500
MOST_NAMED = 40
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
    """A VM's page."""
    return visit.page("virtual_machine.html", **_values(visit))


def virtual_machine_live(visit: Visit) -> Response:
    """What of it changes."""
    return visit.page("fragments/virtual_machine.html", **_values(visit))


def job(visit: Visit) -> Response:
    """A job's page."""
    return visit.page("job.html", **_job_values(visit))


def job_live(visit: Visit) -> Response:
    """What of it changes."""
    return visit.page("fragments/job.html", **_job_values(visit))


def change(visit: Visit) -> Response:
    """Do something to the chosen VMs, each by a call of its own; what it does to running ones is asked first."""
    action, ids = visit.form.get("action", ""), visit.request.form.getlist("id")[:MOST_CHOSEN]
    back = visit.form.get("next", "")
    back = back if PAGE_ADDRESS.fullmatch(back) else "virtual-machines"
    if action not in ACTIONS or not ids:
        return Response(status=303, headers={"Location": back})
    texts = visit.pages.texts
    if action not in AT_ONCE and "sure" not in visit.form:
        named = {str(row["id"]): str(row["name"]) for row in _named(visit, ids)}
        names = [named.get(one, one) for one in ids]
        more = [texts.tables.more(count=len(names) - MOST_NAMED)] if len(names) > MOST_NAMED else []
        return visit.page(
            "confirm.html",
            title=texts.questions.get(action + "_title")(count=len(ids)),
            text=texts.questions.get(action),
            yes=texts.actions.get(action),
            action="virtual-machines-change",
            fields=[("action", action), ("next", back), *(("id", one) for one in ids)],
            back=back,
            names=[*names[:MOST_NAMED], *more],
        )
    refused: dict[str, int] = {}
    for one in ids:
        try:
            visit.calls(action, {"id": one})
        except ApiRefused as error:
            refused[str(error)] = refused.get(str(error), 0) + 1
    if not refused:
        return Response(status=303, headers={"Location": back})
    return visit.page(
        "changed.html", 422, refused=refused, begun=len(ids) - sum(refused.values()), back=back, action=action
    )


def open_console(visit: Visit) -> Response:
    """To the page of a VM's screen, with a token behind the ``#``, which no server is sent."""
    endpoint = visit.calls("createConsoleEndpoint", {"virtualmachineid": visit.form.get("id", "")})
    token = urlencode({"token": endpoint["consoleendpoint"]["websocket"]["token"]})
    return Response(status=303, headers={"Location": f"vnc#{token}"})


def _named(visit: Visit, ids: Sequence[str]) -> list[dict[str, Any]]:
    """The chosen VMs; looking them up for a form changes nothing."""
    return visit.calls.rows("listVirtualMachines", {"ids": ",".join(ids), "listall": True})


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
        "volumes": volumes,
        "jobs": [TABLES["jobs"].read(one) for one in jobs],
        "events": events,
        "explained": {} if first is None else _explained(visit, str(first["jobid"])),
        "actions": [
            action for action, states in ACTIONS.items() if vm.get("state") in states and action in visit.may
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
    """What ``bulkmonkey explain`` says of a job; nothing where this person may not know."""

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
