"""listHosts, addHost, updateHost, deleteHost, reconnectHost."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.infrastructure.responses import HOST
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_ACCESS_GROUPS, NO_EXTENSIONS, NO_TAG_RULES
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.noun import Noun, Values
from bulkdeploy.declare.parameters import ExactlyOne, boolean, string, strings, uuid
from bulkdeploy.declare.responses import Shape
from bulkdeploy.declare.value_rules import HOST_NAME, TAG, URL
from bulkdeploy.domain.accounts.accounts import INFRASTRUCTURE_ADMINS, ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import PermissionDenied, ResourceInUse, ResourceUnavailable
from bulkdeploy.domain.infrastructure.topology import AllocationState, HypervisorType
from bulkdeploy.services.infrastructure import hosts as host_service
from bulkdeploy.services.infrastructure.hosts import HostReachedAgain, ReachedHost
from bulkdeploy.services.live_entities import ONE, only_row
from bulkdeploy.services.virtual_machines.virtual_machine_migration import find_hosts_for_migration
from bulkdeploy.store.infrastructure import hosts
from bulkdeploy.store.rows.listing import Page

DETAILS = ("all", "capacity", "events", "stats", "min")
WITH_CAPACITY = frozenset({"all", "capacity"})


def list_hosts(call: Call) -> Page:
    """Return the hosts that match the filters.

    With ``virtualmachineid``, return the hosts to which this VM could move.

    Raises:
        InvalidParameter: the VM does not run.
        PermissionDenied: the caller may not see the VM.
    """
    vm = call.ref("virtualmachineid")
    if call.arguments.get("type", hosts.HOST_TYPE).lower() != hosts.HOST_TYPE.lower():
        return Page((), 0)
    if vm is not None:
        return find_hosts_for_migration(call.connection, call.caller, vm, call.arguments, paging(call))
    with_capacity = any(word in WITH_CAPACITY for word in call.arguments.get("details", ("all",)))
    return hosts.list_hosts(call.connection, call.arguments, paging(call), with_capacity=with_capacity)


def reach_new_host(call: Call) -> list[ReachedHost]:
    """Connect to the machine that becomes a host and read its hardware, before the transaction of addHost."""
    return host_service.reach_new_hosts(call.connection, call.system, [call.arguments])


def add_host(call: Call, reached: Sequence[ReachedHost]) -> Page:
    """Add the host that ``reach_new_host`` has read to a cluster, and return it as a list of one row."""
    (host,) = host_service.add_hosts(call.connection, call.caller, reached)
    return _page(call, host)


def update_host(call: Call) -> Mapping[str, Any]:
    """Change a host, and return the host."""
    host = call.arguments["id"]
    host_service.update_hosts(call.connection, call.caller, [(host, call.arguments)])
    return only_row(_page(call, host))


def delete_host(call: Call) -> None:
    """Delete a host without VMs, and the storage pool of its local disks."""
    host_service.delete_hosts(call.connection, call.caller, [call.arguments["id"]], forced=call.flag("forced"))


def reach_again(call: Call) -> HostReachedAgain:
    """Connect to a host again and read its hardware, before the transaction of reconnectHost."""
    return host_service.reach_again(call.connection, call.system, call.arguments["id"])


def reconnect_host(call: Call, reached: HostReachedAgain) -> JobTicket:
    """Write the hardware that a reconnected host reports. The job's result is the host."""
    return host_service.reconnect_host(call.connection, call.caller, call.arguments["id"], reached)


def _page(call: Call, host: EntityRef) -> Page:
    return hosts.list_hosts(call.connection, {"id": host}, ONE, with_capacity=True)


ALLOCATION_STATES = tuple(state.value for state in AllocationState)
SWITCHES = ("Enable", "Disable", *ALLOCATION_STATES)

ADD = Command(
    name="addHost",
    description=(
        "Adds a host to a cluster. Its hypervisor reports its capacity. If the zone allows local storage, the "
        "disks of the host become a storage pool."
    ),
    handler=add_host,
    prepare=reach_new_host,
    shape=Shape.LIST,
    response=HOST,
    roles=INFRASTRUCTURE_ADMINS,
    changes_state=True,
    errors=(ResourceUnavailable,),
    parameters=(
        uuid("zoneid", Entity.ZONE, "the zone", required=True),
        uuid("podid", Entity.POD, "the pod", required=True),
        uuid("clusterid", Entity.CLUSTER, "the cluster"),
        string("clustername", "the name of the cluster in the pod; used instead of clusterid"),
        string(
            "hypervisor",
            "the hypervisor of the host, which must be that of the cluster",
            required=True,
            choices=tuple(kind.value for kind in HypervisorType),
        ),
        string(
            "url",
            "the URL at which the driver reaches the host. The URL of a simulated host describes it: "
            "http://rack1/host7?cpu_cores=64&cpu_mhz=2500&memory_mib=262144&local_disk_gib=500",
            required=True,
            rule=URL,
        ),
        string("username", "the user name with which the driver logs in"),
        string("password", "the password of the user; it is never stored"),
        strings("hosttags", "the tags of the host", rule=TAG),
        string(
            "allocationstate",
            "Enabled (default), or Disabled: the service places no new VMs here",
            choices=ALLOCATION_STATES,
        ),
    ),
    rules=(ExactlyOne(("clusterid", "clustername")),),
    unsupported={"externaldetails": NO_EXTENSIONS, "storageaccessgroups": NO_ACCESS_GROUPS},
)

UPDATE = Command(
    name="updateHost",
    description="Changes a host. A changed allocation state applies from the next deployment on.",
    handler=update_host,
    shape=Shape.OBJECT,
    response=HOST,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    parameters=(
        uuid("id", Entity.HOST, "the host", required=True),
        string("name", "the new name, unique in the zone", rule=HOST_NAME),
        string("allocationstate", "Enable, or Disable: no new VMs are placed on the host", choices=SWITCHES),
        strings("hosttags", "the new tags of the host, which replace all present tags; empty: no tags", rule=TAG),
        string("annotation", "a remark about the host; empty: no remark"),
    ),
    unsupported={
        "url": "the parameter applies only to secondary storage hosts, which do not exist here",
        "oscategoryid": "hosts have no preferred operating system",
        "istagarule": NO_TAG_RULES,
        "externaldetails": NO_EXTENSIONS,
        "cleanupexternaldetails": NO_EXTENSIONS,
    },
)

DELETE = Command(
    name="deleteHost",
    description="Deletes a host without VMs, and the storage pool of its local disks",
    handler=delete_host,
    shape=Shape.SUCCESS,
    roles=INFRASTRUCTURE_ADMINS,
    changes_state=True,
    errors=(ResourceInUse,),
    parameters=(
        uuid("id", Entity.HOST, "the host", required=True),
        boolean(
            "forced", "true: delete the host even if it is not in maintenance; a host with VMs is never deleted"
        ),
    ),
    unsupported={"forcedestroylocalstorage": "volumes on local disks are not destroyed with the host"},
)

RECONNECT = Command(
    name="reconnectHost",
    description="Reconnects a host and reads its capacity again. Rejected while evacuateHost is running.",
    handler=reconnect_host,
    prepare=reach_again,
    shape=Shape.JOB,
    response=HOST,
    roles=ROOT_ADMIN_ONLY,
    changes_state=True,
    errors=(ResourceUnavailable,),
    parameters=(uuid("id", Entity.HOST, "the host", required=True),),
)

COMMANDS = (
    ADD,
    UPDATE,
    DELETE,
    RECONNECT,
    Command(
        name="listHosts",
        description="Lists hosts with their allocated capacity",
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
            string("arch", "only hosts of this CPU architecture; all here are x86_64"),
            string("managementserverid", "only hosts of this management server; all hosts belong to the only one"),
            boolean("outofbandmanagementenabled", "only hosts with out-of-band management enabled, or without"),
            string(
                "outofbandmanagementpowerstate",
                "only hosts in this power state: On, Off, Unknown or Disabled",
            ),
            uuid(
                "virtualmachineid",
                Entity.VIRTUAL_MACHINE,
                "only hosts that this running VM could move to, each with suitableformigration and all details",
            ),
            boolean("hahost", "true: no host, because no host is reserved for failures"),
            strings(
                "details",
                "the groups of fields that the response contains for each host; default: all",
                choices=DETAILS,
            ),
            *PAGING,
        ),
        errors=(PermissionDenied,),
        unsupported={
            "storageaccessgroup": NO_ACCESS_GROUPS,
            "version": "hosts run no agent; the response contains hypervisorversion",
        },
    ),
)


def _key(values: Values) -> Hashable:
    """Return the key by which a host in a zone file is found: its zone and its URL without the query.

    The query of a simulated host's URL describes its hardware and does not identify the host.
    """
    return values["zoneid"], (values.get("url") or "").partition("?")[0]


NOUNS = (
    Noun(
        section="hosts",
        entity=Entity.HOST,
        create=ADD,
        create_many=host_service.add_hosts,
        prepare=host_service.reach_new_hosts,
        update=UPDATE,
        update_many=host_service.update_hosts,
        read=hosts.read_hosts,
        key=_key,
        parent="clusterid",
        after=("configuration",),  # hosts get their cluster's over-commit when they are added
        patterns=True,
    ),
)
