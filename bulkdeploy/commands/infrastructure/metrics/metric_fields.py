"""The response fields that lists with metrics add, by the type of the listed objects."""

from bulkdeploy.declare.response_fields import flag, large_number, text

VIRTUAL_MACHINE = (
    text("cputotal", "the number of CPU cores of the VM multiplied by their speed, such as 1.0 Ghz"),
    text("memorytotal", "the memory of the VM, such as 0.50 GB"),
    text("networkread", "the network traffic received since the last measurement, such as 1.50 MB"),
    text("networkwrite", "the network traffic sent since the last measurement, with its unit"),
    text("diskread", "the data read from the VM's disks since the last measurement, with its unit"),
    text("diskwrite", "the data written to the VM's disks since the last measurement, with its unit"),
    large_number("diskiopstotal", "the read and write requests of the VM to its disks since the last measurement"),
)

VOLUME = (text("sizegb", "the size of the volume, such as 20.00 GB"),)

HOST = (
    text("instances", "the number of VMs that run or are being started on the host"),
    text("systeminstances", "0: there are no system VMs"),
    text(
        "cputotalghz", "the CPU of the host, and its over-commit factor in parentheses, such as 32.00 Ghz (x 2.0)"
    ),
    text("cpuallocatedghz", "the allocated CPU of the host, such as 12.50 Ghz"),
    flag(
        "cpuallocateddisablethreshold", "whether the allocated share is above the disable threshold of the cluster"
    ),
    text(
        "memorytotalgb",
        "the memory of the host, and its over-commit factor in parentheses, such as 64.00 GB (x 1.0)",
    ),
    text("memoryallocatedgb", "the allocated memory of the host, such as 12.50 GB"),
    flag(
        "memoryallocateddisablethreshold",
        "whether the allocated share is above the disable threshold of the cluster",
    ),
    text("cpuusedghz", "the used CPU of the host, such as 12.50 Ghz"),
    text("memoryusedgb", "the used memory of the host, such as 12.50 GB"),
    text("networkread", "the network traffic received since the last measurement, such as 1.50 GB"),
    text("networkwrite", "the network traffic sent since the last measurement, with its unit"),
    flag("cpuallocatedthreshold", "whether the allocated share of the CPU is above the notification threshold"),
    flag(
        "memoryallocatedthreshold", "whether the allocated share of the memory is above the notification threshold"
    ),
    flag("cputhreshold", "whether the CPU usage of the host is above the notification threshold"),
    flag("cpudisablethreshold", "whether the CPU usage of the host is above the disable threshold"),
    flag("memorythreshold", "whether the memory usage of the host is above the notification threshold"),
    flag("memorydisablethreshold", "whether the memory usage of the host is above the disable threshold"),
)

PLACE = (
    text("state", "Enabled, Disabled or Unmanaged"),
    text("cputotal", "the total CPU including over-commit"),
    text("cpuallocated", "the allocated share, in percent"),
    flag("cpuallocateddisablethreshold", "whether the allocated share is above the disable threshold"),
    text("memorytotal", "the total memory including over-commit"),
    text("memoryallocated", "the allocated share, in percent"),
    flag("memoryallocateddisablethreshold", "whether the allocated share is above the disable threshold"),
    flag("cpuallocatedthreshold", "whether the allocated share of the CPU is above the notification threshold"),
    flag(
        "memoryallocatedthreshold", "whether the allocated share of the memory is above the notification threshold"
    ),
)
CLUSTER = (text("hosts", "the number of hosts that are up and the number of all hosts, such as 2 / 2"),)
ZONE = (text("clusters", "the number of enabled clusters and the number of all clusters, such as 4 / 4"),)

POOL = (
    text(
        "disksizetotalgb",
        "the size of the pool, and its over-provisioning factor in parentheses, such as 1000.00 GB (x 2.0)",
    ),
    text("disksizeallocatedgb", "the allocated size of the pool, such as 12.50 GB"),
    text("disksizeunallocatedgb", "the size that can still be allocated, such as 12.50 GB"),
    flag("storageallocateddisablethreshold", "whether the allocated share is above the disable threshold"),
    flag("storageallocatedthreshold", "whether the allocated share is above the notification threshold"),
    text("disksizeusedgb", "the used size of the pool, as last measured by the hypervisor, such as 12.50 GB"),
    flag("storageusagethreshold", "whether the used share is above the notification threshold"),
    flag("storageusagedisablethreshold", "whether the used share is above the disable threshold"),
)
