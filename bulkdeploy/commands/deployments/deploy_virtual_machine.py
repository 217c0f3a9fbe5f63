"""deployVirtualMachine: one VM, by the same service as the bulk call (reference section 5)."""

from collections.abc import Mapping

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.deploy_parameters import (
    SHARED,
    SHARED_RULES,
    deploy_ask,
    deployment_planner,
    require_root_admin,
)
from bulkdeploy.commands.unsupported import (
    NO_CUSTOM_IDS,
    NO_DHCP_OPTIONS,
    NO_EXTENSIONS,
    NO_IPV6,
    NO_LEASES,
    NO_SETUP,
    NO_SNAPSHOTS,
    NO_VNF,
)
from bulkdeploy.commands.virtual_machines.key_pair_parameters import key_pair_names
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.parameters import (
    Exclusive,
    boolean,
    long,
    mapping,
    string,
    strings,
    uuid,
)
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    InsufficientAddresses,
    InsufficientCapacity,
    OwnerDisabled,
    PermissionDenied,
    ResourceLimitExceeded,
    ResourceUnavailable,
)
from bulkdeploy.domain.sizes import MOST_DISK_GIB
from bulkdeploy.services.deployments.deploy import DryRun, deploy

FLAGS = {"displayvm": "display_vm", "dynamicscalingenabled": "dynamic_scaling"}
"""Parameters that are flags, true unless they are false, and their columns."""


def deploy_virtual_machine(call: Call) -> JobTicket:
    """Make one VM; answers its id and the job that starts it."""
    require_root_admin(call, "hostid", "clusterid", "podid")
    result = deploy(
        call.connection,
        call.system,
        call.caller,
        deploy_ask(
            call,
            bulk=False,
            count=1,
            keypairs=key_pair_names(call),
            host_id=call.ref_id("hostid"),
            name=call.text("name"),
            display_name=call.text("displayname"),
            group=call.text("group"),
            disk_size_gib=call.arguments.get("size"),
            root_disk_gib=call.arguments.get("rootdisksize"),
            ip_address=call.text("ipaddress"),
            details=_details(call),
            planner=call.text("deploymentplanner"),
            registered_user_data=call.ref("userdataid"),
            flags={column: False for name, column in FLAGS.items() if not call.flag(name, default=True)},
        ),
    )
    if isinstance(result, DryRun):
        raise TypeError("a single deployment has no dry run")
    return JobTicket(result.job_uuids[0], result.vm_uuids[0])


def _details(call: Call) -> Mapping[str, str]:
    """All sub-maps of ``details`` as one, as CloudStack reads them."""
    return {key: value for part in call.arguments.get("details", ()) for key, value in part.items()}


UNSUPPORTED = {
    "iptonetworklist": "networks give the addresses; ipaddress asks for one in the default network",
    "ip6address": NO_IPV6,
    "macaddress": "MAC addresses are made here",
    "dhcpoptionsnetworklist": NO_DHCP_OPTIONS,
    "datadiskofferinglist": "diskofferingid asks for one data disk; createVolume and attachVolume give more",
    "datadisksdetails": "diskofferingid asks for one data disk; createVolume and attachVolume give more",
    "overridediskofferingid": "the root disk is as the service offering says; rootdisksize sets its size",
    "snapshotid": NO_SNAPSHOTS,
    "volumeid": "a VM is made from a template or an ISO",
    "userdatadetails": "user data has no variables",
    "customid": NO_CUSTOM_IDS,
    "password": "guests have no passwords set from outside",
    "extraconfig": "hypervisors take no extra configuration",
    "nicnetworklist": NO_VNF,
    "leaseduration": NO_LEASES,
    "leaseexpiryaction": NO_LEASES,
    "bootintosetup": NO_SETUP,
    "copyimagetags": "a VM has no tags of its image; createTags gives it some",
    "externaldetails": NO_EXTENSIONS,
    "properties": "templates have no OVF properties",
    **dict.fromkeys(
        ("iodriverpolicy", "iothreadsenabled", "nicmultiqueuenumber", "nicpackedvirtqueuesenabled"),
        "how disks and nics are served is the hypervisor's own business",
    ),
}
"""Parameters that CloudStack has for this call, and why they are refused."""

COMMANDS: tuple[Command, ...] = (
    Command(
        name="deployVirtualMachine",
        description="Creates and automatically starts a virtual machine",
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        changes_state=True,
        parameters=(
            *SHARED,
            string("name", "the host name; generated where it is not given"),
            string("displayname", "the name shown; the host name where it is not given"),
            string("group", "the instance group to put the VM in; made when it is missing"),
            string("userdata", "data for the guest, base64; not with userdataid", length=1048576),
            uuid("userdataid", Entity.USER_DATA, "registered user data; not with userdata", since="4.18"),
            strings("keypairs", "the owner's SSH key pairs to log in with"),
            string("ipaddress", "the address in the default network"),
            long("size", "size of the data disk in GiB, for custom disk offerings", minimum=1),
            long("rootdisksize", "size of the root disk in GiB", minimum=1, maximum=MOST_DISK_GIB),
            mapping("details", "cpuNumber, cpuSpeed (MHz) and memory (MiB) of custom offerings, and others"),
            boolean("startvm", "false: make the VM and do not start it; default true"),
            boolean("displayvm", "whether it is shown to users; default true", roles=ROOT_ADMIN_ONLY),
            boolean("dynamicscalingenabled", "false: it is not scaled while it runs, whatever its offering says"),
            string("boottype", "BIOS, as guests boot", choices=("BIOS",)),
            string("bootmode", "LEGACY, as guests boot", choices=("LEGACY",)),
            string("keyboard", "accepted and without effect: guests have no consoles here"),
            uuid("hostid", Entity.HOST, "deploy only on this host; root admins only"),
            uuid("podid", Entity.POD, "deploy only in this pod; root admins only"),
            uuid("clusterid", Entity.CLUSTER, "deploy only in this cluster; root admins only"),
            deployment_planner("the planner to place the VM with, instead of the offering's"),
        ),
        unsupported=UNSUPPORTED,
        rules=(*SHARED_RULES, Exclusive(("userdata", "userdataid"))),
        errors=(
            PermissionDenied,
            OwnerDisabled,
            ResourceLimitExceeded,
            InsufficientCapacity,
            InsufficientAddresses,
            ResourceUnavailable,
        ),
        handler=deploy_virtual_machine,
    ),
)
