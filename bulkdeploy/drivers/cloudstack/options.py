"""The options of a connection to a CloudStack: its address, credentials and limits."""

from pathlib import Path

from pydantic import Field, SecretStr

from bulkdeploy.drivers.options import DriverOptions


class CloudStackOptions(DriverOptions):
    """Options of ``[driver.cloudstack]``."""

    url: str = Field(pattern="^https?://", description="Its API, such as https://cloud.example.org/client/api.")
    apikey: SecretStr = Field(min_length=1, description="API key of a root admin's user.")
    secretkey: SecretStr = Field(min_length=1, description="Its secret key.")
    ca_file: Path | None = Field(
        default=None, description="File of certificates that vouch for it. Unset: the system's authorities do."
    )
    calls_per_second: float = Field(
        default=20.0, gt=0, le=1000, description="Most calls a second of one process; 429 makes it wait besides."
    )
    jobs_at_once: int = Field(
        default=20, ge=1, le=1000, description="Most VMs that one process has deployed, started or moved at a time."
    )
    poll_seconds: float = Field(
        default=1.0, gt=0, le=60, description="Seconds between two looks at all VMs that are waited for."
    )


OPTIONS = CloudStackOptions
