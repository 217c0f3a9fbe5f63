"""The shared steps of kinds that expunge a VM: guest and volumes are deleted, then all claims are released.

If the hypervisor does not answer, the job is repeated until ``job.cancel.threshold.minutes`` have passed. Then the
job fails, the VM stays Expunging with its claims, and the sweeper creates a new job.
"""

from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.outcome import RESOURCE_UNAVAILABLE, Failed, FinalState, Outcome, Succeeded
from bulkdeploy.provisioning.progress import OVERDUE, pause
from bulkdeploy.store.ledger.release import release_vms

EXPUNGED = FinalState(VmState.EXPUNGING, release_vms, removed=True)
STILL_THERE = FinalState(VmState.EXPUNGING)
EXPUNGE_FAILPOINTS = frozenset({Failpoint.DRIVER_DELETE})


def expunge(calls: DriverCalls, work: Assignment) -> Outcome:
    """Delete the VM's guest and volumes from the hypervisor, and return the outcome of the job.

    If the driver fails transiently and the job still has time, the job pauses and tries again.

    Raises:
        LeaseLost: another worker has the job.
    """
    failure = calls.remove(work, with_volumes=True)
    if failure is None:
        return Succeeded(EXPUNGED)
    if failure.transient and OVERDUE not in work.job.progress:
        return pause(work, failure)
    return Failed(RESOURCE_UNAVAILABLE, f"{work.label} was not expunged: {failure}", STILL_THERE)
