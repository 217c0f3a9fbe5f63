"""The job that removes a NIC from a guest, and then releases its IP address (see ``device_changes``)."""

from uuid import UUID

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.drivers.abilities.devices import HotPlugNics
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import DEVICE_FAILPOINTS, DEVICE_STATES, TakeDevice
from bulkdeploy.provisioning.job_kind import JobKind, JobResult
from bulkdeploy.provisioning.outcome import UNCHANGED
from bulkdeploy.scheduling.nics import check_removable, remove_nic
from bulkdeploy.store.networks.nics import live_nics


class RemoveNic(TakeDevice):
    """The steps of removing a NIC. Parameters: ``nic_id``, ``nic_uuid``."""

    @override
    def device(self, work: Assignment) -> UUID:
        return _nic(work).uuid

    @override
    def check(self, connection: Connection, work: Assignment) -> None:
        check_removable(live_nics(connection, work.vm_id), work.guest.uuid, _nic(work))

    @override
    def take(self, connection: Connection, work: Assignment) -> None:
        remove_nic(connection, work.vm_id, _nic(work))


def _nic(work: Assignment) -> EntityRef:
    return EntityRef(Entity.NIC, work.job.params["nic_id"], UUID(work.job.params["nic_uuid"]), "")


REMOVE_NIC = JobKind(
    name="remove_nic",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.RemoveNicFromVMCmdByAdmin",
    event_type=EventType.NIC_DELETE,
    verb="take a nic from",
    action="taking a nic from",
    not_done="did not lose the nic",
    states=DEVICE_STATES,
    move=None,
    ability=HotPlugNics,
    spoils_snapshots=True,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=DEVICE_FAILPOINTS,
    steps=RemoveNic,
)
