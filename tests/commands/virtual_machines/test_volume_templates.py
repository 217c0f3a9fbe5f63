"""createTemplate: a volume of a stopped VM becomes a template that other VMs are made of."""

from typing import Any

from bulkdeploy.drivers.simulator.control import FaultKind, Step
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.commands.virtual_machines.test_snapshots import root_of
from tests.support.api.callers import refused

__all__ = ["owned"]


def wanted(owned: Owned, **parameters: object) -> dict[str, Any]:
    """Return the parameters of a template of the first VM's root volume."""
    os_type = owned.fleet.zone.scalar("SELECT uuid FROM os_types ORDER BY id LIMIT 1")
    return {"name": "golden", "volumeid": root_of(owned)["id"], "ostypeid": os_type, **parameters}


def templates(owned: Owned) -> list[dict[str, Any]]:
    """Return the templates that the account has."""
    return list(owned.client.call("listTemplates", templatefilter="self").get("template", []))


def test_a_volume_of_a_stopped_vm_becomes_a_template(owned: Owned) -> None:
    """It is not ready until the job has ended; then a VM is deployed from it, and its hypervisor has the copy."""
    owned.done("stopVirtualMachine", id=owned.vm)
    owned.fleet.control.execute("UPDATE simulator.volumes SET content = 'mine' WHERE guest_uuid = %s", [owned.vm])
    root = root_of(owned)
    job = owned.call("createTemplate", **wanted(owned, displaytext="Golden", sshkeyenabled=True))
    (row,) = templates(owned)
    assert (row["isready"], row["status"], row["account"]) == (False, "Creating", "acme")
    assert refused(owned.client, "createTemplate", **wanted(owned)).errorcode == 431
    owned.run()
    made = owned.poll(job)["jobresult"]["template"]
    (row,) = templates(owned)
    assert (made["id"], row["isready"], row["size"], row["hypervisor"]) == (row["id"], True, root["size"], "KVM")
    ((content,),) = owned.fleet.control.execute(
        "SELECT content FROM simulator.templates WHERE uuid = %s", [made["id"]]
    ).fetchall()
    assert content == "mine"
    zone = owned.fleet.zone
    deployed = owned.done(
        "deployVirtualMachine",
        templateid=made["id"],
        zoneid=zone.id_of("zones", "small"),
        serviceofferingid=zone.id_of("service_offerings", "Small"),
    )
    assert deployed["jobresult"]["virtualmachine"]["templateid"] == made["id"]
    owned.client.call("deleteTemplate", id=made["id"], forced=True)
    assert templates(owned) == []
    owned.fleet.assert_intact()


def test_what_cannot_become_a_template(owned: Owned) -> None:
    """A volume that runs, is nowhere, or is of no VM; a copy that fails leaves no template."""
    failure = refused(owned.client, "createTemplate", **wanted(owned))
    assert (failure.errorcode, "Stopped" in failure.errortext) == (431, True), failure
    assert refused(owned.client, "createTemplate", **wanted(owned, volumeid=owned.volume())).errorcode == 431
    owned.done("stopVirtualMachine", id=owned.vm)
    assert refused(owned.client, "createTemplate", **wanted(owned, isfeatured=True)).errorcode == 531
    assert refused(owned.client, "createTemplate", **wanted(owned, snapshotid=owned.vm)).errorcode == 431
    assert templates(owned) == []
    owned.fleet.fault(Step.TEMPLATE, FaultKind.PERMANENT)
    job = owned.done("createTemplate", **wanted(owned))
    assert (job["jobstatus"], "gave no template" in job["jobresult"]["errortext"]) == (2, True)
    assert templates(owned) == []
    owned.fleet.clear_faults()
    assert owned.done("createTemplate", **wanted(owned))["jobstatus"] == 1
    owned.fleet.assert_intact()
