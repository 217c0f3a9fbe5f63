"""Custom actions of extensions: the parameters that an action declares, and the values that a call gives for them.

The rules are those of CloudStack 4.21 and 4.22 (``ExtensionCustomAction.Parameter``). A declared parameter is
stored in the form in which ``listCustomActions`` returns it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from bulkdeploy.domain.errors import InvalidParameter

NAME = re.compile(r"[a-zA-Z0-9 _-]{1,255}", re.ASCII)
BUILT_IN = frozenset(
    {"prepare", "create", "start", "stop", "reboot", "delete", "status", "statuses", "activity", "getconsole"}
)
"""Actions that every extension has. No custom action has their names: they change where a guest runs."""

RESOURCE_TYPE = "VirtualMachine"
PARAMETERS = "parameters"
WHOLE, DECIMAL = (
    re.compile(r"[+-]?[0-9]{1,10}", re.ASCII),
    re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?", re.ASCII),
)
MOST_WHOLE = 1 << 31
EMAIL = re.compile(r"[A-Za-z0-9+_.-]+@[A-Za-z0-9.-]+", re.ASCII)
SCHEMES = frozenset({"http", "https", "ftp", "file", "jar"})
DATE = "%Y-%m-%dT%H:%M:%S%z"
TRUTHS: Mapping[str, bool] = {"true": True, "false": False}


class ValueType(StrEnum):
    """Types of values. STRING and NUMBER may be restricted to options."""

    STRING = "STRING"
    NUMBER = "NUMBER"
    BOOLEAN = "BOOLEAN"
    DATE = "DATE"


class ValueFormat(StrEnum):
    """An additional format of a parameter's value. DECIMAL applies to type NUMBER, all others to type STRING."""

    NONE = "NONE"
    UUID = "UUID"
    EMAIL = "EMAIL"
    PASSWORD = "PASSWORD"  # noqa: S105 - a format
    URL = "URL"
    DECIMAL = "DECIMAL"


def declared_parameters(given: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the parameters that a call declares for an action, in the form of ``listCustomActions``.

    Raises:
        InvalidParameter: an entry violates a rule, or two entries have the same name.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in given:
        declared = _declared(entry)
        if declared["name"] in found:
            raise InvalidParameter(PARAMETERS, declared["name"], "a parameter of this name is declared twice")
        found[declared["name"]] = declared
    return list(found.values())


def _declared(entry: Mapping[str, str]) -> dict[str, Any]:
    name = entry.get("name", "").strip()
    if not name:
        raise InvalidParameter(PARAMETERS, entry.get("name", ""), "each parameter must have a name")
    value_type = _member(ValueType, entry.get("type") or ValueType.STRING, f"the type of {name}")
    value_format = _member(ValueFormat, entry.get("validationformat") or ValueFormat.NONE, f"the format of {name}")
    of_type = ValueType.NUMBER if value_format is ValueFormat.DECIMAL else ValueType.STRING
    if value_format is not ValueFormat.NONE and of_type is not value_type:
        rule = f"validationformat of {name} must be NONE: {value_format} is of type {of_type}, not {value_type}"
        raise InvalidParameter(PARAMETERS, str(value_format), rule)
    declared: dict[str, Any] = {
        "name": name,
        "type": value_type.value,
        "validationformat": value_format.value,
        "required": entry.get("required", "").lower() == "true",
    }
    options = [option for one in entry.get("valueoptions", "").split(",") if (option := one.strip())]
    if options and value_type not in (ValueType.STRING, ValueType.NUMBER):
        rule = f"valueoptions of {name} must be absent: values of type {value_type} have no options"
        raise InvalidParameter(PARAMETERS, ",".join(options), rule)
    return declared | ({"valueoptions": [_value(declared, option) for option in options]} if options else {})


def _member(kind: type[StrEnum], written: str, what: str) -> Any:
    try:
        return kind(written.strip().upper())
    except ValueError:
        raise InvalidParameter(PARAMETERS, written, f"{what} must be one of {', '.join(kind)}") from None


def checked_values(declared: Iterable[Mapping[str, Any]], given: Mapping[str, str]) -> dict[str, Any]:
    """Convert the values that a call gives for an action to the JSON types that the extension gets.

    Values without a declared parameter remain texts. An action without parameters gets no values at all.

    Raises:
        InvalidParameter: a required value is missing or empty, or a value violates the rules of its parameter.
    """
    by_name = {parameter["name"]: parameter for parameter in declared}
    if not by_name:
        return {}
    for name, parameter in by_name.items():
        if parameter["required"] and not given.get(name, "").strip():
            raise InvalidParameter(PARAMETERS, name, "the action requires a value for this parameter")
    return {name: _value(by_name[name], value) if name in by_name else value for name, value in given.items()}


def _value(parameter: Mapping[str, Any], written: str) -> Any:
    """Convert a value to its JSON type. Errors do not contain values of passwords."""
    shown = "***" if parameter["validationformat"] == ValueFormat.PASSWORD else written
    read, must = _READERS[ValueType(parameter["type"]), ValueFormat(parameter["validationformat"])]
    value = read(written) if written.strip() else None
    if value is None:
        raise InvalidParameter(PARAMETERS, shown, f"{parameter['name']} must be {must}")
    options = parameter.get("valueoptions")
    if options and value not in options:
        rule = f"{parameter['name']} must be one of {', '.join(map(str, options))}"
        raise InvalidParameter(PARAMETERS, shown, rule)
    return value


def _whole_number(written: str) -> int | None:
    number = int(written) if WHOLE.fullmatch(written) else MOST_WHOLE
    return number if -MOST_WHOLE <= number < MOST_WHOLE else None


def _uuid(written: str) -> str | None:
    try:
        UUID(written)
    except ValueError:
        return None
    return written


def _url(written: str) -> str | None:
    try:
        return written if urlsplit(written).scheme.lower() in SCHEMES else None
    except ValueError:
        return None


def _date(written: str) -> str | None:
    try:
        return datetime.strptime(written, DATE).strftime(DATE)  # noqa: DTZ007 - DATE ends in %z
    except ValueError:
        return None


_READERS: Mapping[tuple[ValueType, ValueFormat], tuple[Callable[[str], Any], str]] = {
    (ValueType.STRING, ValueFormat.NONE): (str, "a text that is not empty"),
    (ValueType.STRING, ValueFormat.UUID): (_uuid, "a UUID"),
    (ValueType.STRING, ValueFormat.EMAIL): (
        lambda written: written if EMAIL.fullmatch(written) else None,
        "an e-mail address",
    ),
    (ValueType.STRING, ValueFormat.PASSWORD): (str, "a password that is not empty"),
    (ValueType.STRING, ValueFormat.URL): (_url, f"a URL whose scheme is one of {', '.join(sorted(SCHEMES))}"),
    (ValueType.NUMBER, ValueFormat.NONE): (_whole_number, "a whole number of at most 32 bits"),
    (ValueType.NUMBER, ValueFormat.DECIMAL): (
        lambda written: float(written) if DECIMAL.fullmatch(written) else None,
        "a decimal number",
    ),
    (ValueType.BOOLEAN, ValueFormat.NONE): (TRUTHS.get, "true or false"),
    (ValueType.DATE, ValueFormat.NONE): (_date, "a date such as 2026-01-31T12:00:00+0000"),
}
"""How a text is read by type and format, with the rule in words. None: the text breaks the rule."""


def message_of(template: str | None, default: str, names: Mapping[str, str]) -> str:
    """Return the message for the end of an action, with placeholders such as ``{{actionName}}`` replaced."""
    if not template or not template.strip():
        return default
    for name, value in names.items():
        template = template.replace("{{" + name + "}}", value)
    return template
