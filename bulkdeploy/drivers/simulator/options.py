"""The options of the simulator."""

from pydantic import Field, SecretStr

from bulkdeploy.drivers.options import DriverOptions


class SimulatorOptions(DriverOptions):
    """Options of ``[driver.simulator]``."""

    url: SecretStr = Field(
        description="PostgreSQL database that contains the simulated hypervisors and guests. "
        "Unset: database_url with _simulator appended to the database name."
    )
    pool_size: int = Field(default=8, ge=1, le=500, description="The largest number of connections of one process.")
    durable: bool = Field(
        default=True, description="Whether a call that returned survives a power failure; false is faster."
    )


OPTIONS = SimulatorOptions
