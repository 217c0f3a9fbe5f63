"""The virtual hardware of guests on different hosts: the machine type and CPU that all hosts of a cluster support.

Each host is queried when it is added or reconnected (``describe``). The description is stored with the host and
read when guests start (docs/adr/0060-cpus-of-clusters.md). libvirt compares the CPUs.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as Tree

import structlog

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.libvirt.connections import HostCall
from bulkdeploy.drivers.libvirt.errors import is_code, libvirt
from bulkdeploy.drivers.libvirt.options import BASELINE, HOST_MODEL, LibvirtOptions
from bulkdeploy.drivers.records import Directory

log = structlog.get_logger(__name__)

ARCHITECTURE = "x86_64"
LOOKS_S = 10.0
"""The time for which a process caches the hardware of a cluster, in seconds.

A guest that starts meanwhile gets the hardware of the guests that already run.
"""


@dataclass(frozen=True, slots=True)
class GuestHardware:
    """A machine type, and a CPU as an element of domain XML."""

    machine: str
    cpu: str


def capabilities_of(call: HostCall, options: LibvirtOptions) -> Tree.Element:
    """Return libvirt's capabilities for guests of the configured virtualization and machine type."""
    return Tree.fromstring(call.connection.getDomainCapabilities(*_platform(options), 0))  # noqa: S314 - our daemon's


def _platform(options: LibvirtOptions, machine: str | None = None) -> tuple[None, str, str, str]:
    """Return the arguments that libvirt requires in queries about guests: emulator, architecture, machine, type."""
    return None, ARCHITECTURE, machine or options.machine, options.virtualization


def describe(call: HostCall, options: LibvirtOptions) -> str:
    """Return an XML description of the hardware that guests of a host can have: machine types and CPU.

    The CPU is the one that libvirt offers for ``host-model``. With KVM, these are the features of the host's CPU
    that allow migration; with emulation, it is QEMU's CPU.

    Raises:
        DriverError: libvirt does not know the host's CPU.
    """
    capabilities = capabilities_of(call, options)
    cpu = capabilities.find("cpu/mode[@name='host-model']")
    if cpu is None or cpu.find("model") is None:
        reason = "libvirt does not know its CPU: set driver.libvirt.cpu_model to a model that all hosts support"
        raise DriverError("connect", call.host.name, reason, transient=False)
    cpu.tag, cpu.attrib = "cpu", {}
    root = Tree.Element("hardware", machine=capabilities.findtext("machine", options.machine))
    known = Tree.fromstring(call.connection.getCapabilities())  # noqa: S314 - of the daemon that we drive
    for machine in known.findall(f"guest/arch[@name='{ARCHITECTURE}']/machine"):
        Tree.SubElement(root, "knows", machine=str(machine.text))
    root.append(cpu)
    return Tree.tostring(root, encoding="unicode")


def baseline(call: HostCall, options: LibvirtOptions, described: Collection[str]) -> GuestHardware:
    """Return the hardware that guests can have on all hosts with these descriptions.

    Raises:
        DriverError: the hosts have no CPU or no machine type in common.
    """
    hosts = [Tree.fromstring(one) for one in sorted(described)]  # noqa: S314 - written by ``describe``
    machine = _machine(call, hosts)
    cpus = [Tree.tostring(host[-1], encoding="unicode") for host in hosts]
    try:
        flags = libvirt.VIR_CONNECT_BASELINE_CPU_MIGRATABLE
        cpu = call.connection.baselineHypervisorCPU(*_platform(options, machine), cpus, flags)
    except libvirt.libvirtError as error:
        models = ", ".join(sorted({host.findtext("cpu/model", "") for host in hosts}))
        reason = (
            f"the hosts of the cluster support no common CPU for guests ({models}): {error}. Hosts with other "
            "processors need a cluster of their own. Alternatively, set driver.libvirt.cpu_model"
        )
        raise DriverError("connect", call.host.name, reason, transient=False) from error
    return GuestHardware(machine, str(cpu))


def _machine(call: HostCall, hosts: Iterable[Tree.Element]) -> str:
    """Return the machine type for a cluster: a type that a host uses by default and that all hosts support.

    If several types qualify, the type of the oldest QEMU is returned.
    """
    known = [{one.get("machine") for one in host.findall("knows")} | {host.get("machine")} for host in hosts]
    chosen = [str(host.get("machine")) for host in hosts]
    for machine in chosen:
        if all(machine in machines for machines in known):
            return machine
    reason = (
        f"the hosts of the cluster support no common machine type ({', '.join(sorted(set(chosen)))}): put hosts "
        "of other distributions into a cluster of their own, or set driver.libvirt.machine"
    )
    raise DriverError("connect", call.host.name, reason, transient=False)


class Hardware:
    """The virtual hardware of guests: the one in the options, or the one that all hosts of a cluster support."""

    def __init__(self, options: LibvirtOptions) -> None:
        self._options = options
        self._found: dict[UUID, tuple[float, GuestHardware]] = {}

    def of(self, call: HostCall, directory: Directory) -> GuestHardware:
        """Return the hardware for a guest that starts on this host.

        All hosts of the cluster support the hardware. If the hosts have nothing in common, the host's own hardware
        is returned.
        """
        found = self._found.get(call.host.uuid)
        if found is None or found[0] < time.monotonic():
            found = time.monotonic() + LOOKS_S, self._look(call, directory)
            self._found[call.host.uuid] = found
        return found[1]

    def _look(self, call: HostCall, directory: Directory) -> GuestHardware:
        model = self._options.cpu_model
        if model not in (BASELINE, HOST_MODEL):
            return GuestHardware(self._options.machine, _named(model))
        described = directory.hardware_of_cluster(call.host.uuid) if model == BASELINE else frozenset({None})
        known = {one for one in described if one is not None}
        as_the_hosts = GuestHardware(self._options.machine, '<cpu mode="host-model"/>')
        if len(known) < len(described):  # older hosts have no description until they are reconnected
            return as_the_hosts
        try:
            return baseline(call, self._options, known)
        except DriverError as error:
            # A newer libvirt names features that an older one does not know. Starts on this host must not
            # fail because of an added host, whose own libvirt has found common hardware.
            log.warning("cluster_cpu_unknown", host=call.host.name, why=str(error))
            return as_the_hosts


def _named(model: str) -> str:
    cpu = Tree.Element("cpu", mode="custom", match="exact")
    Tree.SubElement(cpu, "model", fallback="forbid").text = model
    return Tree.tostring(cpu, encoding="unicode")


def require_cpu(call: HostCall, options: LibvirtOptions) -> str:
    """Check that a host supports the configured CPU model, and return a description of the guests' CPU.

    Raises:
        DriverError: the host does not support the model. The error names the models that it supports.
    """
    model = options.cpu_model
    if model == HOST_MODEL:
        return "the host's own: guests can migrate to hosts with the same CPU or a newer one of its kind"
    if model == BASELINE:
        described = Tree.fromstring(describe(call, options))  # noqa: S314 - written a moment ago
        return f"{described.findtext('cpu/model')}, reduced to features that all hosts of the cluster have"
    usable = usable_cpu_models(capabilities_of(call, options))
    if model not in usable:
        reason = (
            f"the host does not support CPU model {model} (driver.libvirt.cpu_model); it supports "
            f"{', '.join(sorted(usable)) or 'no named model'}"
        )
        raise DriverError("connect", call.host.name, reason, transient=False)
    return model


def usable_cpu_models(capabilities: Tree.Element) -> frozenset[str]:
    """Return the CPU models that the capabilities of a host report as usable for guests."""
    named = capabilities.findall("cpu/mode[@name='custom']/model")
    return frozenset(str(model.text) for model in named if model.get("usable") != "no")


def join_cluster(call: HostCall, options: LibvirtOptions, of_others: Collection[str], described: str) -> None:
    """Check that a new host can have the same guest CPU and machine type as the hosts of its cluster.

    ``of_others`` are the descriptions of the other hosts, ``described`` that of the new host. If the new host
    reduces the CPU of guests that start from now on, it is accepted, and a log event names the features that
    running guests have and the host lacks.

    Raises:
        DriverError: the hosts have no CPU or no machine type in common.
    """
    if not of_others:
        return
    baseline(call, options, {*of_others, described})
    lacking = _lacking(call, options, baseline(call, options, of_others).cpu)
    if lacking is not None:
        log.warning("cluster_cpu_lowered", host=call.host.name, lacking=lacking)


def require_same_cpu(source: HostCall, destination: HostCall, options: LibvirtOptions, domain: Any) -> None:
    """Check, before a live migration, that the destination host supports the CPU of the running guest.

    If the comparison also reports that the source host does not support this CPU, the comparison is unreliable.
    Then it is ignored, and libvirt decides itself.

    Raises:
        DriverError: the destination lacks a feature. The error names the feature.
    """
    cpu = Tree.fromstring(domain.XMLDesc()).find("cpu")  # noqa: S314 - of the daemon that we drive
    if cpu is None:
        return
    for numa in cpu.findall("numa"):
        cpu.remove(numa)
    given = Tree.tostring(cpu, encoding="unicode")
    lacking = _lacking(destination, options, given)
    if lacking is not None and _lacking(source, options, given) is None:
        reason = f"{lacking}. After a stop and start, the guest has a CPU that all hosts of its cluster support"
        raise DriverError("migrate", destination.host.name, reason, transient=False)


def _lacking(call: HostCall, options: LibvirtOptions, cpu: str) -> str | None:
    """Return libvirt's reason why a host does not support a CPU for guests, or None if it does."""
    flags = libvirt.VIR_CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE
    try:
        call.connection.compareHypervisorCPU(*_platform(options), cpu, flags)
    except libvirt.libvirtError as error:
        if not is_code(error, libvirt.VIR_ERR_CPU_INCOMPATIBLE):
            raise
        return str(error)
    return None
