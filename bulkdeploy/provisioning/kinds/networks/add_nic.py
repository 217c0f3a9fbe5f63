"""The job that adds a NIC to a VM and to its running guest (see ``device_changes``)."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.drivers.abilities.devices import HotPlugNics
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import (
    DEVICE,
    DEVICE_FAILPOINTS,
    DEVICE_STATES,
    PLUG_COMMIT,
    GiveDevice,
)
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import UNCHANGED
from bulkdeploy.scheduling.nics import add_nic, undo_nic
from bulkdeploy.store.deployments.deployment_facts import read_networks

NIC_ID = "nic_id"
"""Key of what was claimed."""


class AddNic(GiveDevice):
    """The steps of adding a NIC. Parameters: ``network_id``, and ``ip_address`` and ``mac_address`` or None."""

    @override
    def claim(self, connection: Connection, work: Assignment) -> dict[str, Any]:
        params = work.job.params
        found = read_networks(connection, ids=[params["network_id"]])
        if not found:
            raise InvalidParameter("networkid", params["network_id"], "the network was deleted")
        nic = add_nic(connection, work.vm_id, found[0], params["ip_address"], params["mac_address"])
        return {DEVICE: str(nic.uuid), NIC_ID: nic.id}

    @override
    def undo_claim(self, connection: Connection, work: Assignment, claimed: Mapping[str, Any]) -> None:
        del work
        undo_nic(connection, claimed[NIC_ID])


ADD_NIC = JobKind(
    name="add_nic",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.AddNicToVMCmdByAdmin",
    event_type=EventType.NIC_CREATE,
    verb="add a nic to",
    action="adding a nic to",
    not_done="did not get the nic",
    states=DEVICE_STATES,
    move=None,
    ability=HotPlugNics,
    spoils_snapshots=True,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=DEVICE_FAILPOINTS | {PLUG_COMMIT},
    steps=AddNic,
)
