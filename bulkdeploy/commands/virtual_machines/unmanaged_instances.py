"""Commands of unmanaged guests, which have no row: list, import and unmanage (docs/how-to/backup.md).

CloudStack names such guests by their names on their hosts. This service also accepts ids, because names need not be
unique.
"""

from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.command import Command, JobTicket
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.owner_parameters import FOR_OWNER
from bulkdeploy.declare.parameters import boolean, string, uuid
from bulkdeploy.declare.response_fields import large_number, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    InvalidParameter,
    PermissionDenied,
    ResourceLimitExceeded,
    ResourceUnavailable,
)
from bulkdeploy.domain.jobs import InstanceType
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.services.jobs.done_jobs import done_with_object
from bulkdeploy.services.ownership import named_owner_of
from bulkdeploy.services.virtual_machines.unmanaged.adoption import Adoption, adopt
from bulkdeploy.services.virtual_machines.unmanaged.letting_go import unmanage_vm
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import UnmanagedGuest, find_unmanaged
from bulkdeploy.store.jobs.done_jobs import Instance
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.virtual_machines.virtual_machines import virtual_machine_rows

IMPORT_COMMAND_CLASS = "org.apache.cloudstack.api.command.admin.vm.ImportUnmanagedInstanceCmd"

UNMANAGED_INSTANCE = Response(
    "unmanagedinstance",
    (
        text(
            "id",
            "the id of the guest on the hypervisor; a virtual machine that is imported from the guest gets this id",
        ),
        text("name", "the name of the guest on the hypervisor"),
        text("clusterid", "the cluster of the guest"),
        text("clustername", "the cluster's name"),
        text("hostid", "the host of the guest"),
        text("hostname", "the host's name"),
        text("powerstate", "PowerOn or PowerOff"),
        number("cpunumber", "the number of CPU cores of the guest"),
        number("cpuspeed", "the speed of a CPU core, in MHz"),
        number("memory", "the memory of the guest, in MiB"),
        objects(
            "disk",
            "the volumes of the guest",
            (
                text("id", "the volume"),
                large_number("capacity", "the size of the volume, in bytes"),
                text("datastorename", "the id of the storage pool of the volume"),
            ),
        ),
        objects(
            "nic",
            "the nics of the guest",
            (
                text("id", "the nic"),
                text("macaddress", "the MAC address of the nic"),
                text("networkid", "the network of the nic"),
                text("ipaddress", "the address of the nic"),
            ),
        ),
    ),
)


def list_unmanaged_instances(call: Call) -> Page:
    """Return the guests of a cluster that are not VMs of the service.

    Raises:
        ResourceUnavailable: a hypervisor does not answer.
    """
    page = paging(call)
    found = _of_cluster(call)
    keyword, name = (call.text("keyword") or "").lower(), call.text("name")
    if name is not None:
        found = [one for one in found if name in (one.name, str(one.guest.uuid))]
    found = [one for one in found if keyword in one.name.lower()]
    end = None if page.limit is None else page.offset + page.limit
    return Page([_row(one) for one in found[page.offset : end]], len(found))


def find_guest(call: Call) -> list[UnmanagedGuest]:
    """Return the named guest, once for each host on which it exists.

    Raises:
        InvalidParameter: no guest, or more than one guest, has the name or id.
        ResourceUnavailable: a hypervisor does not answer.
    """
    name = call.arguments["name"]
    found = [one for one in _of_cluster(call) if name in (one.name, str(one.guest.uuid))]
    if len({one.guest.uuid for one in found}) != 1:
        rule = "the value must be the name or the id of exactly one guest that listUnmanagedInstances shows"
        raise InvalidParameter("name", name, f"{rule}; use the id if several guests have the name")
    return found


def import_unmanaged_instance(call: Call, found: list[UnmanagedGuest]) -> JobTicket:
    """Import an unmanaged guest as a VM on its present host.

    The job's result is the VM.

    Raises:
        InvalidParameter: the guest cannot be imported. The error contains the reason.
    """
    offering, template = call.ref_id("serviceofferingid"), call.ref_id("templateid")
    wanted = Adoption(named_owner_of(call.arguments), offering, template, call.text("displayname"))
    adopted = adopt(call.connection, call.caller, found, wanted)
    uuid = found[0].guest.uuid
    if uuid not in adopted.vm_ids:
        why = adopted.left_out.get(uuid, "another call has imported the guest meanwhile")
        raise InvalidParameter("name", call.arguments["name"], why)
    vm_id = adopted.vm_ids[uuid]
    row = virtual_machine_rows(call.connection, [vm_id])[vm_id]
    about = Instance(InstanceType.VIRTUAL_MACHINE, vm_id, uuid)
    return done_with_object(
        call.connection, call.caller, IMPORT_COMMAND_CLASS, "virtualmachine", row, about, created=True
    )


def unmanage_virtual_machine(call: Call) -> JobTicket:
    """Delete the rows of a VM while its guest keeps running unmanaged."""
    return unmanage_vm(call.connection, call.caller, call.system.drivers, call.arguments["id"])


def _of_cluster(call: Call) -> list[UnmanagedGuest]:
    cluster = call.arguments["clusterid"]
    try:
        found = find_unmanaged(call.give_back_connection(), call.system.drivers)
    except DriverError as error:
        raise ResourceUnavailable(str(error)) from error
    return [one for one in found.guests if one.host is not None and one.host.cluster_id == cluster.id]


def _row(one: UnmanagedGuest) -> dict[str, Any]:
    host, guest = one.host, one.guest
    if host is None:
        return {}
    return {
        "id": str(guest.uuid),
        "name": one.name,
        "clusterid": str(host.cluster_uuid),
        "clustername": host.cluster_name,
        "hostid": str(guest.host_uuid),
        "hostname": host.name,
        "powerstate": "PowerOn" if guest.power == "Running" else "PowerOff",
        "cpunumber": guest.cpu_number,
        "cpuspeed": guest.cpu_mhz,
        "memory": guest.memory_mib,
        "disk": [
            {"id": str(uuid), "capacity": size, "datastorename": str(pool)} for uuid, pool, size in one.volumes
        ],
        "nic": [
            {
                "id": str(nic.uuid),
                "macaddress": nic.mac_address,
                **({} if nic.network_uuid is None else {"networkid": str(nic.network_uuid)}),
                **({} if nic.ip_address is None else {"ipaddress": nic.ip_address}),
            }
            for nic in (one.details.nics if one.details else ())
        ],
    }


CLUSTER = uuid("clusterid", Entity.CLUSTER, "the cluster that the guest is in", required=True)

AS_THEY_ARE = "an imported guest keeps its disks, nics and details"

COMMANDS: tuple[Command, ...] = (
    Command(
        name="listUnmanagedInstances",
        description=(
            "Lists guests on the hosts of a cluster that belong to no virtual machine, as reported by the "
            "hypervisors"
        ),
        handler=list_unmanaged_instances,
        shape=Shape.LIST,
        response=UNMANAGED_INSTANCE,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        errors=(ResourceUnavailable,),
        parameters=(CLUSTER, string("name", "only the guest of this name or id"), *PAGING),
    ),
    Command(
        name="importUnmanagedInstance",
        description="Imports a guest that runs on a host of the cluster as a virtual machine, unchanged",
        handler=import_unmanaged_instance,
        prepare=find_guest,
        shape=Shape.JOB,
        response=VIRTUAL_MACHINE,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        errors=(PermissionDenied, ResourceLimitExceeded, ResourceUnavailable),
        changes_state=True,
        parameters=(
            CLUSTER,
            string("name", "the name or the id of the guest on the hypervisor", required=True),
            uuid(
                "serviceofferingid",
                Entity.SERVICE_OFFERING,
                "a service offering with the CPU cores and the memory of the guest",
                required=True,
            ),
            uuid(
                "templateid",
                Entity.TEMPLATE,
                "the template of the virtual machine; default: the template that the guest was created from",
            ),
            string("displayname", "the display name of the virtual machine"),
            *FOR_OWNER,
        ),
        unsupported={
            "datadiskofferinglist": AS_THEY_ARE,
            "details": AS_THEY_ARE,
            "forced": "a guest that does not meet the requirements cannot be imported",
            "hostname": AS_THEY_ARE,
            "migrateallowed": "a guest stays on its host",
            "nicipaddresslist": AS_THEY_ARE,
            "nicnetworklist": AS_THEY_ARE,
        },
    ),
    Command(
        name="unmanageVirtualMachine",
        description=(
            "Removes a running virtual machine but keeps its guest running. importUnmanagedInstance adds it again."
        ),
        handler=unmanage_virtual_machine,
        shape=Shape.JOB_SUCCESS,
        roles=ROOT_ADMIN_ONLY,
        authorized=ROOT_ADMIN_ONLY,
        errors=(PermissionDenied,),
        changes_state=True,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            boolean("forced", "accepted but ignored: the guest always keeps its drive with user data"),
        ),
        unsupported={"hostid": "only running virtual machines are unmanaged; their guests stay on their hosts"},
    ),
)
