"""The options of the simulator."""

from pydantic import Field, SecretStr

from bulkdeploy.drivers.options import DriverOptions


class SimulatorOptions(DriverOptions):
    """Options of ``[driver.simulator]``."""

    url: SecretStr = Field(
        description="PostgreSQL database in which simulated hypervisors keep their guests. "
        "Unset: the one beside database_url, with _simulator after its name."
    )
    pool_size: int = Field(default=8, ge=1, le=500, description="Most connections to it that one process holds.")
    durable: bool = Field(
        default=True, description="Wait until an answered call would survive a power cut; false is faster."
    )


OPTIONS = SimulatorOptions
