"""The options of an extension: its executable, and the details that the executable receives."""

from pathlib import Path

from pydantic import Field, SecretStr

from bulkdeploy.drivers.options import DriverOptions


class ExtensionOptions(DriverOptions):
    """Options of ``[driver.extension]``."""

    executable: Path = Field(description="The extension's executable, on every machine that runs workers.")
    details: dict[str, SecretStr] = Field(
        default_factory=dict, description="Values of externaldetails.extension: urls, users, tokens."
    )
    templates: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        description="Values of externaldetails.virtualmachine, by the uuid of the template, by the name of "
        "a template that a root admin owns, or default.",
    )
    statuses: bool = Field(
        default=True,
        description="Whether it has the action statuses. Otherwise the state of each guest is read separately.",
    )
    activity: bool = Field(
        default=False,
        description="Whether it has the action activity, which shows host HA that guests of a silent host run.",
    )
    details_identify: bool = Field(
        default=True,
        description="Whether the response of prepare identifies a guest: no two guests have the same details.",
    )
    actions_at_once: int = Field(
        default=8, ge=1, le=1000, description="The number of actions that a worker process may run at once."
    )


OPTIONS = ExtensionOptions
