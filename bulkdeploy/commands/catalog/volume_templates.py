"""createTemplate: the creation of a template from a volume."""

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
    """Create a template from a volume of a stopped VM. The job's result is the template."""
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
            string("name", "the name of the template", required=True, rule=NAME),
            string("displaytext", "the description; default: the name", length=4096),
            uuid("volumeid", Entity.VOLUME, "the volume", required=True),
            uuid("zoneid", Entity.ZONE, "the zone of the template; it must be the zone of the volume"),
            ARCHITECTURE,
            *ABOUT,
            boolean("sshkeyenabled", "whether SSH keys can be set on guests of the template"),
            boolean("requireshvm", "whether guests of the template need hardware virtualization; default: true"),
            boolean("ispublic", "whether all accounts may use the image; default: false"),
            boolean("isfeatured", "whether the image is featured; only admins may set it"),
            string(
                "templatetag",
                "a host tag; VMs of the template are placed only on hosts with this tag. Only root admins may "
                "set it",
            ),
            DETAILS,
            *FOR_OWNER,
        ),
        unsupported={
            "bits": "use arch to name the CPU architecture",
            "snapshotid": "use revertSnapshot, and then create the template from the volume",
            "url": "use registerTemplate to create a template from a file",
            "virtualmachineid": "use volumeid; the virtual machine follows from the volume",
        },
    ),
)
