"""The description of a machine with libvirt that becomes a host."""

import socket
from ipaddress import ip_address
from urllib.parse import urldefrag, urlsplit

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.hosts import HostAccess, HostModel
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import libvirt
from bulkdeploy.drivers.libvirt.hardware import capabilities_of, describe, join_cluster, require_cpu
from bulkdeploy.drivers.libvirt.host_url import is_of_host
from bulkdeploy.drivers.libvirt.options import BASELINE, LibvirtOptions
from bulkdeploy.drivers.libvirt.storage.storage import pool_path, pool_xml
from bulkdeploy.drivers.records import Pool

LOCALHOST = "127.0.0.1"


def host_model(
    call: HostCall, *, access: HostAccess, options: LibvirtOptions, cluster_hardware: frozenset[str] = frozenset()
) -> HostModel:
    """Return the hardware of a host.

    The cores are those of its scheduler. The local disks are the file system of the option ``local_path``.

    Raises:
        DriverError: the host does not support the CPU of the options, or no CPU in common with the other hosts of
            its cluster.
    """
    require_cpu(call, options)
    guest_hardware = describe(call, options) if options.cpu_model == BASELINE else None
    if guest_hardware is not None:
        join_cluster(call, options, cluster_hardware, guest_hardware)
    _, memory_mib, cpus, mhz, nodes, sockets, *_ = call.connection.getInfo()
    version = call.connection.getVersion()
    return HostModel(
        name=urldefrag(access.url).fragment or call.connection.getHostname(),
        ip_address=_ip_address(access.url),
        cpu_sockets=max(1, nodes * sockets),
        cpu_cores=cpus,
        cpu_mhz=max(1, mhz),
        memory_mib=memory_mib,
        local_disk_bytes=_local_bytes(call, options),
        hypervisor_version=f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}",
        guest_hardware=guest_hardware,
    )


def require_uefi(call: HostCall, options: LibvirtOptions) -> None:
    """Check that a host has firmware for guests that boot with UEFI.

    Raises:
        DriverError: the host has no such firmware. The error says what to install.
    """
    firmware = capabilities_of(call, options).findall("os/enum[@name='firmware']/value")
    if "efi" not in {value.text for value in firmware}:
        reason = (
            f"the host has no UEFI firmware for machine type {options.machine}: install ovmf or edk2-ovmf on it"
        )
        raise DriverError("boot", call.host.name, reason, transient=False)


def _ip_address(url: str) -> str:
    """Return the IP address in a host's url, to which other hosts migrate guests.

    Raises:
        DriverError: the address belongs to this machine.
    """
    name = urlsplit(url).hostname
    if name is None:
        return LOCALHOST
    try:
        address = ip_address(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return name
    if not is_of_host(address):
        reason = "the host of the url must not be this machine: use transport unix for a local daemon"
        raise DriverError("connect", name, reason, transient=False)
    return str(address)


def _local_bytes(call: HostCall, options: LibvirtOptions) -> int:
    """Create the folder for volumes on the host's own disks, and return its size in bytes.

    Returns 0 if the settings name no such folder.
    """
    if options.local_path is None:
        return 0
    for known in call.connection.listAllStoragePools():
        if pool_path(known) == options.local_path:
            return int(known.info()[1])
    looked_at = Pool(call.host.uuid, "local", "Filesystem", None, None, call.host.uuid)
    xml = pool_xml(looked_at, options, call.host.name)
    passing = call.connection.storagePoolCreateXML(xml, libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
    try:
        return int(passing.info()[1])
    finally:
        passing.destroy()
