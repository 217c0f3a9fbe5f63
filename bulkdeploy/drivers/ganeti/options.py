"""The options of a Ganeti cluster: its address, and the properties of its instances."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from bulkdeploy.drivers.options import DriverOptions

DiskTemplate = Literal["blockdev", "diskless", "drbd", "ext", "file", "gluster", "plain", "rbd", "sharedfile"]
"""Ganeti's disk templates. Instances with drbd need two nodes, and the service chooses both."""

DiskParameter = Literal["access", "metavg", "mode", "provider", "vg"]
"""The parameters of disks that offerings, root admins and this driver's options may set."""


class GanetiOptions(DriverOptions):
    """Options of ``[driver.ganeti]``."""

    urls: tuple[str, ...] = Field(min_length=1, description="RAPI of every master candidate, https://NODE:5080.")
    username: str = Field(description="User of RAPI with the right to write.")
    password: SecretStr = Field(description="Password of this user.")
    ca_file: Path | None = Field(
        default=None,
        description="File with certificates of the authorities that signed RAPI's. Unset: public authorities.",
    )
    fingerprint: str | None = Field(
        default=None, description="SHA-256 of RAPI's certificate, in hexadecimal. Other certificates are rejected."
    )
    group: str | None = Field(
        default=None, description="Node group to which all hosts must belong. Unset: any group."
    )
    hypervisor: str = Field(default="kvm", description="Ganeti's hypervisor of the instances.")
    disk_template: DiskTemplate = Field(default="plain", description="Ganeti's disk template of the instances.")
    disk_parameters: dict[DiskParameter, str] = Field(
        default_factory=dict,
        description="Parameters of all disks, such as vg. Offerings override them. Unset: the cluster's own.",
    )
    operating_systems: dict[str, str] = Field(
        default_factory=lambda: {"default": "noop"},
        description="Ganeti's OS by the uuid of the template, by the name of a root admin's template, or default.",
    )
    nic_mode: Literal["bridged", "routed", "openvswitch"] | None = Field(
        default=None,
        description="bridged, routed (all nics need addresses) or openvswitch. Unset: the cluster's own.",
    )
    nic_link: str | None = Field(default=None, description="Bridge or table of nics. Unset: the cluster's own.")
    cpu_mhz: int = Field(default=2000, ge=1, description="Speed of a core in MHz, which Ganeti does not know.")
    reserved_memory_mib: int = Field(
        default=1024,
        ge=0,
        description="Memory of each node in MiB that is reserved for the node itself.",
    )
    jobs_at_once: int = Field(
        default=20, ge=1, le=1000, description="Most jobs of one worker process in Ganeti's queue."
    )


OPTIONS = GanetiOptions
