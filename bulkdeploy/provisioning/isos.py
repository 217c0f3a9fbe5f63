"""The shared steps of jobs about ISOs: the VM's rows change, then its guest's drive (see ``device_changes``)."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.guests import GuestSpec
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.device_changes import GiveDevice
from bulkdeploy.scheduling.virtual_machine_isos import restore_drive

DRIVE, ISO = "drive", "iso"
"""Keys of what was claimed: the VM's column, and the ISO in its drive, as they were."""


class ChangeDrive(GiveDevice):
    """The steps of job kinds that insert an ISO into a VM's drive or eject an ISO."""

    @abstractmethod
    def change(self, connection: Connection, work: Assignment) -> int | None:
        """Write the ISO that the drive contains from now on into the VM's row, and return the previous value.

        Raises:
            BulkDeployError: an error of the classes in REFUSALS, if a rule forbids the change.
        """

    @override
    def claim(self, connection: Connection, work: Assignment) -> dict[str, Any]:
        iso = work.guest.iso_uuid
        return {ISO: None if iso is None else str(iso), DRIVE: self.change(connection, work)}

    @override
    def before(self, work: Assignment, claimed: Mapping[str, Any]) -> GuestSpec:
        return replace(work.guest, iso_uuid=None if claimed[ISO] is None else UUID(claimed[ISO]))

    def _change_guest(self, work: Assignment, wanted: GuestSpec) -> DriverError | None:
        return self.tools.calls.drive(work, wanted)

    @override
    def undo_claim(self, connection: Connection, work: Assignment, claimed: Mapping[str, Any]) -> None:
        restore_drive(connection, work.vm_id, claimed[DRIVE])
