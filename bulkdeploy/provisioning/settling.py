"""Settling finished jobs: what they leave of their VMs, their results and events; many at once.

Order inside a transaction: what is given back first (hosts, pools, ranges, counts), then VM and job rows.
The job rows come last and are the proof: if one lease was lost, nothing of the batch is written.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from bulkdeploy.domain.jobs import HOST_KINDS, JobKind, JobStatus
from bulkdeploy.domain.topology import HostResourceState
from bulkdeploy.domain.virtual_machines import VmState
from bulkdeploy.provisioning.destroy_virtual_machine import VOLUME_IDS
from bulkdeploy.provisioning.host_maintenance import HOST_ACTIONS
from bulkdeploy.provisioning.outcome import (
    Failed,
    GiveBack,
    HandedBack,
    Outcome,
    Paused,
    Settlement,
    Succeeded,
)
from bulkdeploy.provisioning.results import failure_result, success_results
from bulkdeploy.provisioning.steps import JobSteps
from bulkdeploy.queue.job_queue import BULK, INTERACTIVE, LANE_SIZES, JobMessage
from bulkdeploy.store.action_events import COMPLETED, ERROR, INFO, ActionEvent, write_events
from bulkdeploy.store.guests import mark_removed, mark_volumes_ready, move_states
from bulkdeploy.store.host_maintenance import set_resource_state, wake_waiting
from bulkdeploy.store.job_leases import give_back_leases, wake_held_back
from bulkdeploy.store.jobs import JobEnd, JobPause, LeasedJob, finish_jobs, pause_jobs, wake_blocked
from bulkdeploy.store.outbox import Lanes, Unsent
from bulkdeploy.store.release import release_compute, release_hosts, release_vms
from bulkdeploy.store.virtual_machine_migration import release_destinations, release_sources
from bulkdeploy.store.virtual_machine_scaling import release_growth
from bulkdeploy.store.volume_removal import destroy_volumes_with

log = structlog.get_logger(__name__)

SOURCES: Mapping[VmState, frozenset[VmState]] = {
    VmState.RUNNING: frozenset({VmState.STARTING, VmState.STOPPING, VmState.MIGRATING}),
    VmState.STOPPED: frozenset({VmState.STARTING, VmState.STOPPING}),
    VmState.UNKNOWN: frozenset({VmState.STARTING, VmState.STOPPING, VmState.MIGRATING}),
    VmState.ERROR: frozenset({VmState.STOPPED, VmState.STARTING}),
    VmState.DESTROYED: frozenset(set(VmState) - {VmState.EXPUNGING}),
    VmState.EXPUNGING: frozenset(VmState),
}
"""From which states a job's end may move its VM to the state it leaves; other moves are not made."""

LANES = Lanes(INTERACTIVE, BULK, LANE_SIZES)

RELEASE = {
    GiveBack.HOST: release_hosts,
    GiveBack.COMPUTE: release_compute,
    GiveBack.EVERYTHING: release_vms,
    GiveBack.SOURCE: release_sources,
    GiveBack.DESTINATION: release_destinations,
    GiveBack.GROWTH: release_growth,
}


@dataclass(frozen=True, slots=True)
class Finished:
    """A job whose try has ended; ``name`` is its VM's instance name, empty where there is none."""

    job: LeasedJob
    name: str
    outcome: Outcome

    @property
    def settlement(self) -> Settlement:
        """What is left of the VM; a job that is not over leaves everything as it is."""
        return Settlement() if isinstance(self.outcome, Paused | HandedBack) else self.outcome.settlement


class StaleLeases(Exception):
    """Some jobs' leases were lost; the transaction must be rolled back and repeated without them."""

    def __init__(self, job_ids: Collection[int]) -> None:
        self.job_ids = frozenset(job_ids)
        super().__init__(f"leases lost: {sorted(self.job_ids)}")


class Settler:
    """Writes the ends of jobs. Holds no state.

    Args:
        steps: what each kind of job consists of.
    """

    def __init__(self, steps: Mapping[JobKind, JobSteps]) -> None:
        self._steps = steps

    def settle(self, connection: Connection, finished: Sequence[Finished]) -> list[JobMessage]:
        """Settle jobs that give back the same (one lock order per transaction); messages to send afterwards.

        Raises:
            StaleLeases: roll back.
        """
        give_back = {entry.settlement.give_back for entry in finished}
        if len(give_back) != 1:
            raise ValueError("jobs of one transaction must give back the same")
        release = RELEASE.get(give_back.pop())
        if release is not None:
            release(connection, sorted(entry.job.vm_id for entry in finished))
        _destroy_volumes(connection, finished)
        self._leave_hosts(connection, [entry for entry in finished if entry.job.kind in HOST_KINDS])
        self._leave_vms(connection, [entry for entry in finished if entry.job.kind not in HOST_KINDS])
        unsent = self._end_jobs(connection, finished)
        ended = [entry for entry in finished if not isinstance(entry.outcome, Paused | HandedBack)]
        if ended:
            write_events(connection, [self._event(entry) for entry in ended])
            unsent += self._wake(connection, ended)
        return [JobMessage(one.job_id, one.kind, one.queue) for one in unsent]

    def _wake(self, connection: Connection, ended: Sequence[Finished]) -> list[Unsent]:
        """Jobs that waited for these to end: of the same VMs, made these, or for a place with their hosts."""
        vms = [entry.job.vm_id for entry in ended if entry.job.kind not in HOST_KINDS]
        woken = wake_blocked(connection, vms, INTERACTIVE)
        parents = {entry.job.parent_id for entry in ended if entry.job.parent_id is not None}
        if parents:
            woken += wake_waiting(connection, parents, INTERACTIVE)
        unsent = [Unsent(job_id, kind, INTERACTIVE) for job_id, kind in woken]
        return unsent + wake_held_back(connection, [entry.job.id for entry in ended], LANES)

    def _leave_hosts(self, connection: Connection, finished: Sequence[Finished]) -> None:
        for state in {entry.settlement.host_state for entry in finished}:
            if state is not None:
                ids = [entry.job.vm_id for entry in finished if entry.settlement.host_state is state]
                set_resource_state(connection, ids, state, sources=(HostResourceState.PREPARE_FOR_MAINTENANCE,))

    def _leave_vms(self, connection: Connection, finished: Sequence[Finished]) -> None:
        by_settlement: dict[Settlement, list[int]] = defaultdict(list)
        for entry in finished:
            by_settlement[entry.settlement].append(entry.job.vm_id)
        for settlement, vm_ids in by_settlement.items():
            if settlement.state is not None:
                moved = move_states(connection, vm_ids, SOURCES[settlement.state], settlement.state)
                if len(moved) < len(vm_ids):
                    log.warning("vm_not_moved", state=settlement.state.value, vms=sorted(set(vm_ids) - moved))
            if settlement.volumes_ready:
                mark_volumes_ready(connection, vm_ids)
            if settlement.removed:
                mark_removed(connection, vm_ids)

    def _end_jobs(self, connection: Connection, finished: Sequence[Finished]) -> list[Unsent]:
        """Write what became of the jobs; those that were handed back are to be sent."""
        results = success_results(
            connection, [entry.job for entry in finished if isinstance(entry.outcome, Succeeded)]
        )
        ends: list[JobEnd] = []
        pauses: list[JobPause] = []
        handed_back: dict[int, int] = {}
        for entry in finished:
            job, outcome = entry.job, entry.outcome
            if isinstance(outcome, HandedBack):
                handed_back[job.id] = job.fence
            elif isinstance(outcome, Paused):
                pauses.append(JobPause(job.id, job.fence, outcome.after_s, outcome.progress))
            elif isinstance(outcome, Failed):
                ends.append(JobEnd(job.id, job.fence, JobStatus.FAILED, failure_result(outcome)))
            else:
                ends.append(JobEnd(job.id, job.fence, JobStatus.SUCCEEDED, results[job.id]))
        done = (finish_jobs(connection, ends) if ends else set()) | (
            pause_jobs(connection, pauses) if pauses else set()
        )
        unsent = give_back_leases(connection, handed_back, LANES) if handed_back else []
        done |= {one.job_id for one in unsent}
        if len(done) < len(finished):
            raise StaleLeases({entry.job.id for entry in finished} - done)
        return unsent

    def _event(self, entry: Finished) -> ActionEvent:
        begin = HOST_ACTIONS[entry.job.kind] if entry.job.kind in HOST_KINDS else self._steps[entry.job.kind].begin
        if isinstance(entry.outcome, Failed):
            text, level = f"failed: {begin.action} {entry.name}. {entry.outcome.text}", ERROR
        else:
            text, level = f"completed: {begin.action} {entry.name}", INFO
        return ActionEvent(entry.job.id, begin.event_type, COMPLETED, text, level)


def _destroy_volumes(connection: Connection, finished: Sequence[Finished]) -> None:
    """Delete the volumes that were to go with VMs that are destroyed now; their owners' counts are held already."""
    wanted = {
        entry.job.vm_id: entry.job.params[VOLUME_IDS]
        for entry in finished
        if isinstance(entry.outcome, Succeeded) and VOLUME_IDS in entry.job.params
    }
    if wanted:
        volume_ids = [volume_id for ids in wanted.values() for volume_id in ids]
        destroy_volumes_with(connection, sorted(wanted), sorted(volume_ids))
