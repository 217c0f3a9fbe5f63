"""listHosts."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string, strings, uuid
from bulkdeploy.declare.response_fields import flag, large_number, moment, number, text, text_map
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.store import hosts
from bulkdeploy.store.listing import Page

DETAILS = ("all", "capacity", "events", "stats", "min")
WITH_CAPACITY = frozenset({"all", "capacity"})

HOST = Response(
    "host",
    (
        text("id", "the host"),
        text("name", "its name"),
        text("state", "Up, Down, Disconnected, Alert, Connecting or Removed"),
        text("resourcestate", "Enabled, Disabled, PrepareForMaintenance, Maintenance or ErrorInMaintenance"),
        text("type", "Routing"),
        text("hypervisor", "its hypervisor"),
        text("hypervisorversion", "the hypervisor's version"),
        text("ipaddress", "its management address"),
        text("zoneid", "its zone"),
        text("zonename", "the zone's name"),
        text("podid", "its pod"),
        text("podname", "the pod's name"),
        text("clusterid", "its cluster"),
        text("clustername", "the cluster's name"),
        text("clustertype", "the cluster's type"),
        text("capabilities", "hvm"),
        text("hosttags", "its tags, separated by commas"),
        text("explicithosttags", "the tags that an operator gave it, separated by commas"),
        number("cpusockets", "its CPU sockets"),
        number("cpunumber", "its CPU cores, before over-commit"),
        large_number("cpuspeed", "the speed of a core, MHz"),
        text("cpuallocated", "the share of its CPU that is promised, before over-commit: 12.5%"),
        text("cpuallocatedpercentage", "the share of its CPU that is promised, before over-commit: 12.5%"),
        large_number("cpuallocatedvalue", "the CPU that is promised, MHz"),
        text("cpuallocatedwithoverprovisioning", "the share of its CPU that is promised, after over-commit"),
        text("cpuwithoverprovisioning", "its CPU after over-commit, MHz"),
        large_number("memorytotal", "its memory before over-commit, bytes"),
        large_number("memoryallocated", "the memory that is promised, bytes"),
        large_number("memoryallocatedbytes", "the memory that is promised, bytes"),
        text("memoryallocatedpercentage", "the share of its memory that is promised, after over-commit"),
        text("memorywithoverprovisioning", "its memory after over-commit, bytes"),
        flag("islocalstorageactive", "whether its own disks can hold volumes"),
        large_number("disksizetotal", "the size of its own disks, bytes"),
        large_number("disksizeallocated", "what is promised of its own disks, bytes"),
        text_map("details", "its details", ROOT_ADMIN_ONLY),
        moment("created", "when it was added"),
    ),
)


def list_hosts(call: Call) -> Page:
    """Hosts, by place or all.

    Raises:
        InvalidParameter: an unknown word in ``details``.
    """
    details = call.arguments.get("details", ("all",))
    for word in details:
        if word.lower() not in DETAILS:
            raise InvalidParameter("details", word, f"it should be one of: {', '.join(DETAILS)}")
    if call.arguments.get("type", hosts.HOST_TYPE).lower() != hosts.HOST_TYPE.lower():
        return Page((), 0)
    with_capacity = any(word.lower() in WITH_CAPACITY for word in details)
    return hosts.list_hosts(call.connection, call.arguments, paging(call), with_capacity=with_capacity)


COMMANDS = (
    Command(
        name="listHosts",
        description="Lists hosts and what is promised of each",
        handler=list_hosts,
        shape=Shape.LIST,
        response=HOST,
        roles=frozenset({RoleType.ADMIN, RoleType.RESOURCE_ADMIN}),
        parameters=(
            uuid("id", Entity.HOST, "only this host"),
            string("name", "only hosts of this name"),
            uuid("zoneid", Entity.ZONE, "only hosts of this zone"),
            uuid("podid", Entity.POD, "only hosts of this pod"),
            uuid("clusterid", Entity.CLUSTER, "only hosts of this cluster"),
            string("hypervisor", "only hosts of this hypervisor"),
            string("state", "only hosts in this state, such as Up"),
            string("resourcestate", "only hosts in this resource state, such as Enabled"),
            string("type", "only hosts of this type; hosts that run VMs are of type Routing"),
            strings("details", f"what to say of each host: {', '.join(DETAILS)}; default all"),
            *PAGING,
        ),
    ),
)
