"""The options that drivers declare, read from settings.

Secrets can also be read from files.

``[driver.NAME]`` in the TOML file has one key per option. The environment variable ``BULKDEPLOY_DRIVER__NAME__KEY``
takes precedence over the file. ``KEY_file`` instead of ``KEY`` names a file that contains the value, such as a
secret that is mounted into a container.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidatorFunctionWrapHandler, field_validator

TABLE = "driver"
FILE_SUFFIX = "_file"


class DriverSettingError(Exception):
    """Raised if a setting of drivers is wrong or missing. The text names the setting."""


class WrongDriverOptions(DriverSettingError):
    """Raised if options are invalid. The text lists one problem per option, without the values."""

    def __init__(self, driver: str, problems: Mapping[str, str], table: str = TABLE) -> None:
        self.driver, self.problems = driver, dict(problems)
        lines = [f"{option_name(driver, key, table)}: {problem}" for key, problem in self.problems.items()]
        super().__init__(f"Options of driver {driver!r} are wrong:\n  " + "\n  ".join(lines))


class DriverOptions(BaseModel):
    """The options of a driver.

    A subclass declares one field per option.

    Secrets are fields of type ``SecretStr``. Unknown options are rejected. In environment variables, lists and
    tables are written as JSON.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="wrap")
    @classmethod
    def _read_json(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            if not (isinstance(value, str) and value[:1] in ("[", "{")):
                raise
            try:
                read = json.loads(value)
            except ValueError:
                read = value
            return handler(read)


Options = TypeVar("Options", bound=DriverOptions)


def read_options(driver: str, model: type[Options], given: Mapping[str, Any], table: str = TABLE) -> Options:
    """Validate the options of a driver and return them as an object of ``model``.

    Args:
        driver: the driver's name, for errors.
        model: the class in which the driver declares its options.
        given: the values in the settings, by option, or by option with FILE_SUFFIX.
        table: the settings table that contains the options, for errors.

    Raises:
        WrongDriverOptions: an option is missing, unknown or malformed, given twice, or its file cannot be read.
    """
    problems: dict[str, str] = {}
    values: dict[str, Any] = {}
    for key, value in given.items():
        option = key.removesuffix(FILE_SUFFIX)
        if key in model.model_fields or option not in model.model_fields:
            values[key] = value
        elif option in given:
            problems[key] = f"{option} is given as well; remove one of the two"
        else:
            try:
                values[option] = Path(str(value)).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, ValueError) as error:
                problems[key] = f"the file cannot be read: {error}"
    try:
        options = model.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        options_of = [(".".join(map(str, problem["loc"])) or "options", problem["msg"]) for problem in found]
        problems = {**dict(options_of), **problems}
    if problems:
        unread = {key.removesuffix(FILE_SUFFIX) for key in problems if key.endswith(FILE_SUFFIX)}
        raise WrongDriverOptions(driver, {key: text for key, text in problems.items() if key not in unread}, table)
    return options


def variable_prefix(table: str) -> str:
    """Return the prefix of the environment variables for options of this settings table."""
    return f"BULKDEPLOY_{table.upper()}__"


def option_name(driver: str, key: str, table: str = TABLE) -> str:
    """Return an option's name in the settings file, followed by its environment variable in parentheses."""
    variable = variable_prefix(table) + f"{driver}__{key.replace('.', '__')}".upper()
    return f"{table}.{driver}.{key} ({variable})"
