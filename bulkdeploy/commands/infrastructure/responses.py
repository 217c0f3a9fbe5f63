"""The response fields of commands about hosts and other places; ``store.infrastructure`` reads the rows."""

from bulkdeploy.commands.availability.responses import HA_FIELDS, POWER_FIELDS
from bulkdeploy.commands.constant_fields import OF_HOSTS
from bulkdeploy.declare.response_fields import flag, fraction, large_number, moment, number, objects, text, text_map
from bulkdeploy.declare.responses import Field, FieldType, Response
from bulkdeploy.domain.accounts.accounts import INFRASTRUCTURE_ADMINS, ROOT_ADMIN_ONLY

HOST = Response(
    "host",
    (
        text("id", "the host"),
        text("name", "its name"),
        text("state", "Up, Down, Disconnected, Alert, Connecting or Removed"),
        text(
            "resourcestate", "Enabled, Disabled, PrepareForMaintenance, Maintenance or ErrorInPrepareForMaintenance"
        ),
        text("type", "Routing"),
        text("hypervisor", "its hypervisor"),
        text("hypervisorversion", "the hypervisor's version"),
        text("arch", "its CPU architecture"),
        flag("hahost", "whether it takes only VMs that are started again after a host failed; always false"),
        flag("istagarule", "whether its tags are a rule; always false"),
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
        text("cpuused", "its use of its cores since the last measurement, such as 3.5%"),
        large_number("memoryused", "the memory that is in use, as its hypervisor measured it last, bytes"),
        large_number("networkkbsread", "network traffic that its VMs received since the last measurement, KiB"),
        large_number("networkkbswrite", "network traffic that its VMs sent since the last measurement, KiB"),
        large_number("memoryallocatedbytes", "the memory that is promised, bytes"),
        text("memoryallocatedpercentage", "the share of its memory that is promised, after over-commit"),
        text("memorywithoverprovisioning", "its memory after over-commit, bytes"),
        flag("islocalstorageactive", "whether its own disks can hold volumes"),
        large_number("disksizetotal", "the size of its own disks, bytes"),
        large_number("disksizeallocated", "what is promised of its own disks, bytes"),
        text_map("details", "its details", ROOT_ADMIN_ONLY),
        flag("suitableformigration", "where hosts for a VM are asked for: whether it could take the VM now"),
        text("annotation", "what an operator remarked"),
        moment("lastannotated", "when that was"),
        moment("created", "when it was added"),
        Field(
            "outofbandmanagement",
            FieldType.OBJECT,
            "its management controller (BMC), without the password",
            POWER_FIELDS,
            ROOT_ADMIN_ONLY,
        ),
        Field("hostha", FieldType.OBJECT, "its high availability", HA_FIELDS, ROOT_ADMIN_ONLY),
        *OF_HOSTS,
    ),
)

AMOUNTS: tuple[Field, ...] = (
    number("type", "0 memory, 1 CPU, 3 storage, 8 addresses, 9 local storage, 90 CPU cores"),
    text("name", "the type's name"),
    large_number("capacitytotal", "all there is, after over-commit: bytes, MHz, addresses or cores"),
    large_number("capacityused", "what is taken, in the same unit"),
    large_number("capacityallocated", "what is promised, in the same unit"),
    text("percentused", "the share that is taken, in percent"),
    text("zoneid", "the zone"),
    text("zonename", "the zone's name"),
)
POD: tuple[Field, ...] = (text("podid", "the pod"), text("podname", "the pod's name"))
CLUSTER: tuple[Field, ...] = (text("clusterid", "the cluster"), text("clustername", "the cluster's name"))

CAPACITY_FIELDS = (*AMOUNTS, *POD, *CLUSTER)

ZONE_CAPACITY = objects("capacity", "what the zone holds, with showcapacities", AMOUNTS, INFRASTRUCTURE_ADMINS)
POD_CAPACITY = objects("capacity", "what the pod holds, with showcapacities", (*AMOUNTS, *POD))
CLUSTER_CAPACITY = objects("capacity", "what the cluster holds, with showcapacities", CAPACITY_FIELDS)

MOVED_VM = (
    text("virtualmachineid", "the virtual machine"),
    text("virtualmachinename", "its name"),
    text("jobid", "the job that was to move it"),
)

HOST_MIGRATION = Response(
    "hostmigration",
    (
        text("hostid", "the host"),
        text("hostname", "its name"),
        objects(
            "moved",
            "virtual machines that have left it, and where they are",
            (*MOVED_VM, text("hostid", "the host that it is on; absent: on none"), text("hostname", "its name")),
        ),
        objects(
            "failed",
            "virtual machines that are still on it, and why",
            (*MOVED_VM, text("errortext", "why it was not moved")),
        ),
        objects(
            "lost",
            "of a host that was evacuated: virtual machines with volumes on its own disks, which no other host has",
            (
                text("virtualmachineid", "the virtual machine"),
                text("virtualmachinename", "its name"),
                text("state", "its state"),
                text("volumes", "the names of these volumes"),
            ),
        ),
    ),
)

BALANCE_RESULT = Response(
    "balance",
    (
        text("zoneid", "the zone"),
        fraction("scorebefore", "the score before"),
        fraction("scoreafter", "the score when the last set had ended"),
        number("moves", "moves that were made, or tried"),
        number("failed", "how many of them failed: their virtual machines are where they were"),
    ),
)
