"""The options that drivers declare, read from settings. Secrets can also be read from files.

``[driver.NAME]`` in the TOML file has one key per option; ``BULKDEPLOY_DRIVER__NAME__KEY`` in the environment wins.
``KEY_file`` instead of ``KEY`` names a file that holds the value, as secrets mounted into containers do.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidatorFunctionWrapHandler, field_validator

TABLE = "driver"
FILE_SUFFIX = "_file"


class DriverSettingError(Exception):
    """A setting of drivers is wrong or missing; the text names it."""


class WrongDriverOptions(DriverSettingError):
    """Options that the driver's model refuses: one problem per option, without the values."""

    def __init__(self, driver: str, problems: Mapping[str, str], table: str = TABLE) -> None:
        self.driver, self.problems = driver, dict(problems)
        lines = [f"{option_name(driver, key, table)}: {problem}" for key, problem in self.problems.items()]
        super().__init__(f"Options of driver {driver!r} are wrong:\n  " + "\n  ".join(lines))


class DriverOptions(BaseModel):
    """The options of a driver: a subclass declares one field per option.

    Secrets are fields of type ``SecretStr``. Unknown options are refused. In the environment lists and tables are
    written as JSON.
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
    """Return a driver's options.

    Args:
        driver: the driver's name, for errors.
        model: what it declares.
        given: values as the settings have them, by option, or by option with FILE_SUFFIX.
        table: the table of the settings that has them, for errors.

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
            problems[key] = f"{option} is given as well; one of the two must go"
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
    """Return how the names of environment variables begin that have options of this table of the settings."""
    return f"BULKDEPLOY_{table.upper()}__"


def option_name(driver: str, key: str, table: str = TABLE) -> str:
    """Return the names of an option in the file and in the environment."""
    variable = variable_prefix(table) + f"{driver}__{key.replace('.', '__')}".upper()
    return f"{table}.{driver}.{key} ({variable})"
