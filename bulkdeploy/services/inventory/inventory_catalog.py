"""Reading what an inventory file offers: service offerings, disk offerings, templates and ISOs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bulkdeploy.domain.inventory_catalog import DiskOffering, ServiceOffering, Template
from bulkdeploy.domain.inventory_owners import ROOT_ADMIN, AccountName
from bulkdeploy.domain.topology import HypervisorType, StorageType, TemplateKind
from bulkdeploy.domain.units import GIB, MIB
from bulkdeploy.scheduling.catalog import planners
from bulkdeploy.services.inventory.inventory_document import Keys, Problems, Value
from bulkdeploy.services.inventory.inventory_owners import refuse_twice
from bulkdeploy.services.inventory.inventory_values import (
    MISSING,
    choice,
    flag,
    list_of,
    matching,
    name,
    named,
    one_of,
    reference,
    size,
    text,
    text_map,
    whole,
)

TAG = matching(
    "must be a tag: 1 to 255 characters without commas and spaces around it",
    lambda written: (
        written if 0 < len(written) <= 255 and "," not in written and written == written.strip() else None
    ),
    MISSING,
)
TAGS = list_of(TAG, most=100)
CORES = whole(1, 4096)
SPEED = whole(1, 100_000)
MEMORY = size(1, 64 * 1024 * 1024, MIB)
DISK = size(1, 1024 * 1024, GIB)
SORT_KEY = whole(-(2**31), 2**31 - 1)
IMAGE = size(1, 2**62, 1)
READY_STATUS = "Download Complete"
UNREADY_STATUS = "Not downloaded"
FORMATS = {
    HypervisorType.KVM: "QCOW2",
    HypervisorType.XENSERVER: "VHD",
    HypervisorType.VMWARE: "OVA",
    HypervisorType.HYPERV: "VHDX",
}
"""Image formats by hypervisor, where a template names none."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the parts of a file that are read later may name."""

    problems: Problems
    domains: Collection[str]
    accounts: Mapping[str, AccountName]

    @property
    def account(self) -> Value[AccountName]:
        """An account of the file."""
        return named("an account (name, or name@domain path)", self.accounts, ROOT_ADMIN)


def read_service_offerings(keys: Keys, known: Known) -> tuple[ServiceOffering, ...]:
    """The service offerings."""
    found = keys.each("service_offerings", "a service offering", lambda item: _read_service_offering(item, known))
    refuse_twice(known.problems, "service offering", ((offering.name, offering.where) for offering in found))
    return found


def _read_service_offering(keys: Keys, known: Known) -> ServiceOffering:
    called = keys.need("name", name())
    offering = ServiceOffering(
        name=called,
        display_text=keys.get("display_text", text(), called),
        cpu_number=keys.get("cpu_number", CORES, None),
        cpu_mhz=keys.get("cpu_mhz", SPEED, None),
        memory_mib=keys.get("memory", MEMORY, None),
        min_cpu_number=keys.get("min_cpu_number", CORES, None),
        max_cpu_number=keys.get("max_cpu_number", CORES, None),
        min_memory_mib=keys.get("min_memory", MEMORY, None),
        max_memory_mib=keys.get("max_memory", MEMORY, None),
        root_disk_gib=keys.get("root_disk", DISK, None),
        storage_type=keys.get("storage_type", choice(StorageType), StorageType.SHARED),
        storage_tags=keys.get("storage_tags", TAGS, ()),
        host_tags=keys.get("host_tags", TAGS, ()),
        planner=keys.get("planner", one_of(*planners()), None),
        offer_ha=keys.get("offer_ha", flag(), default=False),
        limit_cpu_use=keys.get("limit_cpu_use", flag(), default=False),
        dynamic_scaling=keys.get("dynamic_scaling", flag(), default=True),
        network_rate=keys.get("network_rate", whole(0, 1_000_000), None),
        domains=keys.get("domains", list_of(reference("a domain", known.domains)), ()),
        zone_only=keys.get("zone_only", flag(), default=False),
        details=keys.get("details", text_map(), {}),
        state=keys.get("state", one_of("Active", "Inactive"), "Active"),
        sort_key=keys.get("sort_key", SORT_KEY, 0),
        where=keys.where,
    )
    _check_sizes(keys, offering)
    return offering


def _check_sizes(keys: Keys, offering: ServiceOffering) -> None:
    """Fixed: cores, speed and memory. Custom: neither cores nor memory, bounds for both or for none."""
    fixed = (offering.cpu_number, offering.memory_mib)
    bounds = (offering.min_cpu_number, offering.max_cpu_number, offering.min_memory_mib, offering.max_memory_mib)
    if (fixed[0] is None) is not (fixed[1] is None):
        keys.refuse("memory", "cpu_number and memory are given both (fixed) or not at all (custom)")
    if fixed[0] is not None and offering.cpu_mhz is None:
        keys.refuse("cpu_mhz", "must be given where cpu_number and memory are")
    if fixed[0] is not None and any(bound is not None for bound in bounds):
        keys.refuse("min_cpu_number", "bounds are for custom offerings, which give no cpu_number and memory")
    for low_key, low, high_key, high in (
        ("min_cpu_number", offering.min_cpu_number, "max_cpu_number", offering.max_cpu_number),
        ("min_memory", offering.min_memory_mib, "max_memory", offering.max_memory_mib),
    ):
        if (low is None) is not (high is None):
            keys.refuse(high_key, f"must be given together with {low_key}")
        elif low is not None and high is not None and low > high:
            keys.refuse(high_key, f"must not be below {low_key}")


def read_disk_offerings(keys: Keys, known: Known) -> tuple[DiskOffering, ...]:
    """The disk offerings."""
    found = keys.each("disk_offerings", "a disk offering", lambda item: _read_disk_offering(item, known))
    refuse_twice(known.problems, "disk offering", ((offering.name, offering.where) for offering in found))
    return found


def _read_disk_offering(keys: Keys, known: Known) -> DiskOffering:
    called = keys.need("name", name())
    offering = DiskOffering(
        name=called,
        display_text=keys.get("display_text", text(), called),
        disk_gib=keys.get("disk", DISK, 0),
        customized=keys.get("custom", flag(), default=False),
        storage_type=keys.get("storage_type", choice(StorageType), StorageType.SHARED),
        storage_tags=keys.get("storage_tags", TAGS, ()),
        provisioning_type=keys.get("provisioning_type", one_of("thin", "sparse", "fat"), "thin"),
        display_offering=keys.get("display_offering", flag(), default=True),
        domains=keys.get("domains", list_of(reference("a domain", known.domains)), ()),
        zone_only=keys.get("zone_only", flag(), default=False),
        details=keys.get("details", text_map(), {}),
        state=keys.get("state", one_of("Active", "Inactive"), "Active"),
        sort_key=keys.get("sort_key", SORT_KEY, 0),
        where=keys.where,
    )
    if offering.customized is (offering.disk_gib > 0):
        keys.refuse("disk", "either disk gives the size, or custom is true and the caller does")
    return offering


def read_templates(keys: Keys, known: Known) -> tuple[Template, ...]:
    """The templates, then the ISOs."""
    found = (
        *keys.each("templates", "a template", lambda item: _read_template(item, known, TemplateKind.TEMPLATE)),
        *keys.each("isos", "an ISO", lambda item: _read_template(item, known, TemplateKind.ISO)),
    )
    for kind in TemplateKind:
        described = ((f"{one.name}@{one.owner}", one.where) for one in found if one.kind is kind)
        refuse_twice(known.problems, kind.value, described)
    return found


def _read_template(keys: Keys, known: Known, kind: TemplateKind) -> Template:
    called = keys.need("name", name())
    hypervisor = keys.get("hypervisor", choice(HypervisorType), None)
    ready = keys.get("ready", flag(), default=True)
    size_bytes = keys.need("size", IMAGE)
    is_iso = kind is TemplateKind.ISO
    template = Template(
        kind=kind,
        name=called,
        display_text=keys.get("display_text", text(), called),
        owner=keys.get("account", known.account, ROOT_ADMIN),
        template_type=keys.get("type", one_of("USER", "BUILTIN", "SYSTEM", "PERHOST"), "USER"),
        format="ISO" if is_iso else _format(keys, hypervisor),
        hypervisor=hypervisor,
        os_type=keys.get("os_type", name(), None),
        size_bytes=size_bytes,
        physical_size_bytes=keys.get("physical_size", IMAGE, size_bytes),
        is_public=keys.get("public", flag(), default=True),
        is_featured=keys.get("featured", flag(), default=False),
        is_extractable=keys.get("extractable", flag(), default=False),
        bootable=keys.get("bootable", flag(), default=True),
        password_enabled=keys.get("password_enabled", flag(), default=False),
        sshkey_enabled=keys.get("sshkey_enabled", flag(), default=False),
        requires_hvm=keys.get("requires_hvm", flag(), default=True),
        dynamically_scalable=keys.get("dynamically_scalable", flag(), default=True),
        template_tag=keys.get("template_tag", TAG, None),
        url=keys.get("url", text(2048), None),
        checksum=keys.get("checksum", text(255), None),
        arch=keys.get("arch", one_of("x86_64", "i686", "aarch64"), "x86_64"),
        details=keys.get("details", text_map(), {}),
        sort_key=keys.get("sort_key", SORT_KEY, 0),
        shared_with=keys.get("shared_with", list_of(known.account), ()),
        ready=ready,
        status=keys.get("status", name(), READY_STATUS if ready else UNREADY_STATUS),
        where=keys.where,
    )
    if is_iso and hypervisor is not None:
        keys.refuse("hypervisor", "ISOs have none: the caller names one")
    return template


def _format(keys: Keys, hypervisor: HypervisorType | None) -> str:
    """The image format: by hypervisor where it is not given; without a hypervisor it must be."""
    value = one_of("QCOW2", "VHD", "OVA", "VHDX", "RAW", "VMDK", "TAR", "DIR")
    default = FORMATS.get(hypervisor, "RAW") if hypervisor is not None else None
    return keys.need("format", value) if default is None else keys.get("format", value, default)
