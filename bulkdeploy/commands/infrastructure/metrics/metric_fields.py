"""The fields that lists with metrics add, by what is listed."""

from bulkdeploy.declare.response_fields import flag, large_number, text

VIRTUAL_MACHINE = (
    text("cputotal", "its cores times their speed: 1.0 Ghz"),
    text("memorytotal", "its memory: 0.50 GB"),
    text("networkread", "network traffic that it received since the last measurement: 1.50 MB"),
    text("networkwrite", "network traffic that it sent since the last measurement"),
    text("diskread", "what it read from its disks since the last measurement"),
    text("diskwrite", "what it wrote to its disks since the last measurement"),
    large_number("diskiopstotal", "its requests to its disks since the last measurement"),
)

VOLUME = (text("sizegb", "its size: 20.00 GB"),)

HOST = (
    text("instances", "VMs that run on it, or are about to"),
    text("systeminstances", "0: there are no system VMs"),
    text("cputotalghz", "its CPU, and how many times of it may be promised: 32.00 Ghz (x 2.0)"),
    text("cpuallocatedghz", "what is promised of its CPU"),
    flag("cpuallocateddisablethreshold", "whether that is above its cluster's disable threshold"),
    text("memorytotalgb", "its memory, and how many times of it may be promised: 64.00 GB (x 1.0)"),
    text("memoryallocatedgb", "what is promised of its memory"),
    flag("memoryallocateddisablethreshold", "whether that is above its cluster's disable threshold"),
    text("cpuusedghz", "what is used of its CPU"),
    text("memoryusedgb", "what is used of its memory"),
    text("networkread", "network traffic that it received since the last measurement: 1.50 GB"),
    text("networkwrite", "network traffic that it sent since the last measurement"),
    flag("cpuallocatedthreshold", "whether what is promised of its CPU is above the notification threshold"),
    flag("memoryallocatedthreshold", "whether what is promised of its memory is above the notification threshold"),
    flag("cputhreshold", "whether its use of its CPU is above the notification threshold"),
    flag("cpudisablethreshold", "whether its use of its CPU is above the disable threshold"),
    flag("memorythreshold", "whether its use of its memory is above the notification threshold"),
    flag("memorydisablethreshold", "whether its use of its memory is above the disable threshold"),
)

PLACE = (
    text("state", "Enabled, Disabled or Unmanaged"),
    text("cputotal", "the CPU that may be promised in it"),
    text("cpuallocated", "what is promised of it, in percent"),
    flag("cpuallocateddisablethreshold", "whether that is above the disable threshold"),
    text("memorytotal", "the memory that may be promised in it"),
    text("memoryallocated", "what is promised of it, in percent"),
    flag("memoryallocateddisablethreshold", "whether that is above the disable threshold"),
    flag("cpuallocatedthreshold", "whether what is promised of its CPU is above the notification threshold"),
    flag("memoryallocatedthreshold", "whether what is promised of its memory is above the notification threshold"),
)
CLUSTER = (text("hosts", "hosts that are up, of all: 2 / 2"),)
ZONE = (text("clusters", "clusters that are enabled, of all: 4 / 4"),)

POOL = (
    text("disksizetotalgb", "its size, and how many times of it may be promised: 1000.00 GB (x 2.0)"),
    text("disksizeallocatedgb", "what is promised of it"),
    text("disksizeunallocatedgb", "what may still be promised"),
    flag("storageallocateddisablethreshold", "whether what is promised is above the disable threshold"),
    flag("storageallocatedthreshold", "whether what is promised is above the notification threshold"),
    text("disksizeusedgb", "what is used of it, as its hypervisor measured it last"),
    flag("storageusagethreshold", "whether what is used is above the notification threshold"),
    flag("storageusagedisablethreshold", "whether what is used is above the disable threshold"),
)
