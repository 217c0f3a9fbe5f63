"""listAllocations: who holds how much of which host or storage pool. Ours, after OpenStack's allocations."""

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
        text("consumerid", "who holds it: a virtual machine, a volume, or the job of a migration", ROOT_ADMIN_ONLY),
        text(
            "consumertype",
            "VirtualMachine, Migration (it holds the host that its virtual machine leaves) or Volume",
        ),
        text(
            "consumername",
            "the virtual machine's or the volume's name; of a migration, its virtual machine's",
            ROOT_ADMIN_ONLY,
        ),
        text("hostid", "the host that is held"),
        text("hostname", "the host's name"),
        text("storageid", "the storage pool that is held"),
        text("storage", "the pool's name"),
        number("cpu", "MHz of the host"),
        number("memory", "MiB of the host"),
        number("size", "bytes of the pool"),
        moment("created", "since when it is held"),
    ),
)


def list_allocations(call: Call) -> Page:
    """Return claims of hosts and pools."""
    return allocations.list_allocations(call.connection, call.arguments, paging(call))


COMMANDS: tuple[Command, ...] = (
    Command(
        name="listAllocations",
        description="Lists what virtual machines, migrations and volumes hold of hosts and storage pools",
        handler=list_allocations,
        shape=Shape.LIST,
        response=ALLOCATION,
        roles=ROOT_ADMIN_ONLY,
        parameters=(
            string("consumerid", "only what this virtual machine, volume or migration's job holds"),
            string("consumertype", "only what such consumers hold", choices=allocations.CONSUMER_TYPES),
            uuid("hostid", Entity.HOST, "only what is held of this host, and of its own disks"),
            uuid("storageid", Entity.STORAGE_POOL, "only what is held of this pool"),
            uuid("clusterid", Entity.CLUSTER, "only what is held in this cluster"),
            uuid("podid", Entity.POD, "only what is held in this pod"),
            uuid("zoneid", Entity.ZONE, "only what is held in this zone"),
            *(parameter for parameter in PAGING if parameter.name != "keyword"),
        ),
        unsupported={"keyword": "allocations have no text that a keyword could find"},
    ),
)
