"""The ``name=value`` words of a command line, checked against an API's declaration.

Obvious errors are reported before a request is sent: unknown parameters, values of the wrong type, and missing
required parameters.
"""

import base64
import binascii
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bulkdeploy.cli.concealment import is_secret, prompt_secret
from bulkdeploy.cli.connection.catalogue import GENERAL_PARAMETERS, Api, ApiParameter
from bulkdeploy.cli.failures import UsageError

WHOLE_NUMBERS = ("integer", "long", "short")
NUMBERS = ("float", "double")
FILTER = "filter"


@dataclass(slots=True)
class Arguments:
    """The parameters of a command line by their declared names, and the fields to show."""

    parameters: dict[str, str] = field(default_factory=dict)
    filter: tuple[str, ...] = ()


def read_arguments(api: Api, words: Sequence[str], *, send_unknown: bool = False) -> Arguments:
    """Return the arguments in ``words``.

    Values are not checked yet, because they can still contain names instead of ids.

    ``zone=X`` is read as ``zoneid=X``. The value ``@FILE`` is replaced by the text of the file. The value ``-`` of
    a secret prompts for the secret.

    Raises:
        UsageError: a word does not have the form ``name=value``, or the API has no parameter with this name.
    """
    arguments = Arguments()
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(
                f"{word!r} does not have the form name=value",
                hint=f"Parameters: bulkmonkey {api.verb} {api.noun} -h",
            )
        if name.lower() == FILTER and api.parameter(FILTER) is None:
            arguments.filter += tuple(part.strip() for part in value.split(",") if part.strip())
            continue
        sent_as = _sent_name(api, name, send_unknown)
        arguments.parameters[sent_as] = _sent_value(sent_as, value)
    return arguments


def check_values(api: Api, parameters: dict[str, str]) -> None:
    """Check the types of all values, and that no required parameter is missing.

    Raises:
        UsageError: a value does not match its type, or required parameters are missing.
    """
    for name, value in parameters.items():
        parameter = api.parameter(name)
        if parameter is not None:
            _check_type(parameter, value)
    missing = missing_parameters(api, parameters)
    if missing:
        names = ", ".join(parameter.name for parameter in missing)
        raise UsageError(
            f"{api.name} needs {names}", hint=f"See: bulkmonkey {' '.join((api.verb, api.noun)).strip()} -h"
        )


def missing_parameters(api: Api, given: "dict[str, str] | set[str]") -> list[ApiParameter]:
    """Return the required parameters that are not among the given names."""
    names = {name.lower().partition("[")[0] for name in given}
    return [parameter for parameter in api.parameters if parameter.required and parameter.name not in names]


def declared_parameter(api: Api, name: str) -> ApiParameter | None:
    """Return the parameter with a typed name, or with this name and ``id`` or ``ids``, or None if there is none.

    ``zone`` means ``zoneid``; ``network`` and ``networks`` mean ``networkids``.
    """
    lower = name.lower()
    candidates = [lower, f"{lower}id", f"{lower}ids"]
    if lower.endswith("s"):
        candidates.append(f"{lower[:-1]}ids")
    for position, candidate in enumerate(candidates):
        parameter = api.parameter(candidate)
        if parameter is not None and (position == 0 or parameter.names_entities):
            return parameter
    return None


def _sent_name(api: Api, name: str, send_unknown: bool) -> str:
    map_name, bracket, rest = name.partition("[")
    parameter = declared_parameter(api, map_name)
    if parameter is not None:
        return parameter.name + bracket + rest
    if name.lower() in GENERAL_PARAMETERS or send_unknown:
        return name
    close = difflib.get_close_matches(name.lower(), [known.name for known in api.parameters], n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else "--send-unknown sends it all the same"
    raise UsageError(f"{api.name} has no parameter {name!r}", hint=hint)


def _sent_value(name: str, value: str) -> str:
    if value == "-" and is_secret(name):
        return prompt_secret(name)
    if not value.startswith("@") or len(value) < 2:
        return value
    path = Path(value[1:]).expanduser()
    try:
        content = path.read_bytes()
        if name.lower() == "userdata":
            return content.decode().strip() if _is_base64(content) else base64.b64encode(content).decode()
        return content.decode().rstrip("\r\n") if is_secret(name) else content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path} for {name}: {error}") from error


def _is_base64(content: bytes) -> bool:
    """Return whether a file of user data is already encoded in base64.

    Scripts and cloud-configs are never valid base64.
    """
    try:
        return len(base64.b64decode(b"".join(content.split()), validate=True)) > 0
    except (binascii.Error, ValueError):
        return False


def _check_type(parameter: ApiParameter, value: str) -> None:
    if parameter.type in WHOLE_NUMBERS and not re.fullmatch(r"-?[0-9]+", value):
        raise UsageError(f"{parameter.name} must be a whole number, not {value!r}")
    if parameter.type in NUMBERS and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]+)?", value):
        raise UsageError(f"{parameter.name} must be a number, not {value!r}")
    if parameter.type == "boolean" and value.lower() not in ("true", "false"):
        # The API reads every other word as false, so dryrun=yes would deploy.
        raise UsageError(f"{parameter.name} must be true or false, not {value!r}")
