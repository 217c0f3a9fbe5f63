"""listVirtualMachines: the VMs that a caller may see."""

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.ownership import visible
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.unsupported import NO_EXTENSIONS, NO_GPU, NO_VNF, NO_VPCS
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import COUNT_ONLY, OWNER, PAGING, PROJECT, SHOW_ICON, sort_by
from bulkdeploy.declare.parameters import Exclusive, boolean, mapping, string, strings, uuid, uuids
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import InvalidParameter, PermissionDenied
from bulkdeploy.domain.virtual_machines.virtual_machines import VmState
from bulkdeploy.services.deployments.registered_user_data import require_user_data
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.virtual_machines import virtual_machines
from bulkdeploy.store.virtual_machines.virtual_machine_details import Detail

STATES = (*(state.value for state in VmState), virtual_machines.PRESENT)


def list_virtual_machines(call: Call) -> Page:
    """Return the VMs of the visible accounts, ordered by creation.

    Raises:
        InvalidParameter: ``details`` contains an unknown word.
        PermissionDenied: an owner parameter names an account outside the caller's reach, or the caller may not see
            the user data.
    """
    require_user_data(call.connection, call.caller, call.ref("userdataid"))
    return virtual_machines.list_virtual_machines(
        call.connection,
        visible(call),
        call.arguments,
        paging(call),
        _details(call),
        sees_instance_names=call.caller.is_root_admin,
        sees_destroyed=_sees_destroyed(call),
    )


def _details(call: Call) -> frozenset[Detail]:
    words = call.arguments.get("details", (Detail.ALL.value,))
    for word in words:
        if word.lower() not in set(Detail):
            known = ", ".join(detail.value for detail in Detail)
            raise InvalidParameter("details", word, f"the value must be one of: {known}")
    return frozenset(Detail(word.lower()) for word in words)


def _sees_destroyed(call: Call) -> bool:
    """Return whether the caller sees destroyed VMs. Admins do; users do if the settings allow it."""
    if call.caller.role_type is not RoleType.USER:
        return True
    return read_configuration(call.connection).flag("allow.user.view.destroyed.vm")


COMMANDS = (
    Command(
        name="listVirtualMachines",
        description="Lists virtual machines",
        handler=list_virtual_machines,
        shape=Shape.LIST,
        response=VIRTUAL_MACHINE,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "only this VM"),
            uuids("ids", Entity.VIRTUAL_MACHINE, "only these VMs"),
            string("name", "only VMs of this host name"),
            string(
                "state",
                "only VMs in this state; Present: in any state except Destroyed",
                choices=STATES,
            ),
            uuid("zoneid", Entity.ZONE, "only VMs in this zone"),
            uuid("podid", Entity.POD, "only VMs in this pod", roles=ROOT_ADMIN_ONLY),
            uuid("clusterid", Entity.CLUSTER, "only VMs in this cluster", roles=ROOT_ADMIN_ONLY),
            uuid("hostid", Entity.HOST, "only VMs on this host", roles=ROOT_ADMIN_ONLY),
            uuid("storageid", Entity.STORAGE_POOL, "only VMs with a volume on this pool", roles=ROOT_ADMIN_ONLY),
            string("hypervisor", "only VMs on this hypervisor"),
            uuid("serviceofferingid", Entity.SERVICE_OFFERING, "only VMs of this service offering"),
            uuid("templateid", Entity.TEMPLATE, "only VMs that were deployed from this template"),
            uuid("isoid", Entity.ISO, "only VMs that were deployed from this ISO"),
            uuid("networkid", Entity.NETWORK, "only VMs in this network"),
            uuid("securitygroupid", Entity.SECURITY_GROUP, "only VMs in this security group"),
            uuid("affinitygroupid", Entity.AFFINITY_GROUP, "only VMs in this affinity group"),
            uuid("groupid", Entity.INSTANCE_GROUP, "only VMs in this instance group"),
            uuid("userid", Entity.USER, "only VMs that this user deployed"),
            string("keypair", "only VMs with this SSH key pair"),
            boolean(
                "haenable",
                "true: only VMs that are started on another host if their host fails; false: only others",
            ),
            boolean(
                "displayvm", "true: only VMs that users can see; false: only hidden VMs", roles=ROOT_ADMIN_ONLY
            ),
            mapping("tags", "only VMs with these tags: tags[0].key, tags[0].value"),
            strings(
                "details",
                f"the groups of fields in the response for each VM: {', '.join(detail.value for detail in Detail)}",
            ),
            uuid("userdataid", Entity.USER_DATA, "only VMs with this registered user data", since="4.18"),
            boolean("forvirtualnetwork", "true: only VMs in an Isolated network; false: only others"),
            string("arch", "only VMs whose template has this CPU architecture"),
            boolean("userdata", "true: the response contains the user data of each VM; default: false"),
            boolean("leased", "true: only VMs with a lease; false: only VMs without one"),
            COUNT_ONLY,
            SHOW_ICON,
            *OWNER,
            *PROJECT,
            sort_by(virtual_machines.ORDERS),
            *PAGING,
        ),
        rules=(Exclusive(("id", "ids")),),
        unsupported={
            "accumulate": "statistics cannot be accumulated",
            "autoscalevmgroupid": "there are no autoscale groups",
            "backupofferingid": "there are no backups",
            "extensionid": NO_EXTENSIONS,
            "gpuenabled": NO_GPU,
            "isvnf": NO_VNF,
            "vpcid": NO_VPCS,
        },
    ),
)
