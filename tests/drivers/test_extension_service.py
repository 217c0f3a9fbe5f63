"""A service whose VMs an executable runs: the bulk call to the audit, and what the protocol lacks."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.drivers.test_extension import fault, shelved, write_program
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.processes.programs import api_process, bulkdeploy, program
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.fleet import template_database

pytestmark = pytest.mark.long

__all__ = ["template_database"]


@pytest.fixture
def extended(settings: Settings, tmp_path: Path) -> Settings:
    """Settings in which the extension runs the VMs of KVM hosts."""
    options = {"executable": str(write_program(tmp_path)), "details": {"shelf": str(tmp_path)}}
    changed = {"drivers": {"KVM": "extension"}, "driver": {"extension": options}, "worker_threads": 4}
    return settings.model_copy(update=changed)


@pytest.fixture
def caller(extended: Settings, tmp_path: Path, engine: Engine, cipher: FernetCipher) -> Iterator[ApiClient]:
    """The administrator's client of a running service."""
    with engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    secret = cipher.decrypt(admin.secret_key_encrypted)
    log = tmp_path / "programs.log"
    with program(extended, log, *WORKER), program(extended, log, *SWEEPER), api_process(extended, log) as url:
        yield ApiClient(url, admin.api_key, secret)
    assert "Traceback" not in log.read_text()


def ended(caller: ApiClient, job_id: str) -> dict[str, Any]:
    """The job, when it has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        job: dict[str, Any] = caller.call("queryAsyncJobResult", jobid=job_id)
        if job["jobstatus"] != 0:
            return job
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.05)


def wait_until_stopped(caller: ApiClient, vm_id: str) -> None:
    """Wait until a VM is."""
    deadline = time.monotonic() + PATIENCE_S
    while (state := caller.call("listVirtualMachines", id=vm_id)["virtualmachine"][0]["state"]) != "Stopped":
        assert time.monotonic() < deadline, f"it is {state}"
        time.sleep(0.1)


def test_a_custom_action_is_run_by_the_executable(caller: ApiClient, tmp_path: Path) -> None:
    """With the values that the call gives, typed and checked, and with who calls."""
    ids = {
        parameter: caller.call(command, **found)[key][0]["id"]
        for parameter, command, key, found in (
            ("zoneid", "listZones", "zone", {}),
            ("serviceofferingid", "listServiceOfferings", "serviceoffering", {"name": "Small"}),
            ("templateid", "listTemplates", "template", {"name": "Debian 12", "templatefilter": "all"}),
        )
    }
    vm = ended(caller, caller.call("deployVirtualMachine", **ids)["jobid"])["jobresult"]["virtualmachine"]
    (extension,) = caller.call("listExtensions")["extension"]
    assert (extension["pathready"], Path(extension["path"]).stem) == (True, extension["name"])
    declared = {
        "parameters[0].name": "format", "parameters[0].required": "true", "parameters[0].valueoptions": "png, jpeg",
        "parameters[1].name": "width", "parameters[1].type": "number",
        "parameters[2].name": "key", "parameters[2].validationformat": "password",
    }  # fmt: skip
    action = caller.call(
        "addCustomAction",
        extensionid=extension["id"],
        name="take photo",
        successmessage="{{actionName}} of {{resourceName}} by {{extensionName}}",
        allowedroletypes="User",
        **{"details[0].camera": "front"},
        **declared,
    )["extensioncustomaction"]
    assert (action["enabled"], action["timeout"], action["allowedroletypes"]) == (False, 3, ["Admin", "User"])
    assert [one["valueoptions"] for one in action["parameters"] if "valueoptions" in one] == [["png", "jpeg"]]
    run = {"customactionid": action["id"], "resourceid": vm["id"]}
    with pytest.raises(ApiFailure, match="is not enabled"):
        caller.call("runCustomAction", **run, **{"parameters[0].format": "png"})
    changed = caller.call("updateCustomAction", id=action["id"], enabled=True, timeout=PATIENCE_S)
    assert changed["extensioncustomaction"] == {**action, "enabled": True, "timeout": PATIENCE_S}
    for values, rule in (
        ({}, "requires a value"),
        ({"format": "gif"}, "format must be one of png, jpeg"),
        ({"format": "png", "width": "wide"}, "width must be a whole number"),
    ):
        with pytest.raises(ApiFailure, match=rule):
            caller.call(
                "runCustomAction", **run, **{f"parameters[0].{key}": value for key, value in values.items()}
            )

    def result_of(**more: str) -> dict[str, Any]:
        values = {
            "parameters[0].format": "png",
            "parameters[1].width": "640",
            "parameters[2].key": "hidden",
            **more,
        }
        job = ended(caller, caller.call("runCustomAction", **run, **values)["jobid"])
        assert job["jobstatus"] == 1
        found: dict[str, Any] = job["jobresult"]["customactionresult"]
        return found

    done = result_of()
    assert done == {
        "id": action["id"],
        "name": "take photo",
        "success": True,
        "result": {
            "message": f"take photo of {vm['name']} by {extension['name']}",
            "details": f"a photo of {vm['instancename']}, token",
        },
    }
    (photo,) = (json.loads(line) for line in (tmp_path / "photos").read_text().splitlines())
    assert photo["parameters"] == {"format": "png", "width": 640, "key": "hidden"}
    assert (photo["action"], photo["externaldetails"]["action"]) == ("take photo", {"camera": "front"})
    assert {**photo["caller"], "id": "", "roleid": ""} == {
        "id": "", "name": "admin", "type": "ADMIN", "roleid": "", "rolename": "Root Admin", "roletype": "Admin"
    }  # fmt: skip
    (tmp_path / f"{vm['instancename']}.guest").rename(tmp_path / "away")
    failed = result_of()
    assert (failed["success"], failed["result"]["message"]) == (False, "Failed to complete take photo")
    assert "there is no such guest" in failed["result"]["details"]
    (tmp_path / "away").rename(tmp_path / f"{vm['instancename']}.guest")
    caller.call("deleteCustomAction", id=action["id"])
    assert caller.call("listCustomActions") == {}
    with pytest.raises(ApiFailure, match="was deleted"):
        caller.call("runCustomAction", **run, **{"parameters[0].format": "png"})
    for name in ("delete", "a;b", "../rm"):
        with pytest.raises(ApiFailure, match="name"):
            caller.call("addCustomAction", extensionid=extension["id"], name=name)


def test_vms_are_deployed_audited_and_removed(
    caller: ApiClient, extended: Settings, engine: Engine, tmp_path: Path
) -> None:
    """An answer that is lost makes no VM twice; data disks and live migration are refused before a job is made.

    The program hears for which request it works. A guest that ends by itself is seen: its VM is Stopped.
    """
    ids = {
        parameter: caller.call(command, **found)[key][0]["id"]
        for parameter, command, key, found in (
            ("zoneid", "listZones", "zone", {}),
            ("serviceofferingid", "listServiceOfferings", "serviceoffering", {"name": "Small"}),
            ("templateid", "listTemplates", "template", {"name": "Debian 12", "templatefilter": "all"}),
        )
    }
    fault(tmp_path, "create", "lost")
    jobs = caller.call("bulkDeployVirtualMachine", virtualmachinecount=3, **ids)["asyncjobs"]
    assert [ended(caller, job["jobid"])["jobstatus"] for job in jobs] == [1, 1, 1]
    made_for = {line for line in (tmp_path / "requests").read_text().splitlines() if line.startswith("create ")}
    with engine.connect() as connection:
        (request_id,) = connection.execute(text("SELECT DISTINCT request_id FROM async_jobs")).scalars()
    assert made_for == {f"create {request_id}"}
    vms = caller.call("listVirtualMachines", listall=True)["virtualmachine"]
    assert shelved(tmp_path) == {vm["instancename"]: "PowerOn" for vm in vms}
    audited = bulkdeploy(extended, "audit")
    assert audited.returncode == 0, audited.stdout + audited.stderr
    (tmp_path / f"{vms[0]['instancename']}.guest").write_text("PowerOff")
    wait_until_stopped(caller, vms[0]["id"])
    offering = caller.call("listDiskOfferings", listall=True)["diskoffering"][0]["id"]
    with pytest.raises(ApiFailure, match="does not support data volumes") as refused:
        caller.call("deployVirtualMachine", diskofferingid=offering, **ids)
    assert (refused.value.status, "diskofferingid" in str(refused.value)) == (431, True)
    with pytest.raises(ApiFailure, match="does not support live migration"):
        caller.call("migrateVirtualMachine", virtualmachineid=vms[1]["id"], autoselect=True)
    for vm in vms:
        assert (
            ended(caller, caller.call("destroyVirtualMachine", id=vm["id"], expunge=True)["jobid"])["jobstatus"]
            == 1
        )
    assert shelved(tmp_path) == {}
    assert bulkdeploy(extended, "audit").returncode == 0
