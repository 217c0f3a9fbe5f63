"""createTemplate."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.catalog.template_fields import ABOUT, ARCHITECTURE, DETAILS, FIELDS
from bulkdeploy.commands.ownership import named_owner
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.declare.value_rules import NAME
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied, ResourceLimitExceeded
from bulkdeploy.services.catalog.volume_templates import create_template as service


def create_template(call: Call) -> JobTicket:
    """Create a template of a volume; the job's result is the template."""
    return service(call.connection, call.system, call.caller, named_owner(call), call.arguments)


COMMANDS = (
    Command(
        name="createTemplate",
        description="Creates a template from a volume of a stopped virtual machine",
        handler=create_template,
        shape=Shape.JOB,
        response=Response("template", FIELDS),
        errors=(PermissionDenied, ResourceLimitExceeded),
        changes_state=True,
        parameters=(
            string("name", "its name", required=True, rule=NAME),
            string("displaytext", "the description; default: the name", length=4096),
            uuid("volumeid", Entity.VOLUME, "the volume", required=True),
            uuid("zoneid", Entity.ZONE, "the volume's zone, which the template will be in"),
            ARCHITECTURE,
            *ABOUT,
            boolean("sshkeyenabled", "whether its guests take SSH keys"),
            boolean("requireshvm", "whether its guests need hardware virtualization; default true"),
            boolean("ispublic", "whether all accounts may use it; default false"),
            boolean("isfeatured", "whether it is featured; for admins"),
            string("templatetag", "a tag that a host must have to run its VMs; for root admins"),
            DETAILS,
            *FOR_OWNER,
        ),
        unsupported={
            "bits": "arch names the CPU architecture",
            "snapshotid": "a snapshot lies in its volume: revertSnapshot, then make a template of the volume",
            "url": "registerTemplate makes a template of a file",
            "virtualmachineid": "the volume names its virtual machine",
        },
    ),
)
