"""Marshmallow fields of the wire types, which convert the text of a parameter to a value.

The rules are those of cloudstack-protocol.md 1.2, applied strictly: numbers are only ASCII digits (marshmallow's
own fields accept ``1_000``, `` 1``, ``1.9`` and digits of other scripts). A field raises the product's own error
for the first violated rule, with the parameter's name. ``marshmallow.missing`` represents a parameter that counts
as not given.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Any

from marshmallow import fields, missing

from bulkdeploy.declare.parameters import Parameter, WireType
from bulkdeploy.declare.value_rules import size_in
from bulkdeploy.domain.entities import EVERY_ID
from bulkdeploy.domain.errors import (
    EmptyParameter,
    InvalidParameter,
    MalformedMap,
    MalformedValue,
    MissingParameter,
    UnknownEntity,
)

BITS = {WireType.SHORT: 16, WireType.INTEGER: 32, WireType.LONG: 64}
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")
DECIMAL_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
UUID_SHAPE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
MAP_ENTRY = re.compile(r"[^\[\]]*\[([0-9]{1,6})\]\.([^\[\]]+)")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DAY_AND_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")
WITH_ZONE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:?[0-9]{2})"
)
LONGEST_KEY = 255
END_OF_DAY = time(23, 59, 59)


class WireField(fields.Field[Any]):
    """The base class of the marshmallow fields of declared parameters. Subclasses convert the text."""

    def __init__(self, command: str, parameter: Parameter) -> None:
        super().__init__(required=False)
        self.command, self.parameter = command, parameter

    def deserialize(
        self, value: Any, attr: str | None = None, data: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Any:
        """Return the value of the parameter, or ``missing`` if it was not given.

        Raises:
            MissingParameter, EmptyParameter: a required parameter is absent, or given without a value.
        """
        if value is missing:
            if self.parameter.required:
                raise MissingParameter(self.command, self.parameter.name)
            return missing
        if value == "" and self.parameter.required:
            raise EmptyParameter(self.parameter.name)
        return self._deserialize(value, attr, data, **kwargs)

    def _malformed(self, value: str, rule: str) -> MalformedValue:
        return MalformedValue(self.command, self.parameter.name, value, rule)

    def _printable(self, value: str) -> str:
        if UNPRINTABLE.search(value):
            raise self._malformed(UNPRINTABLE.sub("?", value), "it contains control characters (shown as ?)")
        return value


class StringField(WireField):
    """A text of limited length, restricted to the declared choices if there are any."""

    def _deserialize(self, value: str, *_: Any, **__: Any) -> Any:
        if self.parameter.choices and value == "":
            return missing
        return self.read(value)

    def read(self, value: str) -> str:
        """Return the text. If it is one of the declared choices in another case, return the declared spelling."""
        if len(value) > self.parameter.length:
            raise self._malformed(
                value,
                f"Value greater than max allowed length {self.parameter.length} for param: {self.parameter.name}",
            )
        self._printable(value)
        if not self.parameter.choices:
            return self._by_rule(value)
        for word in self.parameter.choices:
            if word.lower() == value.lower():
                return word
        raise InvalidParameter(
            self.parameter.name, value, f"it must be one of: {', '.join(self.parameter.choices)}"
        )

    def _by_rule(self, value: str) -> str:
        rule = self.parameter.rule
        if rule is None or (value == "" and self.parameter.clearable):
            return value
        kept = rule.read(value)
        if kept is None:
            raise InvalidParameter(self.parameter.name, rule.show(value), rule.must)
        return kept


class WholeNumberField(WireField):
    """The field of SHORT, INTEGER and LONG parameters: decimal digits. A blank INTEGER counts as not given."""

    def _deserialize(self, value: str, *_: Any, **__: Any) -> Any:
        if value == "" and self.parameter.type is WireType.INTEGER:
            return missing
        return self.read(value)

    def read(self, value: str) -> int:
        """Return the number if it is within its type and its bounds.

        A size such as ``512 GiB`` is converted to the unit.
        """
        if self.parameter.unit is not None and (size := size_in(value, self.parameter.unit)) is not None:
            value = str(size)
        limit = 2 ** (BITS[self.parameter.element or self.parameter.type] - 1)
        if not WHOLE_NUMBER.fullmatch(value) or not -limit <= int(value) < limit:
            raise self._malformed(value, f"it must be a whole number from {-limit} to {limit - 1}")
        return int(_within_bounds(self.parameter, int(value)))


class DecimalField(WireField):
    """The field of FLOAT parameters: digits with or without a fraction. A blank value counts as not given."""

    def _deserialize(self, value: str, *_: Any, **__: Any) -> Any:
        if value == "":
            return missing
        if not DECIMAL_NUMBER.fullmatch(value):
            raise self._malformed(value, "it must be a number such as 2 or 1.5")
        return _within_bounds(self.parameter, float(value))


class BooleanField(WireField):
    """The field of booleans: ``true`` in any case is true; other texts are false unless there are ``choices``."""

    def _deserialize(self, value: str, *_: Any, **__: Any) -> Any:
        words = self.parameter.choices
        if words and value == "":
            return missing
        if words and value.lower() not in words:
            raise InvalidParameter(self.parameter.name, value, f"it must be one of: {', '.join(words)}")
        return value.lower() == "true"


class DateField(WireField):
    """The field of DATE and TZDATE parameters.

    A text without a time zone is in UTC, unless the parameter is local. A date without a time in ``enddate`` means
    the end of the day.
    """

    def _deserialize(self, value: str, *_: Any, **__: Any) -> datetime:
        try:
            if self.parameter.type is WireType.DATE:
                zone = None if self.parameter.local else UTC
                if DAY.fullmatch(value):
                    of_day = END_OF_DAY if self.parameter.name == "enddate" else time()
                    return datetime.combine(datetime.fromisoformat(value), of_day, zone)
                if DAY_AND_TIME.fullmatch(value):
                    return datetime.fromisoformat(value).replace(tzinfo=zone)
            if WITH_ZONE.fullmatch(value):
                return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # the format is valid, but the day, hour or time zone is not; rejected below
        days = "yyyy-MM-dd, yyyy-MM-dd HH:mm:ss or " if self.parameter.type is WireType.DATE else ""
        raise self._malformed(value, f"Unable to parse date: it must look like {days}yyyy-MM-ddTHH:mm:ss+0000")


class IdField(WireField):
    """The text of a UUID. Only its shape is checked; ``declare.binding`` looks up the entity."""

    def _deserialize(self, value: str, *_: Any, **__: Any) -> Any:
        if value == "" or self._is_old_style(value):
            return missing
        return self.read(value)

    def _is_old_style(self, value: str) -> bool:
        """Return whether to ignore a value that is not a UUID.

        CloudStack accepts only UUIDs for parameters that were added later, and ignores other values.
        """
        optional_later = self.parameter.since is not None and not self.parameter.required
        return optional_later and not UUID_SHAPE.fullmatch(value) and value != str(EVERY_ID)

    def read(self, value: str) -> str:
        """Return the text of the id, after checking that it has the form of a uuid or of a positive internal id."""
        if UUID_SHAPE.fullmatch(value):
            return value
        if WHOLE_NUMBER.fullmatch(value) and 0 < int(value) < 2**63:
            return value
        if value == str(EVERY_ID) and self.parameter.takes_all:
            return value
        raise UnknownEntity(self.command, self.parameter.name, value)


ELEMENTS: Mapping[WireType, type[StringField | WholeNumberField | IdField]] = {
    WireType.STRING: StringField,
    WireType.SHORT: WholeNumberField,
    WireType.INTEGER: WholeNumberField,
    WireType.LONG: WholeNumberField,
    WireType.UUID: IdField,
}


class ListField(WireField):
    """A comma-separated list without empty and repeated elements.

    Spaces around ids are removed, because clients join lists with ``, ``. Texts are not changed.
    """

    def __init__(self, command: str, parameter: Parameter) -> None:
        super().__init__(command, parameter)
        self._element = ELEMENTS[parameter.element or WireType.STRING](command, parameter)

    def _deserialize(self, value: str, *_: Any, **__: Any) -> Any:
        parts = value.split(",")
        if self.parameter.element is WireType.UUID:
            parts = [part.strip(" ") for part in parts]
        elements = dict.fromkeys(self._element.read(part) for part in parts if part)
        if not elements and self.parameter.required:
            raise EmptyParameter(self.parameter.name)
        return tuple(elements)


class MapField(WireField):
    """Pairs of the form ``name[0].field=value``, read as one dict per index.

    Declared fields match in any case. Fields that are declared as ids must have the shape of an id.
    """

    def __init__(self, command: str, parameter: Parameter) -> None:
        super().__init__(command, parameter)
        self._declared, self._id = dict(parameter.fields), IdField(command, parameter)

    def _deserialize(self, value: Mapping[str, str], *_: Any, **__: Any) -> Any:
        by_index: dict[int, dict[str, str]] = {}
        for key, text in value.items():
            match = MAP_ENTRY.fullmatch(self._printable(key))
            if match is None or len(match[2]) > LONGEST_KEY:
                raise MalformedMap(
                    self.parameter.name,
                    f"{key[:80]} must be written as {self.parameter.name}[0].field: an index from 0 to 999999, "
                    f"a field of 1 to {LONGEST_KEY} characters",
                )
            field, read = self._field(key, match[2], text)
            by_index.setdefault(int(match[1]), {})[field] = read
        return tuple(by_index[index] for index in sorted(by_index))

    def _field(self, key: str, field: str, text: str) -> tuple[str, str]:
        if not self._declared:
            return field, self._printable(text)
        name = field.lower()
        if name not in self._declared:
            raise InvalidParameter(key[:80], text[:80], f"its fields must be among {', '.join(self._declared)}")
        return name, self._printable(text) if self._declared[name] is None else self._id.read(text)


FIELDS: Mapping[WireType, type[WireField]] = {
    WireType.STRING: StringField,
    WireType.SHORT: WholeNumberField,
    WireType.INTEGER: WholeNumberField,
    WireType.LONG: WholeNumberField,
    WireType.FLOAT: DecimalField,
    WireType.BOOLEAN: BooleanField,
    WireType.UUID: IdField,
    WireType.LIST: ListField,
    WireType.MAP: MapField,
    WireType.DATE: DateField,
    WireType.TZDATE: DateField,
}


def _within_bounds(parameter: Parameter, number: float) -> float:
    low, high = parameter.minimum, parameter.maximum
    if low is not None and number < low:
        upper = "" if high is None else f" and not more than {high}"
        raise InvalidParameter(parameter.name, number, f"it must be {low} or more{upper}")
    if high is not None and number > high:
        raise InvalidParameter(parameter.name, number, f"it must be {high} or less")
    return number
