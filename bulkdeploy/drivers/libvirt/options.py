"""The options of the libvirt driver, which are the same for all its hosts."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from bulkdeploy.drivers.options import DriverOptions

BASELINE, HOST_MODEL = "baseline", "host-model"
"""Values of ``cpu_model`` that are not the name of a CPU model."""


class LibvirtOptions(DriverOptions):
    """Options of ``[driver.libvirt]``."""

    transports: tuple[Literal["ssh", "tls", "tcp", "unix"], ...] = Field(
        default=("ssh", "tls", "unix"),
        min_length=1,
        description="Transports that the urls of hosts may have. tcp is neither encrypted nor authenticated.",
    )
    key_directory: Path = Field(
        default=Path("/etc/bulkdeploy"),
        description="Directory of this machine below which the key files (keyfile=) and certificates (pkipath=) of "
        "hosts' urls must be.",
    )
    socket_directories: tuple[Path, ...] = Field(
        default=(Path("/run/libvirt"), Path("/var/run/libvirt")),
        description="Directories of this machine below which the sockets (socket=) of hosts' urls must be.",
    )
    verify_hosts: bool = Field(
        default=True,
        description="Whether hosts are authenticated by the known_hosts file of ssh or by their TLS certificate. "
        "False: any server at a host's address is accepted.",
    )
    virtualization: Literal["kvm", "qemu"] = Field(
        default="kvm", description="kvm, or qemu: emulation, many times slower, for machines without KVM."
    )
    machine: str = Field(
        default="pc",
        description="Machine type of guests. With cpu_model baseline, an alias such as pc "
        "means the type that it has on the host with the oldest QEMU in the cluster.",
    )
    cpu_model: str = Field(
        default=BASELINE,
        min_length=1,
        description="CPU of guests. baseline: a CPU that all hosts of the cluster support, for live migration; "
        "host-model: the CPU of the host that starts them. Otherwise the name of a model that all hosts support.",
    )
    growth: int = Field(
        default=4,
        ge=1,
        le=16,
        description="The multiple of its vCPUs and memory at start to which a dynamically scalable guest may grow "
        "while it runs, up to 255 vCPUs and 1 TiB. Such a guest has about 64 MiB less memory "
        "for its own use. 1: guests cannot grow.",
    )
    network: Literal["bridge", "openvswitch", "libvirt", "user"] = Field(
        default="bridge",
        description="Connection of nics to networks: a Linux bridge, a bridge of Open vSwitch with a VLAN tag, a "
        "network of libvirt, or QEMU's user network (guests can open connections but not accept them).",
    )
    bridge: str = Field(
        default="{label}",
        description="Bridge, or network of libvirt, of a nic. {label} is the physical network's kvmnetworklabel, "
        "{vlan} the network's VLAN.",
    )
    default_label: str = Field(default="cloudbr0", description="Label if the physical network has none.")
    anti_spoofing: bool = Field(
        default=True,
        description="Whether guests can send only with their own MAC and IP address (filter clean-traffic). "
        "Not available if network is user or openvswitch.",
    )
    local_path: str | None = Field(
        default="/var/lib/libvirt/images/bulkdeploy",
        description="Folder on each host for local storage. Unset: hosts have none.",
    )
    mount_path: str = Field(
        default="/var/lib/libvirt/bulkdeploy", description="Folder on each host in which NFS pools are mounted."
    )
    console_log: str | None = Field(
        default="/var/log/libvirt/qemu/{name}.console.log",
        description="File on the host for the output of a guest's serial console. It is deleted when the VM is "
        "expunged. {name} and {uuid} are those of the guest. Unset: no file.",
    )
    vnc_address: str = Field(
        default="0.0.0.0",  # noqa: S104 - a guest keeps the address when it migrates
        description="Address at which hosts serve their guests' screens by VNC, each with its own password. "
        "Only the API needs access; a firewall must block all others. Empty: guests have no screens.",
    )
    seed: bool = Field(
        default=True,
        description="Whether guests get a NoCloud seed: user data, keys, host name, password, network.",
    )
    shutdown_seconds: float = Field(
        default=60.0, ge=0, description="Seconds until a guest that ignores its power button is switched off."
    )
    connections_per_host: int = Field(
        default=3,
        ge=1,
        le=32,
        description="Most connections of one process to one host. Each serves 4 calls at once.",
    )
    unsafe_migration: bool = Field(
        default=False,
        description="Whether guests may migrate although libvirt does not recognise shared pools as shared.",
    )
    keepalive_seconds: int = Field(
        default=5,
        ge=1,
        le=300,
        description="Seconds between probes of a host. After two probes without a response, its calls fail.",
    )


OPTIONS = LibvirtOptions
