"""The job that runs a power action on a host by its management controller.

Every action is recorded before it is requested. A worker that takes over the job repeats an action only if a
repetition has no further effect, so a host is never reset twice.
"""

from functools import partial

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.infrastructure.power import PowerAction, PowerState
from bulkdeploy.domain.infrastructure.topology import HostResourceState
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.power.driver import PowerError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import PlaceWork
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, JobSteps
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, UNCHANGED, Outcome, Succeeded
from bulkdeploy.provisioning.power_calls import read_bmc_and_timeout
from bulkdeploy.provisioning.progress import save_progress
from bulkdeploy.store.availability import out_of_band_management as store
from bulkdeploy.store.database.engine import run_transaction

BEGUN = "begun"
POWER_COMMIT = "power.commit"
LOST = "the worker that requested the action ended: the action may have been done, and is not repeated"
DISABLED = "out-of-band management of the host is disabled or not configured"


class IssuePowerAction(JobSteps[PlaceWork]):
    """The steps of a power action on a host.

    Parameters: ``action`` is a PowerAction; ``timeout_s`` is the timeout, or None for the setting of the host's
    cluster.
    """

    @override
    def run(self, work: PlaceWork) -> Outcome:
        action = PowerAction(work.job.params["action"])
        if BEGUN in work.job.progress and not action.is_repeatable:
            return self.failed(work, INTERNAL_ERROR, LOST)
        row, timeout_s = read_bmc_and_timeout(self.tools.engine, work.job.instance_id)
        if row is None:
            return self.failed(work, INTERNAL_ERROR, DISABLED)
        timeout_s = float(work.job.params.get("timeout_s") or timeout_s)
        if action is not PowerAction.STATUS:
            run_transaction(self.tools.engine, partial(self._begin, work=work), POWER_COMMIT)
            failure = self.tools.power.act(row, action, timeout_s)
            if failure is not None:
                return self.failed(work, INTERNAL_ERROR, failure.reason)
        state = self.tools.power.read_state(row, timeout_s)
        seen = PowerState.UNKNOWN if isinstance(state, PowerError) else state
        write = partial(store.write_power_states, seen=[(row.host_id, row.version, seen)])
        run_transaction(self.tools.engine, write, POWER_COMMIT)
        if isinstance(state, PowerError) and action is PowerAction.STATUS:
            return self.failed(work, INTERNAL_ERROR, state.reason)
        shown = {**store.shown_bmc(row), "powerstate": seen.value, "hostid": str(row.host_uuid)}
        text = f"Chassis Power is {seen.value}" if action is PowerAction.STATUS else f"{action} was requested"
        return Succeeded(UNCHANGED, {**shown, "action": action.value, "status": True, "description": text})

    def _begin(self, connection: Connection, *, work: PlaceWork) -> None:
        save_progress(connection, work.job, {**work.job.progress, BEGUN: True}, self.tools.lease_seconds)


ISSUE_POWER_ACTION = JobKind(
    name="issue_power_action",
    instance_type=InstanceType.HOST,
    command_class=(
        "org.apache.cloudstack.api.command.admin.outofbandmanagement.IssueOutOfBandManagementPowerActionCmd"
    ),
    event_type=EventType.HOST_POWER_ACTION,
    verb="switch the power of",
    action="switching the power of",
    not_done="had no power action",
    states=frozenset(HostResourceState),
    move=None,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.OUT_OF_BAND_MANAGEMENT,
    failpoints=frozenset({POWER_COMMIT, Failpoint.POWER_ACTION}),
    steps=IssuePowerAction,
)
