"""The options of an extension: its executable, and the details that the executable receives."""

from pathlib import Path

from pydantic import Field, SecretStr

from bulkdeploy.drivers.options import DriverOptions


class ExtensionOptions(DriverOptions):
    """Options of ``[driver.extension]``."""

    executable: Path = Field(description="The extension's executable, on every machine that runs workers.")
    details: dict[str, SecretStr] = Field(
        default_factory=dict, description="What it gets as externaldetails.extension: urls, users, tokens."
    )
    templates: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        description="What it gets as externaldetails.virtualmachine, by the uuid of our template, by the name of "
        "one that a root admin owns, or default.",
    )
    statuses: bool = Field(
        default=True, description="Whether it has the action statuses; else guests are looked at one by one."
    )
    activity: bool = Field(
        default=False,
        description="Whether it has the action activity, which tells host HA that guests of a silent host run.",
    )
    details_identify: bool = Field(
        default=True,
        description="Whether what prepare answers identifies a guest: no two guests then have the same details.",
    )
    actions_at_once: int = Field(default=8, ge=1, le=1000, description="Most actions of one worker process.")


OPTIONS = ExtensionOptions
