"""The options of the libvirt driver, which are the same for all its hosts."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from bulkdeploy.drivers.options import DriverOptions

BASELINE, HOST_MODEL = "baseline", "host-model"
"""CPUs of guests that are no model's name."""


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
        description="Hosts prove who they are: by the known_hosts file of ssh, or by their TLS certificate. "
        "False: whoever answers at a host's address is believed.",
    )
    virtualization: Literal["kvm", "qemu"] = Field(
        default="kvm", description="kvm, or qemu: emulation, many times slower, for machines without KVM."
    )
    machine: str = Field(
        default="pc",
        description="Machine type of guests. With cpu_model baseline an alias such as pc "
        "is the one that it means on the host of the cluster with the oldest QEMU.",
    )
    cpu_model: str = Field(
        default=BASELINE,
        min_length=1,
        description="CPU of guests: baseline, what all hosts of the cluster can give, so that guests can move; "
        "host-model, what the host that starts them can; or a model's name, which all hosts must be able to give.",
    )
    growth: int = Field(
        default=4,
        ge=1,
        le=16,
        description="A dynamically scalable guest may grow, while it runs, to this multiple of the vCPUs and "
        "memory that it was started with, up to 255 vCPUs and 1 TiB. Such a guest has about 64 MiB less memory "
        "for its own use. 1: guests do not grow.",
    )
    network: Literal["bridge", "openvswitch", "libvirt", "user"] = Field(
        default="bridge",
        description="How nics are joined to networks: a Linux bridge, one of Open vSwitch with a VLAN tag, a "
        "network of libvirt's, or QEMU's own (guests reach out, nothing reaches them).",
    )
    bridge: str = Field(
        default="{label}",
        description="Bridge, or network of libvirt's, of a nic; {label} is the physical network's kvmnetworklabel, "
        "{vlan} the network's VLAN.",
    )
    default_label: str = Field(default="cloudbr0", description="Label where the physical network has none.")
    anti_spoofing: bool = Field(
        default=True,
        description="Guests send with their own MAC and address only (libvirt's filter clean-traffic); not where "
        "network is user or openvswitch.",
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
        description="File on the host that gets what a guest writes to its serial console, until the VM is "
        "expunged; {name} and {uuid} are the guest's. Unset: none.",
    )
    vnc_address: str = Field(
        default="0.0.0.0",  # noqa: S104 - guests take it along when they move
        description="Address at which hosts serve their guests' screens by VNC, each with a password of its own; "
        "the API connects to the host's address. A firewall must block all others. Empty: guests have no screens.",
    )
    seed: bool = Field(
        default=True, description="Guests get a NoCloud seed: user data, keys, host name, password, network."
    )
    shutdown_seconds: float = Field(
        default=60.0, ge=0, description="A guest that ignores its power button for so long is switched off."
    )
    connections_per_host: int = Field(
        default=3, ge=1, le=32, description="Most connections to one host that one process holds, of 4 calls each."
    )
    unsafe_migration: bool = Field(
        default=False,
        description="Guests move although libvirt does not know the file system of shared pools for a shared one.",
    )
    keepalive_seconds: int = Field(
        default=5,
        ge=1,
        le=300,
        description="A host is probed so often; after two silent ones its calls have failed.",
    )


OPTIONS = LibvirtOptions
