"""The job that changes the password of a management controller's user, in the controller and in the database.

The controller changes the password first. A worker that takes over the job finds out which of the two passwords the
controller accepts. Therefore the service never stores only a password with which it cannot log in.
"""

from functools import partial
from typing import Any

from sqlalchemy import Connection, Row
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.power.driver import PowerError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import PlaceWork
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, JobSteps
from bulkdeploy.provisioning.kinds.availability.issue_power_action import DISABLED, POWER_COMMIT
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, UNCHANGED, Outcome, Succeeded
from bulkdeploy.provisioning.power_calls import read_bmc_and_timeout
from bulkdeploy.store.availability import out_of_band_management as store
from bulkdeploy.store.database.engine import run_transaction


class ChangePowerPassword(JobSteps[PlaceWork]):
    """The steps of changing a controller's password. Parameters: ``password``, the encrypted new password."""

    @override
    def run(self, work: PlaceWork) -> Outcome:
        row, timeout_s = read_bmc_and_timeout(self.tools.engine, work.job.instance_id)
        if row is None:
            return self.failed(work, INTERNAL_ERROR, DISABLED)
        encrypted = work.job.params["password"].encode()
        password = self.tools.calls.decrypt(encrypted)
        failure = self.tools.power.change_password(row, password, timeout_s)
        if failure is not None and not self._is_changed(row, encrypted, timeout_s):
            return self.failed(work, INTERNAL_ERROR, failure.reason)
        run_transaction(
            self.tools.engine, partial(_store_password, host_id=row.host_id, encrypted=encrypted), POWER_COMMIT
        )
        return Succeeded(UNCHANGED, {"hostid": str(row.host_uuid), "status": True})

    def _is_changed(self, row: Row[Any], encrypted: bytes, timeout_s: float) -> bool:
        """Return whether the controller accepts the new password already, which an earlier worker may have set."""
        return not isinstance(self.tools.power.read_state(row, timeout_s, password=encrypted), PowerError)


def _store_password(connection: Connection, *, host_id: int, encrypted: bytes) -> None:
    store.set_password(connection, host_id, encrypted)


CHANGE_POWER_PASSWORD = JobKind(
    name="change_power_password",
    instance_type=InstanceType.HOST,
    command_class=(
        "org.apache.cloudstack.api.command.admin.outofbandmanagement.ChangeOutOfBandManagementPasswordCmd"
    ),
    event_type=EventType.HOST_POWER_PASSWORD,
    verb="change the password of the management controller of",
    action="changing the password of the management controller of",
    not_done="kept the password of its management controller",
    states=frozenset(HostResourceState),
    move=None,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.OUT_OF_BAND_MANAGEMENT,
    failpoints=frozenset({POWER_COMMIT, Failpoint.POWER_ACTION}),
    steps=ChangePowerPassword,
)
