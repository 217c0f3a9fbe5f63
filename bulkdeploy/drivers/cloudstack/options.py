"""The options of a connection to a CloudStack: its address, credentials and limits."""

from pathlib import Path

from pydantic import Field, SecretStr

from bulkdeploy.drivers.options import DriverOptions


class CloudStackOptions(DriverOptions):
    """Options of ``[driver.cloudstack]``."""

    url: str = Field(
        pattern="^https?://", description="URL of the API, such as https://cloud.example.org/client/api."
    )
    apikey: SecretStr = Field(min_length=1, description="API key of a root admin's user.")
    secretkey: SecretStr = Field(min_length=1, description="Secret key of this user.")
    ca_file: Path | None = Field(
        default=None,
        description="File with certificates of the authorities that signed its certificate. Unset: public ones.",
    )
    calls_per_second: float = Field(
        default=20.0,
        gt=0,
        le=1000,
        description="Most calls per second of one process. Status 429 slows it down further.",
    )
    jobs_at_once: int = Field(
        default=20, ge=1, le=1000, description="Most VMs that one process deploys, starts or migrates at a time."
    )
    poll_seconds: float = Field(
        default=1.0, gt=0, le=60, description="Seconds between two polls of all VMs whose jobs are running."
    )


OPTIONS = CloudStackOptions
