"""listHypervisors: the hypervisor types of a zone."""

from bulkdeploy.commands.call import Call
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import uuid
from bulkdeploy.declare.response_fields import text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.catalog import hypervisors
from bulkdeploy.store.rows.listing import Page


def list_hypervisors(call: Call) -> Page:
    """Return the hypervisor types of the clusters in a zone, or in all zones if no zone is given."""
    rows = hypervisors.list_hypervisors(call.connection, call.ref_id("zoneid"))
    return Page(rows, len(rows))


COMMANDS = (
    Command(
        name="listHypervisors",
        description="Lists the hypervisors of a zone, or of all zones",
        handler=list_hypervisors,
        shape=Shape.LIST,
        response=Response("hypervisor", (text("name", "the hypervisor, such as KVM"),)),
        parameters=(uuid("zoneid", Entity.ZONE, "only hypervisors of this zone"),),
    ),
)
