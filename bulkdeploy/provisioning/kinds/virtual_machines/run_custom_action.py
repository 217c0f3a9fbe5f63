"""The job that runs an extension's custom action on a VM, at most once because the action may not be repeatable.

As in CloudStack, the job succeeds even if the action fails, and its result contains the failure of the action. The
beginning of the action is recorded first. A worker that takes over the job does not run the action again, and
reports this in the result.
"""

from functools import partial
from typing import Any

import orjson
from sqlalchemy import Connection
from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.custom_actions import CustomAction
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, VmSteps
from bulkdeploy.provisioning.outcome import UNCHANGED, Outcome, Succeeded
from bulkdeploy.provisioning.progress import save_progress
from bulkdeploy.store.database.engine import run_transaction

BEGUN = "begun"
BEGIN_COMMIT = "custom_action.commit"
LOST = "the worker that ran the action ended: the action may have been done, and is not run again"


class RunCustomAction(VmSteps):
    """The steps of running a custom action.

    Parameters: ``action`` (uuid, name, details, timeout, success and error messages) and ``values``, encrypted.
    """

    @override
    def run(self, work: Assignment) -> Outcome:
        action = work.job.params["action"]
        if BEGUN in work.job.progress:
            return _ended(action, LOST, is_done=False)
        values = orjson.loads(self.tools.calls.decrypt(work.job.params["values"].encode()))
        run_transaction(self.tools.engine, partial(self._begin, work=work), BEGIN_COMMIT)
        printed = self.tools.calls.run_custom_action(
            work,
            CustomAction(action["name"], values, action["details"]),
            float(action["timeout"]),
            [values[name] for name in action["secrets"] if values.get(name)],
        )
        if isinstance(printed, DriverError):
            return _ended(action, printed.reason, is_done=False)
        return _ended(action, printed, is_done=True)

    def _begin(self, connection: Connection, *, work: Assignment) -> None:
        save_progress(connection, work.job, {**work.job.progress, BEGUN: True}, self.tools.lease_seconds)


def _ended(action: dict[str, Any], details: str, *, is_done: bool) -> Succeeded:
    message = action["successmessage" if is_done else "errormessage"]
    result = {"message": message, "details": details}
    return Succeeded(UNCHANGED, {"id": action["id"], "name": action["name"], "success": is_done, "result": result})


RUN_CUSTOM_ACTION = JobKind(
    name="run_custom_action",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.framework.extensions.api.RunCustomActionCmd",
    event_type=EventType.CUSTOM_ACTION,
    verb="run a custom action on",
    action="running a custom action on",
    not_done="had no custom action run",
    states=frozenset({VmState.RUNNING, VmState.STOPPED}),
    move=None,
    ability=None,
    spoils_snapshots=False,
    if_abandoned=UNCHANGED,
    if_never_begun=UNCHANGED,
    result=JobResult.CUSTOM_ACTION,
    failpoints=frozenset({Failpoint.DRIVER_CUSTOM_ACTION, BEGIN_COMMIT}),
    steps=RunCustomAction,
)
