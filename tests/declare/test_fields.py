"""Wire types: what each of them reads, and what it refuses."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.declare.parameters import (
    Parameter,
    WireType,
    boolean,
    integer,
    long,
    mapping,
    string,
    strings,
    uuids,
)
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    InvalidParameter,
    MalformedMap,
    MalformedValue,
    UnknownEntity,
)
from tests.support.api.binding import ZONE, bind


@pytest.mark.parametrize(
    "text",
    [
        "1_000",
        "1.9",
        " 1",
        "1 ",
        "+1",
        "0x10",
        "\u0661\u0662",
        "\uff11",
        "9" * 40,
        "-9" * 20,
        "1e3",
        "--1",
        "NaN",
        "\x001",
    ],
)
@pytest.mark.parametrize("declare", [integer, long])
def test_numbers_are_read_strictly(declare: Any, text: str) -> None:
    """Whatever is not plain ASCII digits within the type's bits is refused with the parameter's name."""
    with pytest.raises(MalformedValue, match="for parameter amount"):
        bind([declare("amount", "how many")], {"amount": text})


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_32_bit_integer_is_read(number: int) -> None:
    """Each number an INTEGER can hold is bound as itself."""
    assert bind([integer("amount", "how many")], {"amount": str(number)}) == {"amount": number}


@pytest.mark.parametrize("number", [-(2**31) - 1, 2**31, 2**63])
def test_integers_end_at_32_bits(number: int) -> None:
    """A number that does not fit a Java int is refused, as typed clients could not have meant it."""
    with pytest.raises(MalformedValue):
        bind([integer("amount", "how many")], {"amount": str(number)})


def test_blank_numbers() -> None:
    """A blank integer or decimal counts as absent, a blank long is refused: CloudStack's rule."""
    decimal = Parameter("share", WireType.FLOAT, "a share")
    assert bind([integer("amount", "how many"), decimal], {"amount": "", "share": ""}) == {}
    with pytest.raises(MalformedValue):
        bind([long("amount", "how many")], {"amount": ""})


@pytest.mark.parametrize(("text", "rule"), [("0", "1 or more"), ("-5", "1 or more"), ("11", "10 or less")])
def test_bounds_name_the_rule(text: str, rule: str) -> None:
    """A number outside its declared bounds is refused with the bound."""
    with pytest.raises(InvalidParameter, match=rule):
        bind([integer("amount", "how many", minimum=1, maximum=10)], {"amount": text})


@pytest.mark.parametrize(("text", "value"), [("1.5", 1.5), ("-2", -2.0), ("0.25", 0.25)])
def test_decimals(text: str, value: float) -> None:
    """A FLOAT takes whole numbers and fractions."""
    assert bind([Parameter("share", WireType.FLOAT, "a share")], {"share": text}) == {"share": value}


@pytest.mark.parametrize("text", ["nan", "inf", "1e9", "1,5", ".5", "5.", "1_0.0"])
def test_decimals_are_read_strictly(text: str) -> None:
    """Neither exponents nor names of numbers nor half-written fractions are numbers."""
    with pytest.raises(MalformedValue):
        bind([Parameter("share", WireType.FLOAT, "a share")], {"share": text})


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("TRUE", True), ("1", False), ("yes", False), ("", False)]
)
def test_booleans_are_never_an_error(text: str, value: bool) -> None:
    """``true`` in any case is true, everything else is false."""
    assert bind([boolean("forced", "by force")], {"forced": text}) == {"forced": value}


def test_text_length() -> None:
    """A text may be as long as declared and not longer."""
    assert bind([string("name", "its name", length=5)], {"name": "äöü12"}) == {"name": "äöü12"}
    with pytest.raises(MalformedValue, match="max allowed length 5"):
        bind([string("name", "its name", length=5)], {"name": "äöü123"})


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f"])
@pytest.mark.parametrize("parameter", [string("tags", ""), strings("tags", "")])
def test_control_characters_are_refused(parameter: Parameter, character: str) -> None:
    """Texts that neither a database nor an XML answer can hold are refused."""
    with pytest.raises(MalformedValue, match="control characters"):
        bind([parameter], {"tags": f"a{character}b"})


def test_words_match_in_any_case() -> None:
    """A declared word is bound as it is declared, however it was written; others are named as wrong."""
    parameter = string("filter", "which", choices=("featured", "self"))
    assert bind([parameter], {"filter": "FEATURED"}) == {"filter": "featured"}
    assert bind([parameter], {"filter": ""}) == {}
    with pytest.raises(InvalidParameter, match="one of: featured, self"):
        bind([parameter], {"filter": "mine"})


def test_lists() -> None:
    """Elements are not trimmed, but for ids; empty ones are dropped, repeated ones count once."""
    assert bind([strings("names", "names")], {"names": ",a, b,,a,"}) == {"names": ("a", " b")}
    assert bind([strings("names", "names")], {"names": ",,"}) == {}
    ids = uuids("ids", Entity.ZONE, "zones")
    assert bind([ids], {"ids": f" {ZONE.uuid}, {ZONE.id},{ZONE.uuid} , "}) == {"ids": (ZONE,)}
    with pytest.raises(UnknownEntity):
        bind([ids], {"ids": f"{ZONE.uuid}\t"})
    numbers = Parameter("numbers", WireType.LIST, "numbers", element=WireType.LONG)
    assert bind([numbers], {"numbers": "3,1,2"}) == {"numbers": (3, 1, 2)}
    with pytest.raises(MalformedValue, match="invalid value  1 for parameter numbers"):
        bind([numbers], {"numbers": "3, 1"})


def test_maps() -> None:
    """Entries are grouped by index, names in any case, field names as written."""
    texts = {"Details[1].cpuNumber": "2", "details[0].key": "a", "DETAILS[0].value": "b", "details[1].memory": "4"}
    expected = ({"key": "a", "value": "b"}, {"cpuNumber": "2", "memory": "4"})
    assert bind([mapping("details", "details")], texts) == {"details": expected}


@pytest.mark.parametrize(
    "name",
    [
        "details",
        "details[x].key",
        "details[-1].key",
        "details[0]",
        "details[0].",
        "details[0][1].key",
        "details[",
        "details[1_0].a",
    ],
)
def test_malformed_maps(name: str) -> None:
    """An index or field that cannot be read is refused as malformed, naming what was sent."""
    with pytest.raises(MalformedMap, match="details"):
        bind([mapping("details", "details")], {name: "v"})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("startdate", "2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("enddate", "2026-01-31", datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)),
        ("enddate", "2026-01-31 10:11:12", datetime(2026, 1, 31, 10, 11, 12, tzinfo=UTC)),
        ("startdate", "2026-01-31T10:11:12+0530", datetime(2026, 1, 31, 4, 41, 12, tzinfo=UTC)),
        ("startdate", "2026-01-31T10:11:12Z", datetime(2026, 1, 31, 10, 11, 12, tzinfo=UTC)),
    ],
)
def test_dates(name: str, text: str, expected: datetime) -> None:
    """Days begin at midnight as start and last to their end as end; all are bound in UTC."""
    assert bind([Parameter(name, WireType.DATE, "when")], {name: text}) == {name: expected}


@pytest.mark.parametrize(
    "text",
    ["", "2026-02-30", "2026-1-1", "0000-01-01", "31.01.2026", "2026-01-31 25:00:00", "2026-01-31T10:11:12+9900"],
)
def test_dates_that_are_none(text: str) -> None:
    """What no calendar has is refused, with the forms that are accepted."""
    with pytest.raises(MalformedValue, match="yyyy-MM-dd"):
        bind([Parameter("startdate", WireType.DATE, "when")], {"startdate": text})
