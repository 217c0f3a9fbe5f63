"""listVirtualMachinesUsageHistory and getVirtualMachineUsageHistory: the past usage of VMs."""

from collections.abc import Mapping
from typing import Any

from bulkdeploy.commands.call import Call
from bulkdeploy.commands.paging import paging
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.list_parameters import PAGING
from bulkdeploy.declare.parameters import Exclusive, Parameter, WireType, string, uuid, uuids
from bulkdeploy.declare.response_fields import large_number, moment, number, objects, text
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import PermissionDenied
from bulkdeploy.domain.virtual_machines.usage import GUEST_INTERVAL_S, PERIODS, UsagePeriod
from bulkdeploy.services.ownership import OwnerParameters, require_access, visibility
from bulkdeploy.store.configuration.configurations import read_configuration
from bulkdeploy.store.rows.listing import Page
from bulkdeploy.store.virtual_machines import usage_history as store
from bulkdeploy.store.virtual_machines.virtual_machine_changes import read_vm_row

SHORTEST_S = 60
"""The shortest interval over which samples are summed, in seconds."""

SAMPLE = (
    moment(
        "timestamp", "the time of the measurement; the other figures cover the time since the previous measurement"
    ),
    text("cpuused", "the CPU usage of the VM, such as 3.5%"),
    large_number("diskioread", "the read requests of the VM to its disks"),
    large_number("diskiowrite", "the write requests of the VM to its disks"),
    large_number("diskiopstotal", "the number of read and write requests together"),
    large_number("diskkbsread", "the data read from the VM's disks, in KiB"),
    large_number("diskkbswrite", "the data written to the VM's disks, in KiB"),
    large_number("memorykbs", "the total memory of the VM, in KiB"),
    large_number("memorytargetkbs", "the target memory of the VM, in KiB; always equal to memorykbs"),
    large_number("memoryintfreekbs", "the unused memory of the VM in KiB; -1 if the guest does not report it"),
    large_number("networkkbsread", "the network traffic received by the VM, in KiB"),
    large_number("networkkbswrite", "the network traffic sent by the VM, in KiB"),
    large_number("networkread", "the network traffic received by the VM, in MiB"),
    large_number("networkwrite", "the network traffic sent by the VM, in MiB"),
)

INTERVAL = (
    moment("timestamp", "when the interval began"),
    text("cpuused", "the mean CPU usage of the VM, such as 3.5%"),
    large_number(
        "memoryusedkbs", "the used memory of the VM in KiB; the total memory if the guest does not report its usage"
    ),
    large_number("memorykbs", "the total memory of the VM, in KiB"),
    large_number("networkkbsread", "the network traffic received by the VM in the interval, in KiB"),
    large_number("networkkbswrite", "the network traffic sent by the VM in the interval, in KiB"),
    large_number("diskkbsread", "the data read from the VM's disks in the interval, in KiB"),
    large_number("diskkbswrite", "the data written to the VM's disks in the interval, in KiB"),
)


def list_usage_history(call: Call) -> Page:
    """Return the past usage of the VMs that the caller may see."""
    shown = visibility(call.connection, call.caller, OwnerParameters(list_all=True, by_id=True))
    return store.list_usage_history(call.connection, shown, call.arguments, paging(call))


def get_usage_history(call: Call) -> Mapping[str, Any]:
    """Return the resources that a VM used, per interval of the requested period.

    Raises:
        PermissionDenied: the VM is outside the caller's reach.
    """
    vm = call.arguments["id"]
    row = read_vm_row(call.connection, vm.id)
    require_access(call.connection, call.caller, row.account_id, f"virtual machine {vm.uuid}")
    period = UsagePeriod(call.arguments.get("period", UsagePeriod.DAY))
    length, _ = PERIODS[period]
    sample_s = None
    if period is UsagePeriod.HOUR:
        measured_ms = read_configuration(call.connection).number("vm.stats.interval")
        sample_s = max(SHORTEST_S, -(-measured_ms // 1000))
    return {
        "period": period.value,
        "intervalseconds": sample_s or GUEST_INTERVAL_S,
        "samples": store.read_usage_history(call.connection, vm.id, length, sample_s),
    }


COMMANDS: tuple[Command, ...] = (
    Command(
        name="listVirtualMachinesUsageHistory",
        description=(
            "Lists usage samples of virtual machines, one per stored measurement (vm.stats.interval, "
            "vm.stats.max.retention.time)"
        ),
        handler=list_usage_history,
        shape=Shape.LIST,
        response=Response(
            "virtualmachine",
            (
                text("id", "the virtual machine"),
                text("name", "the name of the VM"),
                text("displayname", "the display name of the VM"),
                objects("stats", "the samples, the oldest first", SAMPLE),
            ),
        ),
        authorized=EVERY_ROLE,
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "only this VM"),
            uuids("ids", Entity.VIRTUAL_MACHINE, "only these VMs"),
            string("name", "only VMs whose name contains this text"),
            Parameter("startdate", WireType.DATE, "only samples from this time on"),
            Parameter("enddate", WireType.DATE, "only samples up to this time"),
            *PAGING,
        ),
        rules=(Exclusive(("id", "ids")),),
    ),
    Command(
        name="getVirtualMachineUsageHistory",
        description=(
            "Returns the resource usage of a virtual machine within the last hour, day or week, in intervals "
            "of one minute (or vm.stats.interval, if that is longer) or half an hour"
        ),
        handler=get_usage_history,
        shape=Shape.OBJECT,
        response=Response(
            "usagehistory",
            (
                text("period", "the length of the period: hour, day or week"),
                number("intervalseconds", "the length of an interval in seconds"),
                objects("samples", "the intervals in which the VM was measured, the oldest first", INTERVAL),
            ),
        ),
        authorized=EVERY_ROLE,
        errors=(PermissionDenied,),
        parameters=(
            uuid("id", Entity.VIRTUAL_MACHINE, "the VM", required=True),
            string(
                "period",
                "the length of the period up to now: hour, day (default) or week",
                choices=tuple(period.value for period in UsagePeriod),
            ),
        ),
    ),
)
