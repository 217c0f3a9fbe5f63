"""The response fields of commands for hosts and other places. ``store.infrastructure`` reads the rows."""

from bulkdeploy.commands.availability.responses import HA_FIELDS, POWER_FIELDS
from bulkdeploy.commands.constant_fields import OF_HOSTS
from bulkdeploy.declare.response_fields import (
    HAS_ANNOTATIONS,
    flag,
    fraction,
    large_number,
    moment,
    number,
    objects,
    text,
    text_map,
)
from bulkdeploy.declare.responses import Field, FieldType, Response
from bulkdeploy.domain.accounts.accounts import INFRASTRUCTURE_ADMINS, ROOT_ADMIN_ONLY

HOST = Response(
    "host",
    (
        text("id", "the host"),
        text("name", "the name of the host"),
        text("state", "Up, Down, Disconnected, Alert, Connecting or Removed"),
        text(
            "resourcestate", "Enabled, Disabled, PrepareForMaintenance, Maintenance or ErrorInPrepareForMaintenance"
        ),
        text("type", "Routing"),
        text("hypervisor", "the hypervisor of the host"),
        text("hypervisorversion", "the hypervisor's version"),
        text("arch", "the CPU architecture of the host"),
        flag("hahost", "always false: no host is reserved for VMs of failed hosts"),
        flag("istagarule", "always false: tags are texts, not rules"),
        text("ipaddress", "the management address of the host"),
        text("zoneid", "the zone of the host"),
        text("zonename", "the zone's name"),
        text("podid", "the pod of the host"),
        text("podname", "the pod's name"),
        text("clusterid", "the cluster of the host"),
        text("clustername", "the cluster's name"),
        text("clustertype", "the cluster's type"),
        text("capabilities", "hvm"),
        text("hosttags", "the tags of the host, separated by commas"),
        text("explicithosttags", "the tags that an operator set, separated by commas"),
        number("cpusockets", "the number of CPU sockets of the host"),
        number("cpunumber", "the number of physical CPU cores of the host"),
        large_number("cpuspeed", "the speed of a CPU core, in MHz"),
        text("cpuallocated", "the allocated share of the physical CPU, such as 12.5%"),
        text("cpuallocatedpercentage", "the allocated share of the physical CPU, such as 12.5%"),
        large_number("cpuallocatedvalue", "the allocated CPU, in MHz"),
        text(
            "cpuallocatedwithoverprovisioning",
            "the allocated share of the CPU including over-commit, such as 12.5%",
        ),
        text("cpuwithoverprovisioning", "the CPU of the host multiplied by the over-commit factor, in MHz"),
        large_number("memorytotal", "the physical memory of the host, in bytes"),
        large_number("memoryallocated", "the allocated memory, in bytes"),
        text("cpuused", "the CPU usage since the last measurement, such as 3.5%"),
        large_number("memoryused", "the used memory in bytes, as last measured by the hypervisor"),
        large_number(
            "networkkbsread",
            "the network traffic received by the VMs of the host since the last measurement, in KiB",
        ),
        large_number(
            "networkkbswrite", "the network traffic sent by the VMs of the host since the last measurement, in KiB"
        ),
        large_number("memoryallocatedbytes", "the allocated memory, in bytes"),
        text("memoryallocatedpercentage", "the allocated share of the memory including over-commit, such as 12.5%"),
        text("memorywithoverprovisioning", "the memory of the host multiplied by the over-commit factor, in bytes"),
        flag("islocalstorageactive", "whether the local disks of the host can be used for volumes"),
        large_number("disksizetotal", "the total size of the local disks, in bytes"),
        large_number("disksizeallocated", "the allocated size of the local disks, in bytes"),
        text_map("details", "the details of the host", ROOT_ADMIN_ONLY),
        flag(
            "suitableformigration",
            "whether the VM that the call names could move to the host now; only if the call names a VM",
        ),
        text("annotation", "the annotation of an operator about the host"),
        moment("lastannotated", "when the annotation was written"),
        moment("created", "the date and time at which it was added"),
        Field(
            "outofbandmanagement",
            FieldType.OBJECT,
            "the configuration of the host's management controller (BMC), without the password",
            POWER_FIELDS,
            ROOT_ADMIN_ONLY,
        ),
        Field(
            "hostha",
            FieldType.OBJECT,
            "whether host HA is enabled for the host, its state and its provider",
            HA_FIELDS,
            ROOT_ADMIN_ONLY,
        ),
        *OF_HOSTS,
        HAS_ANNOTATIONS,
    ),
)

AMOUNTS: tuple[Field, ...] = (
    number("type", "the type of capacity: 0 memory, 1 CPU, 3 storage, 8 addresses, 9 local storage, 90 CPU cores"),
    text("name", "the name of the type of capacity"),
    large_number("capacitytotal", "the total capacity including over-commit, in bytes, MHz, addresses or cores"),
    large_number("capacityused", "the used capacity, in the unit of capacitytotal"),
    large_number("capacityallocated", "the allocated capacity, in the unit of capacitytotal"),
    text("percentused", "the used share of the total capacity, in percent"),
    text("zoneid", "the zone"),
    text("zonename", "the zone's name"),
)
POD: tuple[Field, ...] = (text("podid", "the pod"), text("podname", "the pod's name"))
CLUSTER: tuple[Field, ...] = (text("clusterid", "the cluster"), text("clustername", "the cluster's name"))

CAPACITY_FIELDS = (*AMOUNTS, *POD, *CLUSTER)

ZONE_CAPACITY = objects(
    "capacity", "the capacity of the zone by type; only if showcapacities is true", AMOUNTS, INFRASTRUCTURE_ADMINS
)
POD_CAPACITY = objects(
    "capacity", "the capacity of the pod by type; only if showcapacities is true", (*AMOUNTS, *POD)
)
CLUSTER_CAPACITY = objects(
    "capacity", "the capacity of the cluster by type; only if showcapacities is true", CAPACITY_FIELDS
)

MOVED_VM = (
    text("virtualmachineid", "the virtual machine"),
    text("virtualmachinename", "the name of the virtual machine"),
    text("jobid", "the job for the move of the virtual machine"),
)

HOST_MIGRATION = Response(
    "hostmigration",
    (
        text("hostid", "the host"),
        text("hostname", "the name of the host"),
        objects(
            "moved",
            "the virtual machines that left the host, and their present hosts",
            (
                *MOVED_VM,
                text("hostid", "the present host of the virtual machine; absent if it has no host"),
                text("hostname", "the name of the host"),
            ),
        ),
        objects(
            "failed",
            "the virtual machines that are still on the host, and the reasons",
            (*MOVED_VM, text("errortext", "why the virtual machine was not moved")),
        ),
        objects(
            "lost",
            "after an evacuation: the virtual machines that are lost because their volumes are on the host's "
            "local disks",
            (
                text("virtualmachineid", "the virtual machine"),
                text("virtualmachinename", "the name of the virtual machine"),
                text("state", "the state of the virtual machine"),
                text("volumes", "the names of the lost volumes"),
            ),
        ),
    ),
)

BALANCE_RESULT = Response(
    "balance",
    (
        text("zoneid", "the zone"),
        fraction("scorebefore", "the balance score before the moves; 0 is perfect balance"),
        fraction("scoreafter", "the balance score after the moves"),
        number("moves", "the number of moves that were tried"),
        number("failed", "the number of moves that failed; their virtual machines are still on their former hosts"),
    ),
)
