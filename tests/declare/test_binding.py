"""Binding: each wire type's rules, the order in which rules answer, and ids that are looked up last."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.declare.binding import EVERY_PROJECT, Binder, Kinds
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import (
    ExactlyOne,
    Exclusive,
    Needs,
    Parameter,
    Rule,
    WireType,
    boolean,
    integer,
    long,
    mapping,
    string,
    strings,
    uuid,
    uuids,
)
from bulkdeploy.declare.responses import Shape
from bulkdeploy.domain.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.domain.errors import (
    EmptyParameter,
    InvalidCombination,
    InvalidParameter,
    MalformedMap,
    MalformedValue,
    MissingParameter,
    ParameterError,
    UnknownEntity,
)

ZONE = EntityRef(Entity.ZONE, 7, UUID("11111111-2222-3333-4444-555555555555"), "zone-1")
POD = EntityRef(Entity.POD, 8, UUID("11111111-2222-3333-4444-666666666666"), "pod-1")
KNOWN = {str(ref.uuid): ref for ref in (ZONE, POD)} | {"7": ZONE, "8": POD}


class Catalogue:
    """A look-up that remembers whether it was asked."""

    def __init__(self) -> None:
        self.asked: list[Mapping[Kinds, Sequence[str]]] = []

    def __call__(self, wanted: Mapping[Kinds, Sequence[str]]) -> dict[Kinds, dict[str, EntityRef]]:
        """What is known of the ids wanted."""
        self.asked.append(wanted)
        return {
            kinds: {text: KNOWN[text.lower()] for text in texts if text.lower() in KNOWN}
            for kinds, texts in wanted.items()
        }


def bind(
    parameters: Sequence[Parameter],
    given_texts: Mapping[str, str],
    rules: tuple[Rule, ...] = (),
    role: RoleType | None = RoleType.ADMIN,
) -> dict[str, Any]:
    """Bind a request to a command of these parameters and rules."""
    command = Command(
        "makeThing", "makes a thing", lambda _: None, Shape.SUCCESS, parameters=tuple(parameters), rules=rules
    )
    return Binder(command).bind(given_texts, role, Catalogue())


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
    """Elements are not trimmed, empty ones are dropped, repeated ones count once."""
    assert bind([strings("names", "names")], {"names": ",a, b,,a,"}) == {"names": ("a", " b")}
    assert bind([strings("names", "names")], {"names": ",,"}) == {}
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


@pytest.mark.parametrize("text", [str(ZONE.uuid), str(ZONE.uuid).upper(), "7"])
def test_ids(text: str) -> None:
    """An id is bound to what it names, by its uuid in any case or by its internal number."""
    assert bind([uuid("zoneid", Entity.ZONE, "the zone")], {"zoneId": text}) == {"zoneid": ZONE}


@pytest.mark.parametrize(
    "text", ["0", "-1", "9" * 30, "x", " 7", "99", "11111111-2222-3333-4444-99999999999", str(UUID(int=5))]
)
def test_unknown_ids_answer_to_the_letter(text: str) -> None:
    """Clients compare this text: it names command, parameter and value as sent."""
    with pytest.raises(UnknownEntity) as caught:
        bind([uuid("zoneid", Entity.ZONE, "the zone")], {"zoneid": text})
    assert str(caught.value) == (
        "Unable to execute API command makething due to invalid value. Invalid parameter zoneid "
        f"value={text} due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the "
        "field in api cmd class."
    )


def test_ids_of_later_parameters() -> None:
    """A parameter with ``since`` takes uuids only and ignores what is shaped otherwise."""
    parameter = uuid("zoneid", Entity.ZONE, "the zone", since="4.20")
    assert bind([parameter], {"zoneid": "7"}) == {}
    assert bind([parameter], {"zoneid": str(ZONE.uuid)}) == {"zoneid": ZONE}


def test_lists_of_ids() -> None:
    """Ids keep their order, and one thing named twice, even in two ways, counts once."""
    texts = {"zoneids": f"{ZONE.uuid},7,{ZONE.uuid}"}
    assert bind([uuids("zoneids", Entity.ZONE, "zones")], texts) == {"zoneids": (ZONE,)}
    with pytest.raises(UnknownEntity, match="value= 7 "):
        bind([uuids("zoneids", Entity.ZONE, "zones")], {"zoneids": "7, 7"})


def test_every_project() -> None:
    """``-1`` passes where a project may be named, and is not looked up."""
    assert bind([uuid("projectid", Entity.PROJECT, "the project")], {"projectid": "-1"}) == {
        "projectid": EVERY_PROJECT
    }


def test_static_checks_come_before_any_look_up() -> None:
    """A wrong number in the last parameter answers before the first parameter's id is looked up."""
    catalogue = Catalogue()
    parameters = (uuid("zoneid", Entity.ZONE, ""), uuid("podid", Entity.POD, ""), integer("amount", "how many"))
    command = Command("makeThing", "", lambda _: None, Shape.SUCCESS, parameters=parameters)
    texts = {"zoneid": "99", "podid": str(POD.uuid), "amount": "many"}
    with pytest.raises(MalformedValue):
        Binder(command).bind(texts, RoleType.ADMIN, catalogue)
    assert catalogue.asked == []


def test_one_look_up_for_all_ids() -> None:
    """All ids of a call are looked up in one go, each text once per kind."""
    catalogue = Catalogue()
    parameters = (uuid("zoneid", Entity.ZONE, ""), uuids("zoneids", Entity.ZONE, ""), uuid("podid", Entity.POD, ""))
    command = Command("makeThing", "", lambda _: None, Shape.SUCCESS, parameters=parameters)
    Binder(command).bind({"zoneid": "7", "zoneids": "7", "podid": "8"}, RoleType.ADMIN, catalogue)
    assert catalogue.asked == [{(Entity.ZONE,): ("7",), (Entity.POD,): ("8",)}]


def test_first_broken_rule_in_declared_order_answers() -> None:
    """Of two mistakes the one in the earlier declared parameter is named."""
    parameters = [string("name", "", required=True), integer("amount", "")]
    with pytest.raises(MissingParameter, match="missing parameter name"):
        bind(parameters, {"amount": "x"})
    with pytest.raises(EmptyParameter, match="name"):
        bind(parameters, {"amount": "x", "name": ""})


def test_unknown_parameters_are_ignored() -> None:
    """What is not declared does no harm, whatever it is called."""
    assert bind([string("name", "")], {"Name": "n", "filter": "x", "name[0].x": "y", "[": "z", "": ""}) == {
        "name": "n"
    }


def test_first_of_two_spellings_counts() -> None:
    """A parameter that was sent in two spellings has the value of the first."""
    assert bind([string("name", "")], {"NAME": "a", "name": "b"}) == {"name": "a"}


def test_parameters_of_other_roles_are_ignored() -> None:
    """Who may not set a parameter is answered as if it were not there, even if its value is wrong."""
    parameter = uuid("hostid", Entity.HOST, "the host", roles=ROOT_ADMIN_ONLY)
    assert bind([parameter], {"hostid": "garbage"}, role=RoleType.USER) == {}
    assert bind([parameter], {"hostid": "garbage"}, role=None) == {}
    with pytest.raises(UnknownEntity):
        bind([parameter], {"hostid": "garbage"}, role=RoleType.ADMIN)


@pytest.mark.parametrize(
    ("rule", "texts", "said"),
    [
        (Exclusive(("a", "b")), {"a": "1", "b": "2"}, "'a' parameter is mutually exclusive with 'b' parameter"),
        (Needs("a", "b"), {"a": "1"}, "'a' parameter needs 'b' beside it"),
        (ExactlyOne(("a", "b")), {}, "One of these parameters should be given: a, b"),
        (ExactlyOne(("a", "b")), {"a": "1", "b": "2"}, "mutually exclusive"),
    ],
)
def test_rules_between_parameters(rule: Rule, texts: dict[str, str], said: str) -> None:
    """Combinations that the command forbids are refused with the names involved."""
    with pytest.raises(InvalidCombination, match=said):
        bind([string("a", ""), string("b", "")], texts, (rule,))


@pytest.mark.parametrize("texts", [{}, {"a": "1"}, {"b": "1"}])
def test_allowed_combinations(texts: dict[str, str]) -> None:
    """What no rule forbids is bound."""
    assert bind([string("a", ""), string("b", "")], texts, (Exclusive(("a", "b")), Needs("c", "a"))) == texts


EVERYTHING = (
    string("text", "", choices=("one", "two")),
    string("name", ""),
    strings("names", ""),
    integer("integer", "", minimum=0),
    long("long", ""),
    Parameter("short", WireType.SHORT, ""),
    Parameter("float", WireType.FLOAT, ""),
    boolean("boolean", ""),
    mapping("map", ""),
    Parameter("date", WireType.DATE, ""),
    Parameter("tzdate", WireType.TZDATE, ""),
    uuid("projectid", Entity.PROJECT, ""),
    uuids("zoneids", Entity.ZONE, ""),
    Parameter("numbers", WireType.LIST, "", element=WireType.INTEGER),
)
KEYS = st.sampled_from([parameter.name for parameter in EVERYTHING]) | st.text(max_size=12).map(
    lambda end: f"map[{end}"
)


@given(st.dictionaries(KEYS, st.text(max_size=30), max_size=6))
def test_any_text_is_bound_or_refused(texts: dict[str, str]) -> None:
    """No text in any parameter leads to anything but values of the declared types or a parameter error."""
    try:
        arguments = bind(EVERYTHING, texts)
    except ParameterError:
        return
    assert arguments.keys() <= {parameter.name for parameter in EVERYTHING}
    assert None not in arguments.values()
