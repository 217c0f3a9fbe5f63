"""The options of a Ganeti cluster: its address, and the properties of its instances."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from bulkdeploy.drivers.options import DriverOptions

DiskTemplate = Literal["blockdev", "diskless", "drbd", "ext", "file", "gluster", "plain", "rbd", "sharedfile"]
"""Ganeti's disk templates; instances with drbd need two nodes, of which we choose both."""

DiskParameter = Literal["access", "metavg", "mode", "provider", "vg"]
"""Parameters of a disk that offerings, root admins and this driver's options may say."""


class GanetiOptions(DriverOptions):
    """Options of ``[driver.ganeti]``."""

    urls: tuple[str, ...] = Field(min_length=1, description="RAPI of every master candidate, https://NODE:5080.")
    username: str = Field(description="User of RAPI with the right to write.")
    password: SecretStr = Field(description="Its password.")
    ca_file: Path | None = Field(
        default=None, description="File of certificates that vouch for RAPI's. Unset: the system's authorities do."
    )
    fingerprint: str | None = Field(
        default=None, description="SHA-256 of RAPI's certificate, in hexadecimal: that one is taken, and no other."
    )
    group: str | None = Field(default=None, description="Hosts must be of this node group. Unset: of any.")
    hypervisor: str = Field(default="kvm", description="Ganeti's hypervisor of the instances.")
    disk_template: DiskTemplate = Field(default="plain", description="Ganeti's disk template of the instances.")
    disk_parameters: dict[DiskParameter, str] = Field(
        default_factory=dict,
        description="Parameters of all disks, such as vg; offerings say others. Unset: the cluster's own.",
    )
    operating_systems: dict[str, str] = Field(
        default_factory=lambda: {"default": "noop"},
        description="Ganeti's OS by the uuid of our template, by the name of one that a root admin owns, or "
        "default.",
    )
    nic_mode: Literal["bridged", "routed", "openvswitch"] | None = Field(
        default=None,
        description="bridged, routed (only nics with an address) or openvswitch. Unset: the cluster's own.",
    )
    nic_link: str | None = Field(default=None, description="Bridge or table of nics. Unset: the cluster's own.")
    cpu_mhz: int = Field(default=2000, ge=1, description="Speed of a core in MHz, which Ganeti does not know.")
    reserved_memory_mib: int = Field(
        default=1024,
        ge=0,
        description="Memory of each node in MiB that is the node's own: instances do not get it.",
    )
    jobs_at_once: int = Field(
        default=20, ge=1, le=1000, description="Most jobs of one worker process in Ganeti's queue."
    )


OPTIONS = GanetiOptions
