"""listAllocations: the claims on hosts and storage pools. CloudStack does not have this command."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string, uuid
from bulkdeploy.declare.response_fields import moment, number, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.store.ledger import allocations
from bulkdeploy.store.rows.listing import Page

ALLOCATION = Response(
    "allocation",
    (
        text(
            "consumerid",
            "the object that has the claim: a virtual machine, a volume, or the job of a migration",
            ROOT_ADMIN_ONLY,
        ),
        text(
            "consumertype",
            "the type of the object that has the claim: VirtualMachine, Volume, or Migration (a claim on the "
            "host that the virtual machine leaves)",
        ),
        text(
            "consumername",
            "the name of the virtual machine or the volume; for a migration, that of its virtual machine",
            ROOT_ADMIN_ONLY,
        ),
        text("hostid", "the host on which capacity is claimed"),
        text("hostname", "the host's name"),
        text("storageid", "the storage pool on which capacity is claimed"),
        text("storage", "the pool's name"),
        number("cpu", "the claimed CPU of the host, in MHz"),
        number("memory", "the claimed memory of the host, in MiB"),
        number("size", "the claimed size on the pool, in bytes"),
        moment("created", "when the claim was made"),
    ),
)


def list_allocations(call: Call) -> Page:
    """Return the claims on hosts and storage pools that match the filters."""
    return allocations.list_allocations(call.connection, call.arguments, paging(call))


COMMANDS: tuple[Command, ...] = (
    Command(
        name="listAllocations",
        description="Lists the claims of virtual machines, migrations and volumes on hosts and storage pools",
        handler=list_allocations,
        shape=Shape.LIST,
        response=ALLOCATION,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            string("consumerid", "only claims of this virtual machine, volume or migration job"),
            string("consumertype", "only claims of this type of consumer", choices=allocations.CONSUMER_TYPES),
            uuid("hostid", Entity.HOST, "only claims on this host and on its local disks"),
            uuid("storageid", Entity.STORAGE_POOL, "only claims on this pool"),
            uuid("clusterid", Entity.CLUSTER, "only claims in this cluster"),
            uuid("podid", Entity.POD, "only claims in this pod"),
            uuid("zoneid", Entity.ZONE, "only claims in this zone"),
            *(parameter for parameter in PAGING if parameter.name != "keyword"),
        ),
        unsupported={"keyword": "allocations have no name or description"},
    ),
)
