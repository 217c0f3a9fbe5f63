"""listHosts."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.host_response import HOST
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import string, strings, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts import RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.store import hosts
from bulkdeploy.store.listing import Page

DETAILS = ("all", "capacity", "events", "stats", "min")
WITH_CAPACITY = frozenset({"all", "capacity"})


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
