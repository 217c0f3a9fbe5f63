"""Guests as libvirt's domain XML, written from typed objects and parsed again (one file: writer and reader agree).

Facts that only the service knows (fence, MHz) are in the domain's metadata, in a namespace of the service. Domains
without this metadata belong to others and are never changed. A device's uuid is in its alias, which libvirt stores
while the guest runs and while it does not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID
from xml.etree import ElementTree as Tree

from bulkdeploy.domain.virtual_machines.device_parameters import CACHE, RATES
from bulkdeploy.domain.virtual_machines.firmware import BootMode
from bulkdeploy.drivers.abilities.details import GuestNic
from bulkdeploy.drivers.libvirt.disk_sources import DiskSource, place_of

NAMESPACE = "https://bulkdeploy.dev/libvirt/1"
VOLUME_ALIAS, NIC_ALIAS = "ua-volume-", "ua-nic-"
DRIVE_ALIAS = "ua-drive"
AGENT_CHANNEL = "org.qemu.guest_agent.0"
"""The serial port at which the QEMU guest agent listens in the guest."""

SLOTS = 16
"""The number of times that a guest's memory can grow while it runs."""

MOST_CPUS = 255
"""The largest number of vCPUs to which a guest can grow.

Above this number, libvirt requires an IOMMU and another machine type.
"""

MOST_MEMORY_MIB = 1024 * 1024
"""The largest memory in MiB to which a guest can grow: the 1 TiB that 40 bits of physical address cover."""

MOST_SHARES = 10_000
"""The largest CPU weight of control groups."""

Tree.register_namespace("bulkdeploy", NAMESPACE)


@dataclass(frozen=True, slots=True)
class BackingFile:
    """The backing file of an overlay volume, and the file's format in QEMU's terms."""

    path: str
    image_format: str


@dataclass(frozen=True, slots=True)
class Disk:
    """A volume as a disk of a guest.

    ``image_format`` is the format of the source, as QEMU names the format. ``backing`` lists the files below the
    volume in its chain of overlays; it is empty for a volume without a template. QEMU opens exactly these files in
    these formats, whatever the headers of the files contain. ``backing`` is None for a domain that is never
    started. ``parameters`` are the cache mode and the rate limits of the disk.
    """

    volume_uuid: UUID
    source: DiskSource
    image_format: str = "qcow2"
    backing: tuple[BackingFile, ...] | None = None
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Interface:
    """A NIC of a guest as libvirt connects it to the network.

    ``kind`` is bridge, network or user, and ``source`` is the name of the bridge or network. ``vlan`` is used with
    Open vSwitch only. ``address`` is the only IP address from which the guest may send (None: any address).
    ``filter_name`` is the network filter of the NIC. ``network_uuid`` and ``ip_address`` identify the NIC when the
    definition is read again.
    """

    nic_uuid: UUID
    mac_address: str
    kind: str
    source: str | None
    vlan: str | None = None
    mtu: int | None = None
    address: str | None = None
    filter_name: str | None = None
    network_uuid: UUID | None = None
    ip_address: str | None = None


@dataclass(frozen=True, slots=True)
class Screen:
    """The address at which a host serves a guest's screen by VNC, and the password."""

    address: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Domain:
    """The definition of a guest, from which domain XML is written. Memory is in MiB.

    ``shares`` is the CPU weight of the guest on its host (None: the host has no control groups). ``cpu`` is the
    guest's CPU as an XML element. ``nvram_path`` is the file for the variables of UEFI firmware; the daemon creates
    a missing file. ``growth`` is the factor by which vCPUs and memory may grow while the guest runs, up to
    MOST_CPUS and MOST_MEMORY_MIB; 1 means that the guest cannot grow.
    """

    uuid: UUID
    name: str
    fence: int
    kind: str
    machine: str
    cpu: str
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    shares: int | None
    disks: Sequence[Disk]
    interfaces: Sequence[Interface]
    seed: DiskSource | None = None
    iso: DiskSource | None = None
    screen: Screen | None = None
    console_log: str | None = None
    template_uuid: UUID | None = None
    growth: int = 1
    uefi: BootMode | None = None
    nvram_path: str | None = None

    @property
    def machine_type(self) -> str:
        """The machine type of the guest: q35 for secure boot, which needs protected firmware memory."""
        return "q35" if self.uefi is BootMode.SECURE and "q35" not in self.machine else self.machine

    @property
    def most_cpus(self) -> int:
        """The largest number of vCPUs to which the running guest can grow.

        A guest above MOST_CPUS keeps the number with which it was created.
        """
        return max(self.cpu_number, min(self.cpu_number * self.growth, MOST_CPUS))

    @property
    def most_memory_mib(self) -> int:
        """The largest memory in MiB to which the running guest can grow."""
        return max(self.memory_mib, min(self.memory_mib * self.growth, MOST_MEMORY_MIB))


@dataclass(frozen=True, slots=True)
class SeenDomain:
    """A guest of this service as a libvirt daemon reports it.

    For a NIC that was attached after the guest's start, only the attributes of the device itself are known.
    """

    uuid: UUID
    name: str
    template_uuid: UUID | None
    cpu_number: int
    cpu_mhz: int
    memory_mib: int
    disks: dict[UUID, str]
    """The target of each disk, such as ``vda``, by the volume's uuid."""

    devices: dict[UUID, str]
    """The XML of each volume and NIC, by its uuid."""

    nics: tuple[GuestNic, ...]
    drive: str | None
    """The XML of the guest's ISO drive, or None if the guest was started without a drive."""

    iso_place: str | None
    """The place of the ISO in the drive (``DiskSource.place``), or None if the drive is empty."""

    targets: frozenset[str]
    most_cpus: int
    most_memory_mib: int
    """The largest numbers of vCPUs and MiB of memory to which the running guest can grow."""


def write_domain(domain: Domain) -> str:
    """Return the XML of a domain."""
    root = Tree.Element("domain", type=domain.kind)
    _child(root, "name", domain.name)
    _child(root, "uuid", str(domain.uuid))
    nics = [GuestNic(one.nic_uuid, one.mac_address, one.network_uuid, one.ip_address) for one in domain.interfaces]
    ours = _of_guest(domain.fence, domain.cpu_mhz, domain.template_uuid, nics, f"{{{NAMESPACE}}}")
    Tree.SubElement(root, "metadata").append(ours)
    if domain.most_memory_mib > domain.memory_mib:
        _child(root, "maxMemory", str(domain.most_memory_mib), slots=str(SLOTS), unit="MiB")
    _child(root, "memory", str(domain.memory_mib), unit="MiB")
    _child(root, "vcpu", str(domain.most_cpus), placement="static", current=str(domain.cpu_number))
    if domain.shares is not None:
        _child(Tree.SubElement(root, "cputune"), "shares", str(domain.shares))
    _write_firmware(root, domain)
    features = Tree.SubElement(root, "features")
    Tree.SubElement(features, "acpi")
    Tree.SubElement(features, "apic")
    _write_cpu(root, domain)
    Tree.SubElement(root, "clock", offset="utc")
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _child(root, f"on_{event}", action)
    devices = Tree.SubElement(root, "devices")
    for number, disk in enumerate(domain.disks):
        devices.append(_disk(disk, target_name(number)))
        if number == 0:
            Tree.SubElement(devices[0], "boot", order="1")
    bus = "sata" if "q35" in domain.machine_type else "ide"
    if domain.seed is not None:
        devices.append(_cdrom(domain.seed, "sda", bus))
    devices.append(_drive(domain.iso, "sdb", bus))
    devices.extend(_interface(interface) for interface in domain.interfaces)
    _write_console(devices, domain.console_log)
    channel = Tree.SubElement(devices, "channel", type="unix")
    Tree.SubElement(channel, "target", type="virtio", name=AGENT_CHANNEL)
    if domain.screen is not None:
        _write_screen(devices, domain.screen)
    Tree.SubElement(devices, "memballoon", model="virtio")
    rng = Tree.SubElement(devices, "rng", model="virtio")
    _child(rng, "backend", "/dev/urandom", model="random")
    return Tree.tostring(root, encoding="unicode")


def write_volumes_only(uuid: UUID, name: str, disks: Sequence[Disk], *, kind: str, machine: str) -> str:
    """Return the XML of a domain that only has a guest's volumes and is never started."""
    root = Tree.Element("domain", type=kind)
    _child(root, "name", name)
    _child(root, "uuid", str(uuid))
    _child(root, "memory", "1", unit="MiB")
    _child(Tree.SubElement(root, "os"), "type", "hvm", arch="x86_64", machine=machine)
    devices = Tree.SubElement(root, "devices")
    devices.extend(_disk(disk, target_name(number)) for number, disk in enumerate(disks))
    return Tree.tostring(root, encoding="unicode")


def write_metadata(fence: int, cpu_mhz: int, template_uuid: UUID | None, nics: Iterable[GuestNic]) -> str:
    """Return the service's metadata of a domain as XML for ``setMetadata``, which adds the namespace."""
    return Tree.tostring(_of_guest(fence, cpu_mhz, template_uuid, nics, ""), encoding="unicode")


def _of_guest(
    fence: int, cpu_mhz: int, template_uuid: UUID | None, nics: Iterable[GuestNic], namespace: str
) -> Tree.Element:
    ours = Tree.Element(f"{namespace}guest", {"fence": str(fence), "cpu-mhz": str(cpu_mhz)})
    if template_uuid is not None:
        ours.set("template", str(template_uuid))
    for nic in nics:
        known = {"uuid": nic.uuid, "network": nic.network_uuid, "address": nic.ip_address}
        given = {name: str(value) for name, value in known.items() if value is not None}
        Tree.SubElement(ours, f"{namespace}nic", given)
    return ours


def write_memory(size_mib: int) -> str:
    """Return the XML with which a memory module is attached."""
    element = Tree.Element("memory", model="dimm")
    target = Tree.SubElement(element, "target")
    _child(target, "size", str(size_mib), unit="MiB")
    _child(target, "node", "0")
    return Tree.tostring(element, encoding="unicode")


def write_disk(disk: Disk, target: str) -> str:
    """Return the XML with which a disk is attached."""
    return Tree.tostring(_disk(disk, target), encoding="unicode")


def write_drive(drive: str, iso: DiskSource | None) -> str:
    """Return the XML that updates a running guest's drive to another ISO or to no ISO.

    ``drive`` is the current XML of the drive.
    """
    element = Tree.fromstring(drive)  # noqa: S314 - of the daemon that we drive
    for name in ("source", "backingStore"):
        for child in element.findall(name):
            element.remove(child)
    if iso is not None:
        element.set("type", iso.disk_type)
        iso.write(element)
        _write_chain(element, ())
    return Tree.tostring(element, encoding="unicode")


def write_interface(interface: Interface) -> str:
    """Return the XML with which a NIC is attached."""
    return Tree.tostring(_interface(interface), encoding="unicode")


def target_name(number: int) -> str:
    """Return the device name of a guest's disk with this number, counted from 0: vda to vdz, vdaa, and so on."""
    name = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("a") + letter) + name
    return f"vd{name}"


def cpu_shares(cpu_number: int, cpu_mhz: int) -> int:
    """Return a guest's CPU weight in control groups: the MHz of all its cores in units of 10 MHz."""
    return max(2, min(MOST_SHARES, cpu_number * cpu_mhz // 10))


def read_domain(xml: str) -> SeenDomain | None:
    """Parse domain XML, or return None if the domain does not belong to the service."""
    root = Tree.fromstring(xml)  # noqa: S314 - of the daemon that we drive
    ours = root.find(f"metadata/{{{NAMESPACE}}}guest")
    if ours is None:
        return None
    disks: dict[UUID, str] = {}
    devices: dict[UUID, str] = {}
    known = {nic.get("uuid"): nic for nic in ours.findall(f"{{{NAMESPACE}}}nic")}
    nics: list[GuestNic] = []
    for kind, prefix in (("disk", VOLUME_ALIAS), ("interface", NIC_ALIAS)):
        for device in root.findall(f"devices/{kind}"):
            name = _alias(device)
            if not name.startswith(prefix):
                continue
            uuid = UUID(name.removeprefix(prefix))
            devices[uuid] = Tree.tostring(device, encoding="unicode")
            if kind == "disk":
                disks[uuid] = device.find("target").get("dev", "")  # type: ignore[union-attr]
            else:
                nics.append(_seen_nic(uuid, device, known.get(str(uuid))))
    drive = next((disk for disk in root.findall("devices/disk") if _alias(disk) == DRIVE_ALIAS), None)
    medium = None if drive is None else drive.find("source")
    template = ours.get("template")
    vcpu, memory = root.find("vcpu"), root.findtext("memory", "0")
    most_cpus = int(root.findtext("vcpu", "0"))
    return SeenDomain(
        uuid=UUID(root.findtext("uuid")),
        name=root.findtext("name", ""),
        template_uuid=None if template is None else UUID(template),
        cpu_number=most_cpus if vcpu is None else int(vcpu.get("current", most_cpus)),
        cpu_mhz=int(ours.get("cpu-mhz", "0")),
        memory_mib=int(memory) // 1024,
        disks=disks,
        devices=devices,
        nics=tuple(nics),
        drive=None if drive is None else Tree.tostring(drive, encoding="unicode"),
        iso_place=place_of(medium),
        targets=frozenset(target.get("dev", "") for target in root.findall("devices/disk/target")),
        most_cpus=most_cpus,
        most_memory_mib=int(root.findtext("maxMemory", memory)) // 1024,
    )


def _alias(device: Tree.Element) -> str:
    alias = device.find("alias")
    return "" if alias is None else alias.get("name", "")


def _seen_nic(uuid: UUID, device: Tree.Element, kept: Tree.Element | None) -> GuestNic:
    network = None if kept is None else kept.get("network")
    address = None if kept is None else kept.get("address")
    if address is None and (allowed := device.find("filterref/parameter[@name='IP']")) is not None:
        address = allowed.get("value")
    mac_address = device.find("mac").get("address", "")  # type: ignore[union-attr]
    return GuestNic(uuid, mac_address, None if network is None else UUID(network), address)


def _child(parent: Tree.Element, name: str, content: str, **attributes: str) -> None:
    Tree.SubElement(parent, name, attributes).text = content


def _write_firmware(root: Tree.Element, domain: Domain) -> None:
    os = Tree.SubElement(root, "os")
    _child(os, "type", "hvm", arch="x86_64", machine=domain.machine_type)
    if domain.uefi is not None:
        os.set("firmware", "efi")
        is_secure = "yes" if domain.uefi is BootMode.SECURE else "no"
        Tree.SubElement(Tree.SubElement(os, "firmware"), "feature", enabled=is_secure, name="secure-boot")
        if domain.nvram_path is not None:
            _child(os, "nvram", domain.nvram_path)


def _write_cpu(root: Tree.Element, domain: Domain) -> None:
    cpu = Tree.fromstring(domain.cpu)  # noqa: S314 - written by us, or by the daemon that we drive
    if domain.most_memory_mib > domain.memory_mib:  # memory is plugged into a node
        cpus = f"0-{domain.most_cpus - 1}"
        node = {"id": "0", "cpus": cpus, "memory": str(domain.memory_mib), "unit": "MiB"}
        Tree.SubElement(Tree.SubElement(cpu, "numa"), "cell", node)
    root.append(cpu)


def _disk(disk: Disk, target: str) -> Tree.Element:
    element = Tree.Element("disk", type=disk.source.disk_type, device="disk")
    driver = Tree.SubElement(element, "driver", name="qemu", type=disk.image_format, discard="unmap")
    if CACHE in disk.parameters:
        driver.set("cache", disk.parameters[CACHE])
    disk.source.write(element)
    if disk.backing is not None:
        _write_chain(element, disk.backing)
    Tree.SubElement(element, "target", dev=target, bus="virtio")
    if rates := RATES & disk.parameters.keys():
        tuning = Tree.SubElement(element, "iotune")
        for name in sorted(rates):
            _child(tuning, name, disk.parameters[name])
    _child(element, "serial", disk.volume_uuid.hex[:20])
    Tree.SubElement(element, "alias", name=f"{VOLUME_ALIAS}{disk.volume_uuid}")
    return element


def _write_chain(parent: Tree.Element, files: Sequence[BackingFile]) -> None:
    """Write the chain of backing files of a disk as nested elements. The last file has no backing file."""
    for file in files:
        parent = Tree.SubElement(parent, "backingStore", type="file")
        Tree.SubElement(parent, "format", type=file.image_format)
        Tree.SubElement(parent, "source", file=file.path)
    Tree.SubElement(parent, "backingStore")


def _cdrom(source: DiskSource | None, target: str, bus: str) -> Tree.Element:
    element = Tree.Element("disk", type="file" if source is None else source.disk_type, device="cdrom")
    Tree.SubElement(element, "driver", name="qemu", type="raw")
    if source is not None:
        source.write(element)
        _write_chain(element, ())
    Tree.SubElement(element, "target", dev=target, bus=bus)
    Tree.SubElement(element, "readonly")
    return element


def _drive(iso: DiskSource | None, target: str, bus: str) -> Tree.Element:
    """Return the XML of the drive for ISOs, from which the guest boots if its root volume does not boot."""
    element = _cdrom(iso, target, bus)
    Tree.SubElement(element, "boot", order="2")
    Tree.SubElement(element, "alias", name=DRIVE_ALIAS)
    return element


def _interface(interface: Interface) -> Tree.Element:
    element = Tree.Element("interface", type=interface.kind)
    Tree.SubElement(element, "mac", address=interface.mac_address)
    if interface.source is not None:
        Tree.SubElement(element, "source", {interface.kind: interface.source})
    if interface.vlan is not None:
        Tree.SubElement(element, "virtualport", type="openvswitch")
        Tree.SubElement(Tree.SubElement(element, "vlan"), "tag", id=interface.vlan)
    Tree.SubElement(element, "model", type="virtio")
    if interface.mtu is not None:
        Tree.SubElement(element, "mtu", size=str(interface.mtu))
    if interface.filter_name is not None:
        filtered = Tree.SubElement(element, "filterref", filter=interface.filter_name)
        if interface.address is not None:
            Tree.SubElement(filtered, "parameter", name="IP", value=interface.address)
    Tree.SubElement(element, "alias", name=f"{NIC_ALIAS}{interface.nic_uuid}")
    return element


def _write_console(devices: Tree.Element, log: str | None) -> None:
    serial = Tree.SubElement(devices, "serial", type="pty")
    Tree.SubElement(serial, "target", port="0")
    if log is not None:
        Tree.SubElement(serial, "log", file=log, append="on")


def _write_screen(devices: Tree.Element, screen: Screen) -> None:
    """Write a screen with a tablet as its pointer, which needs no software in the guest."""
    graphics = Tree.SubElement(devices, "graphics", type="vnc", autoport="yes", passwd=screen.password)
    Tree.SubElement(graphics, "listen", type="address", address=screen.address)
    Tree.SubElement(Tree.SubElement(devices, "video"), "model", type="vga")
    Tree.SubElement(devices, "input", type="tablet", bus="usb")
