"""Giving running VMs nics, and taking them away (``device_changes`` has the steps)."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import DEVICE, GiveDevice, TakeDevice
from bulkdeploy.provisioning.steps import Begin
from bulkdeploy.scheduling.nics import add_nic, check_removable, remove_nic, take_back
from bulkdeploy.store.deployment_facts import read_networks
from bulkdeploy.store.nics import live_nics

NIC_ID = "nic_id"
"""Key of what was claimed."""


class AddNic(GiveDevice):
    """Steps of ``JobKind.ADD_NIC``; params: ``network_id``, and ``ip_address`` and ``mac_address`` or None."""

    begin = Begin(EventType.NIC_CREATE, "adding a nic to Vm", frozenset(), VmState.RUNNING)
    was_not_done = "did not get the nic"

    def claim(self, connection: Connection, work: Assignment) -> dict[str, Any]:
        """See GiveDevice."""
        params = work.job.params
        found = read_networks(connection, ids=[params["network_id"]])
        if not found:
            raise InvalidParameter("networkid", params["network_id"], "the network was deleted")
        nic = add_nic(connection, work.job.vm_id, found[0], params["ip_address"], params["mac_address"])
        return {DEVICE: str(nic.uuid), NIC_ID: nic.id}

    def take_back(self, connection: Connection, work: Assignment, claimed: Mapping[str, Any]) -> None:
        """See GiveDevice."""
        del work
        take_back(connection, claimed[NIC_ID])


class RemoveNic(TakeDevice):
    """Steps of ``JobKind.REMOVE_NIC``; params: ``nic_id``, ``nic_uuid``."""

    begin = Begin(EventType.NIC_DELETE, "taking a nic from Vm", frozenset(), VmState.RUNNING)
    was_not_done = "did not lose the nic"

    def device(self, work: Assignment) -> UUID:
        """See TakeDevice."""
        return _nic(work).uuid

    def check(self, connection: Connection, work: Assignment) -> None:
        """See TakeDevice."""
        check_removable(live_nics(connection, work.job.vm_id), work.guest.uuid, _nic(work))

    def take(self, connection: Connection, work: Assignment) -> None:
        """See TakeDevice."""
        remove_nic(connection, work.job.vm_id, _nic(work))


def _nic(work: Assignment) -> EntityRef:
    return EntityRef(Entity.NIC, work.job.params["nic_id"], UUID(work.job.params["nic_uuid"]), "")
