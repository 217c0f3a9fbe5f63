"""List parameters whose entries are like calls, given as name-value pairs of CloudStack's maps or as JSON."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from bulkdeploy.declare.fields import FIELDS, LONGEST_KEY, WireField
from bulkdeploy.declare.parameters import Parameter
from bulkdeploy.domain.errors import InvalidParameter, MalformedMap

ENTRY = re.compile(r"[^\[\]]*\[([0-9]{1,6})\]\.(.+)")


class EntriesField(WireField):
    """A MAP whose entries are like calls, given as pairs or as a JSON list.

    JSON values are converted to the form that they have as pairs: lists are joined by commas, and objects, alone or
    in lists, become maps.
    """

    def _deserialize(self, value: Mapping[str, str], *_: Any, **__: Any) -> Any:
        name = self.parameter.name
        by_index: dict[int, dict[str, str]] = {}
        for key, text in value.items():
            if key.lower() == name:
                by_index |= self._read_json(text)
                continue
            match = ENTRY.fullmatch(self._printable(key))
            if match is None or len(match[2]) > LONGEST_KEY:
                raise MalformedMap(
                    name, f"{key[:80]} must be written as {name}[0].parameter, index from 0 to 999999"
                )
            by_index.setdefault(int(match[1]), {})[match[2]] = text
        least, most = self.parameter.minimum or 0, self.parameter.maximum
        if len(by_index) < least or (most is not None and len(by_index) > most):
            raise InvalidParameter(name, f"{len(by_index)} entries", f"there must be {least} to {most} entries")
        return {index: by_index[index] for index in sorted(by_index)}

    def _read_json(self, text: str) -> dict[int, dict[str, str]]:
        try:
            read = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise MalformedMap(self.parameter.name, f"it must be a JSON list of objects: {error}") from error
        if not isinstance(read, list):
            raise MalformedMap(self.parameter.name, "it must be a JSON list of objects")
        return {index: self._texts_of(index, entry) for index, entry in enumerate(read)}

    def _texts_of(self, index: int, entry: object) -> dict[str, str]:
        where = f"{self.parameter.name}[{index}]"
        if not isinstance(entry, dict):
            raise MalformedMap(where, "it must be a JSON object")
        texts: dict[str, str] = {}
        for field, value in entry.items():
            if isinstance(value, dict):
                value = [value]  # noqa: PLW2901 - one object is a map of one entry
            if isinstance(value, list) and any(isinstance(each, dict) for each in value):
                for number, each in enumerate(value):
                    if not isinstance(each, dict):
                        raise MalformedMap(f"{where}.{field}", "it must be a list of objects or of plain values")
                    for name, inner in each.items():
                        texts[f"{field}[{number}].{name}"] = self._text_of(
                            f"{where}.{field}[{number}].{name}", inner
                        )
            elif value is not None:
                texts[field] = self._text_of(f"{where}.{field}", value)
        return texts

    def _text_of(self, where: str, value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list):
            return ",".join(self._text_of(where, each) for each in value)
        if isinstance(value, dict):
            raise MalformedMap(where, "it must not be an object")
        return "" if value is None else str(value)


def field_of(command: str, parameter: Parameter) -> WireField:
    """Return the marshmallow field that converts a parameter of a command."""
    return EntriesField(command, parameter) if parameter.listed else FIELDS[parameter.type](command, parameter)
