"""The final query of the hypervisor for a failed job if it is unknown whether the VM's guest runs."""

from dataclasses import replace

from sqlalchemy import Engine

from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.provisioning.assignment import Assignment, Work, read_assignment
from bulkdeploy.provisioning.driver_calls import DriverCalls
from bulkdeploy.provisioning.outcome import Failed, Outcome
from bulkdeploy.provisioning.starting import RUNNING
from bulkdeploy.provisioning.stopping import MAY_STILL_RUN, STOPPED
from bulkdeploy.store.database.engine import read_only


def with_seen_state(engine: Engine, calls: DriverCalls, work: Work, outcome: Outcome) -> Outcome:
    """Return the outcome, with the state that the hypervisor reports if the VM would become Unknown.

    The VM still becomes Unknown and keeps its claims if the state cannot be read, or if the hypervisor has a guest
    that does not run: an earlier call may still start such a guest.

    Raises:
        LeaseLost: the hypervisor has seen a newer lease of this VM.
    """
    if not isinstance(outcome, Failed) or outcome.final != MAY_STILL_RUN or not isinstance(work, Assignment):
        return outcome
    with read_only(engine) as connection:
        now = read_assignment(connection, work.job)
    if now.host is None or now.host_is_off:
        return outcome
    seen = calls.state_on_host(now, now.host)
    if seen is PowerState.RUNNING:
        return replace(outcome, final=RUNNING, text=f"{outcome.text}. Its guest runs on host {now.host.name}")
    if seen is None:
        return replace(outcome, final=STOPPED, text=f"{outcome.text}. Its guest is not on host {now.host.name}")
    return outcome
