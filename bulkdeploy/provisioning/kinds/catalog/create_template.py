"""The job that creates a template: the hypervisor copies a volume of a stopped VM.

If the template could not be created, its row is removed.
"""

from dataclasses import replace
from uuid import UUID

from typing_extensions import override

from bulkdeploy.domain.events import EventType
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.drivers.abilities.volume_templates import VolumeTemplates
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.assignment import Assignment
from bulkdeploy.provisioning.job_kind import JobKind, JobResult, VmSteps
from bulkdeploy.provisioning.outcome import (
    INTERNAL_ERROR,
    RESOURCE_UNAVAILABLE,
    Failed,
    FinalState,
    Outcome,
    Succeeded,
)
from bulkdeploy.provisioning.progress import is_tried_again, noted_failure, pause
from bulkdeploy.store.catalog.volume_templates import end_creation, fail_creation

MADE, NOT_MADE = FinalState(release=end_creation), FinalState(release=fail_creation)


class CreateTemplate(VmSteps):
    """The steps of creating a template. Parameters: ``template_id``, ``template_uuid``, ``volume_uuid``."""

    def at_once(self, work: Assignment) -> Outcome | None:
        """Return the failure of a job that need not run, or None. After a failure, the template was not created."""
        refused = super().at_once(work)
        return replace(refused, final=NOT_MADE) if isinstance(refused, Failed) else refused

    @override
    def run(self, work: Assignment) -> Outcome:
        params = work.job.params
        volume = next((one for one in work.guest.volumes if str(one.uuid) == params["volume_uuid"]), None)
        if volume is None:
            return self.failed(work, INTERNAL_ERROR, "it does not have the volume any more", NOT_MADE)
        failure = noted_failure(work, "template", work.host)
        if failure is None:
            failure = self.tools.calls.make_template(work, volume, UUID(params["template_uuid"]))
        if failure is None:
            return Succeeded(MADE)
        if is_tried_again(work, failure):
            return pause(work, None)
        return self.failed(work, RESOURCE_UNAVAILABLE, str(failure), NOT_MADE)


CREATE_TEMPLATE = JobKind(
    name="create_template",
    instance_type=InstanceType.VIRTUAL_MACHINE,
    command_class="org.apache.cloudstack.api.command.admin.template.CreateTemplateCmdByAdmin",
    event_type=EventType.TEMPLATE_CREATE,
    verb="make a template of a volume of",
    action="making a template of a volume of",
    not_done="gave no template of its volume",
    states=frozenset({VmState.STOPPED}),
    move=None,
    ability=VolumeTemplates,
    spoils_snapshots=False,
    if_abandoned=NOT_MADE,
    if_never_begun=NOT_MADE,
    result=JobResult.TEMPLATE,
    failpoints=frozenset({Failpoint.DRIVER_TEMPLATE}),
    steps=CreateTemplate,
)
