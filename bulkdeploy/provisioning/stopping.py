"""The shared steps of kinds that stop a guest.

They define which VMs may run, and how a job continues if its guest was not stopped.
"""

from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import Move, VmSteps
from bulkdeploy.provisioning.outcome import INTERNAL_ERROR, RESOURCE_UNAVAILABLE, FinalState, Outcome
from bulkdeploy.provisioning.progress import OVERDUE, pause
from bulkdeploy.store.ledger.release import release_hosts

STOPPED = FinalState(VmState.STOPPED, release_hosts)
STILL_RUNNING = FinalState(VmState.RUNNING)
MAY_STILL_RUN = FinalState(VmState.UNKNOWN)
IF_IT_MAY_RUN = Move(frozenset({VmState.RUNNING, VmState.UNKNOWN}), VmState.STOPPING)
"""A VM in another state keeps it."""

STOP_FAILPOINTS = frozenset({Failpoint.DRIVER_STOP, Failpoint.DRIVER_LOOK})


def not_stopped(steps: VmSteps, work: Assignment, failure: DriverError) -> Outcome:
    """Return the outcome of a job whose guest was not stopped.

    An unanswered stop is repeated until the job is overdue. A stop that failed permanently keeps the claim in any
    case, because the guest may still use the host's capacity.
    """
    if failure.unanswered and OVERDUE not in work.job.progress:
        return pause(work, None)
    code = RESOURCE_UNAVAILABLE if failure.transient else INTERNAL_ERROR
    return steps.failed(work, code, str(failure), MAY_STILL_RUN if failure.unanswered else STILL_RUNNING)
