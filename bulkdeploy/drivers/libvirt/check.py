"""The checks of ``bulkdeploy check`` for a libvirt host, in order, each with a remedy.

The last check boots a guest from a boot sector and reads its output. Only this proves that guests run; that
/dev/kvm can be opened proves nothing.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID, uuid4
from xml.etree import ElementTree as Tree

from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.hosts import HostAccess, HostAddress
from bulkdeploy.drivers.libvirt.connections import Deadline, HostCall, Links
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.hardware import capabilities_of, require_cpu
from bulkdeploy.drivers.libvirt.host_url import HostUrlError, read_host_url
from bulkdeploy.drivers.libvirt.hosts import host_model
from bulkdeploy.drivers.libvirt.options import HOST_MODEL, LibvirtOptions
from bulkdeploy.drivers.libvirt.probe_guest import boot_image
from bulkdeploy.drivers.libvirt.storage.storage import FilePool, pool_path
from bulkdeploy.drivers.need import Need
from bulkdeploy.drivers.records import Pool

PATIENCE_S = 60.0
LOOKS_S = 0.05
SAYS = b" is up"


@dataclass(frozen=True, slots=True)
class _Trial:
    """A check: its name, the remedy if it fails, and the function that runs it."""

    name: str
    remedy: str
    try_it: Callable[[HostCall], str]


def check_host(url: str, options: LibvirtOptions, folder: str | None) -> Iterator[Need]:
    """Check everything that a host needs, and yield the result of each check until one fails.

    Args:
        url: the url of the host, as for addHost.
        options: the options of the driver.
        folder: a folder for volumes on the host. None: the option ``local_path``.
    """
    links = Links(options.model_copy(update={"connections_per_host": 1}))
    address = HostAddress(uuid4(), url, "", "KVM", url)
    path = options.local_path if folder is None else folder
    try:
        read_host_url(url, options)
    except HostUrlError as error:
        yield Need(
            "url", str(error), "docs/how-to/kvm.md lists the transports and parameters that urls of hosts may have"
        )
        return
    try:
        for trial in _trials(url, options, path):
            try:
                found = links.run("check", address, Deadline(PATIENCE_S), trial.try_it)
            except DriverError as error:
                yield Need(trial.name, error.reason, trial.remedy)
                return
            yield Need(trial.name, found)
    finally:
        links.close()


def _trials(url: str, options: LibvirtOptions, path: str | None) -> Iterator[_Trial]:
    yield _Trial(
        "connection",
        "virsh -c URL list must work for the user that runs bulkdeploy: an ssh key without a passphrase and a "
        "known host key (qemu+ssh), certificates for the host's name (qemu+tls), the group libvirt (a local URL)",
        _connection,
    )
    yield _Trial(
        "host",
        "the connection must be for reading and writing: qemu:///system, not a read-only socket",
        lambda call: _host(call, url, options),
    )
    kind = options.virtualization
    yield _Trial(
        f"{kind} guests of machine type {options.machine}",
        "install QEMU (qemu-system-x86 or qemu-kvm) and switch virtualization on in the firmware; without it set "
        'driver.libvirt.virtualization to "qemu", which is many times slower',
        lambda call: _emulator(call, options),
    )
    yield _Trial(
        "CPU of guests",
        "set driver.libvirt.cpu_model to a model that every host of the cluster supports",
        lambda call: require_cpu(call, options),
    )
    if options.network == "bridge" and "{" not in options.bridge.replace("{label}", ""):
        bridge = options.bridge.format(label=options.default_label)
        yield _Trial(
            f"bridge {bridge}",
            f"create it (ip link add {bridge} type bridge, and the same in your network configuration), or name an "
            "existing bridge with driver.libvirt.default_label or addTrafficType's kvmnetworklabel",
            lambda call: str(call.connection.interfaceLookupByName(bridge).name()),
        )
    if path is None:
        return
    yield _Trial(
        f"folder {path}",
        "QEMU's user (libvirt-qemu, qemu) must have write access, and AppArmor or SELinux must allow it: "
        "folders under /var/lib/libvirt/images are always allowed; an NFS export needs no_root_squash",
        lambda call: _boots(call, options, path),
    )


def _connection(call: HostCall) -> str:
    return str(call.connection.getURI())


def _host(call: HostCall, url: str, options: LibvirtOptions) -> str:
    plain = options.model_copy(update={"local_path": None, "cpu_model": HOST_MODEL})
    model = host_model(call, access=HostAccess(url), options=plain)
    sizes = f"{model.cpu_cores} cores of {model.cpu_mhz} MHz, {model.memory_mib} MiB"
    uuid = Tree.fromstring(call.connection.getCapabilities()).findtext("host/uuid")  # noqa: S314 - our daemon's
    return f"{model.name}, {sizes}, QEMU {model.hypervisor_version}, host uuid {uuid} (must differ on each host)"


def _emulator(call: HostCall, options: LibvirtOptions) -> str:
    return capabilities_of(call, options).findtext("path", "")


def _boots(call: HostCall, options: LibvirtOptions, path: str) -> str:
    """Boot a test guest from a boot sector in a folder, and return a text about the result.

    Raises:
        DriverError: the guest wrote no output.
    """
    name, image = uuid4(), boot_image()
    pool = Pool(name, "check", "SharedMountPoint", None, path, None)
    made = next((one for one in call.connection.listAllStoragePools() if pool_path(one) == path), None)
    pools = call.pools if made is None else {name: (made, path)}
    try:
        storage = FilePool(HostCall(call.host, call.connection, pools, call.deadline), pool, options)
        storage.put(f"check-{name}", "raw", iter([image]), len(image))
        try:
            _boot(call, options, f"{path}/check-{name}", name)
        finally:
            storage.remove(f"check-{name}")
    finally:
        if made is None:
            _forget_pool(call, name)
    return f"a guest booted from it ({options.virtualization})"


def _forget_pool(call: HostCall, uuid: UUID) -> None:
    """Delete a pool's definition from the daemon of a host. The folder and its files are kept."""
    try:
        left = call.connection.storagePoolLookupByUUID(uuid.bytes)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_NO_STORAGE_POOL):
            raise
        return
    if left.isActive():
        left.destroy()
    left.undefine()


def _boot(call: HostCall, options: LibvirtOptions, path: str, uuid: UUID) -> None:
    """Boot a test guest from a disk image, and wait for its output.

    The guest ends with the connection at the latest.

    Raises:
        DriverError: the guest wrote no output in time.
    """
    xml = (
        f"<domain type='{options.virtualization}'><name>bulkdeploy-check-{uuid}</name><uuid>{uuid}</uuid>"
        f"<memory unit='MiB'>32</memory><vcpu>1</vcpu>"
        f"<os><type arch='x86_64' machine='{options.machine}'>hvm</type></os><features><acpi/></features>"
        f"<devices><disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{path}'/>"
        "<target dev='vda' bus='virtio'/></disk><serial type='pty'/></devices></domain>"
    )
    domain = call.connection.createXML(xml, libvirt.VIR_DOMAIN_START_AUTODESTROY | libvirt.VIR_DOMAIN_START_PAUSED)
    try:
        stream = call.connection.newStream(libvirt.VIR_STREAM_NONBLOCK)
        domain.openConsole(None, stream, 0)
        domain.resume()
        said = b""
        while SAYS not in said:
            chunk = stream.recv(1024)
            if isinstance(chunk, bytes):
                said += chunk
            if not call.deadline.left_s():
                raise DriverError(
                    "check",
                    ANY_HOST,
                    f"the guest wrote nothing to its serial console for {PATIENCE_S:g} s",
                    transient=True,
                )
            time.sleep(LOOKS_S)
        stream.abort()
    finally:
        try:
            domain.destroy()
        except libvirt.libvirtError as error:
            if not is_code(error, libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
                raise
