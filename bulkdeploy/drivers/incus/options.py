"""The options of an Incus cluster: its address, and the properties of its instances."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from bulkdeploy.drivers.options import DriverOptions


class IncusOptions(DriverOptions):
    """Options of ``[driver.incus]``."""

    urls: tuple[str, ...] = Field(
        default=("unix:///var/lib/incus/unix.socket",),
        min_length=1,
        description="API of every member, https://MEMBER:8443; or a socket of this machine, unix:///PATH.",
    )
    certificate: Path | None = Field(
        default=None, description="File with the client certificate that the cluster trusts; for https."
    )
    key: Path | None = Field(default=None, description="File with the key of the client certificate.")
    ca_file: Path | None = Field(
        default=None,
        description="File with the certificates of the authorities that signed the members'. Unset: the system's.",
    )
    fingerprint: str | None = Field(
        default=None, description="SHA-256 of the cluster's certificate, in hexadecimal. Others are rejected."
    )
    project: str = Field(default="default", description="Project in Incus of the instances and volumes.")
    profiles: tuple[str, ...] = Field(
        default=(), description="Profiles in Incus of the instances. Profiles need neither nics nor disks."
    )
    storage_pools: dict[str, str] = Field(
        default_factory=dict,
        description="Name in Incus by the name of the primary storage. By default, both names are equal.",
    )
    local_pool: str | None = Field(
        default=None, description="Storage pool in Incus for local storage of hosts. Unset: hosts have none."
    )
    images: dict[str, str] = Field(
        default_factory=dict,
        description="Alias or fingerprint of an image in Incus by the uuid of the template, or by the name of one "
        "that a root admin owns. By default, the template's url names an image file, which is imported once.",
    )
    network: str = Field(
        default="{label}",
        description="Network in Incus, or bridge, of a nic. {label} is the label of the physical network, {vlan} "
        "the network's VLAN.",
    )
    default_label: str = Field(default="incusbr0", description="Label if the physical network has none.")
    network_kind: Literal["managed", "bridge"] = Field(
        default="managed",
        description="managed: a network in Incus, whose DHCP assigns addresses. bridge: a bridge of each member.",
    )
    cloud_init: bool = Field(default=True, description="Whether guests get user data, keys, host name and network.")
    cpu_mhz: int = Field(default=2000, ge=1, description="Speed of a core in MHz if a member does not report it.")
    shutdown_seconds: float = Field(
        default=30.0, ge=0, description="Seconds until a guest that does not shut down is stopped by force."
    )
    calls_at_once: int = Field(default=20, ge=1, le=1000, description="Most operations of one process in Incus.")

    @field_validator("network")
    @classmethod
    def _check_network(cls, value: str) -> str:
        try:
            value.format(label="", vlan="")
        except (LookupError, ValueError, AttributeError) as error:
            raise ValueError(
                f"the network may contain only the fields {{label}} and {{vlan}}; {value!r} is invalid"
            ) from error
        return value

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        for url in self.urls:
            if not url.startswith(("https://", "unix:///")):
                raise ValueError(f"urls must begin with https:// or unix:///, not {url!r}")
            if url.startswith("https://") and (self.certificate is None or self.key is None):
                raise ValueError("https needs certificate and key")
        return self


OPTIONS = IncusOptions
