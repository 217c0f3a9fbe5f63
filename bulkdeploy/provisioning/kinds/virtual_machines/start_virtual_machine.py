"""The job that starts a stopped VM. The call or the job claims a host, and the guest is started there.

A bulk operation plans and claims the hosts of all its VMs; other calls leave this to the job. If the start fails
finally, the VM is Stopped, without a host, and keeps its volumes.
"""

from functools import partial

from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.provisioning.assignment import Assignment, read_assignment
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, Move, StepTools, VmSteps
from bulkdeploy.provisioning.outcome import (
    INSUFFICIENT_CAPACITY,
    INTERNAL_ERROR,
    UNCHANGED,
    FinalState,
    Outcome,
    Paused,
    Succeeded,
)
from bulkdeploy.provisioning.progress import OVERDUE, save_progress, why_overdue
from bulkdeploy.provisioning.starting import (
    PINS,
    STARTER_FAILPOINTS,
    find_stopped,
    starter_of_existing_vms,
    with_host,
)
from bulkdeploy.provisioning.stopping import STOPPED
from bulkdeploy.scheduling.place import NoPlace, claim_place
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.database.engine import run_transaction
from bulkdeploy.store.jobs.job_leases import DriverLimits
from bulkdeploy.store.ledger.release import release_planned_hosts

PLACE_COMMIT = "place.commit"


class StartVirtualMachine(VmSteps):
    """The steps of starting a VM.

    Parameters: one of PINS restricts the VM to a pod, cluster or host. ``planner``, ``consider_last_host`` and
    FIRST_HOST influence the placement.
    """

    def __init__(self, kind: JobKind, tools: StepTools) -> None:
        super().__init__(kind, tools)
        self._starter = starter_of_existing_vms(kind, tools)

    def at_once(self, work: Assignment) -> Outcome | None:
        """Return success for a VM that runs already.

        Otherwise None, or a failure if its state does not allow a start.
        """
        return Succeeded(UNCHANGED) if work.state is VmState.RUNNING else super().at_once(work)

    @override
    def run(self, work: Assignment) -> Outcome:
        if work.host_id is None:
            if OVERDUE in work.job.progress:
                return self.failed(work, INTERNAL_ERROR, why_overdue(work.job.progress), STOPPED)
            claim = partial(self._claim, work=work)
            placed = run_transaction(self.tools.engine, claim, PLACE_COMMIT, during=self.tools.planning)
            if isinstance(placed, NoPlace):
                why = f"Unable to orchestrate the start of VM instance {work.name}: {placed.why}"
                return self.failed(work, INSUFFICIENT_CAPACITY, why, STOPPED, placed.excluded)
            if isinstance(placed, Paused):
                return placed
            work = placed
        return self._starter.run(work, pinned=any(pin in work.job.params for pin in PINS))

    def _claim(self, connection: Connection, *, work: Assignment) -> Assignment | Paused | NoPlace:
        place = find_stopped(connection, work, frozenset())
        if isinstance(place, NoPlace):
            return place
        claim_place(connection, place)
        save_progress(connection, work.job, work.job.progress, self.tools.lease_seconds)
        limits = DriverLimits.of(read_configuration(connection))
        return with_host(connection, read_assignment(connection, work.job), limits)


START = JobKind(
    name="start_virtual_machine",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.vm.StartVMCmdByAdmin",
    event_type=EventType.VM_START,
    verb="start",
    action="starting",
    not_done="did not start",
    states=frozenset({VmState.STOPPED}),
    move=Move(frozenset({VmState.STOPPED}), VmState.STARTING),
    ability=None,
    spoils_snapshots=False,
    if_abandoned=FinalState(VmState.UNKNOWN),
    if_never_begun=FinalState(release=release_planned_hosts),
    result=JobResult.VIRTUAL_MACHINE,
    failpoints=STARTER_FAILPOINTS | {PLACE_COMMIT},
    steps=StartVirtualMachine,
)
