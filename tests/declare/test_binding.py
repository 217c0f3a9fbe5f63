"""Binding: ids, the order in which rules answer, rules between parameters, roles."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.declare.binding import Binder, everything
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
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import (
    EmptyParameter,
    InvalidCombination,
    InvalidParameter,
    MalformedValue,
    MissingParameter,
    ParameterError,
    UnknownEntity,
)
from tests.support.api.binding import POD, ZONE, Catalogue, bind


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
        f"value={text} due to incorrect long value format, or entity does not exist or due to incorrect "
        "parameter annotation for the field in api cmd class."
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
    assert bind([uuids("zoneids", Entity.ZONE, "zones")], {"zoneids": " 7, 8"}) == {"zoneids": (ZONE, POD)}


def test_an_empty_list() -> None:
    """It is a list without elements for a command that changes things, and filters nothing for one that reads."""
    parameters = (uuids("zoneids", Entity.ZONE, "zones"), strings("names", "names"))
    rules = (Exclusive(("zoneids", "names")),)
    given_texts = {"zoneids": ",", "names": ""}
    assert bind(parameters, given_texts, rules) == {}
    command = Command("", "", lambda _: None, Shape.SUCCESS, parameters=parameters, rules=rules, changes_state=True)
    bound = Binder(command).bind(given_texts, RoleType.USER, Catalogue())
    assert bound == {"zoneids": (), "names": ()}


def test_every_project() -> None:
    """``-1`` passes where a project may be named, and is not looked up."""
    catalogue = Catalogue()
    parameters = (uuid("projectid", Entity.PROJECT, "the project"),)
    command = Command("makeThing", "", lambda _: None, Shape.SUCCESS, parameters=parameters)
    bound = Binder(command).bind({"projectid": "-1"}, RoleType.USER, catalogue)
    assert bound == {"projectid": everything(Entity.PROJECT)}
    assert catalogue.requested == [{}]


def test_static_checks_come_before_any_look_up() -> None:
    """A wrong number in the last parameter answers before the first parameter's id is looked up."""
    catalogue = Catalogue()
    parameters = (uuid("zoneid", Entity.ZONE, ""), uuid("podid", Entity.POD, ""), integer("amount", "how many"))
    command = Command("makeThing", "", lambda _: None, Shape.SUCCESS, parameters=parameters)
    texts = {"zoneid": "99", "podid": str(POD.uuid), "amount": "many"}
    with pytest.raises(MalformedValue):
        Binder(command).bind(texts, RoleType.ADMIN, catalogue)
    assert catalogue.requested == []


def test_one_look_up_for_all_ids() -> None:
    """All ids of a call are looked up in one go, each text once per kind."""
    catalogue = Catalogue()
    parameters = (uuid("zoneid", Entity.ZONE, ""), uuids("zoneids", Entity.ZONE, ""), uuid("podid", Entity.POD, ""))
    command = Command("makeThing", "", lambda _: None, Shape.SUCCESS, parameters=parameters)
    Binder(command).bind({"zoneid": "7", "zoneids": "7", "podid": "8"}, RoleType.ADMIN, catalogue)
    assert catalogue.requested == [{(Entity.ZONE,): ("7",), (Entity.POD,): ("8",)}]


def test_first_broken_rule_in_declared_order_answers() -> None:
    """Of two mistakes the one in the earlier declared parameter is named."""
    parameters = [string("name", "", required=True), integer("amount", "")]
    with pytest.raises(MissingParameter, match="missing parameter name"):
        bind(parameters, {"amount": "x"})
    with pytest.raises(EmptyParameter, match="name"):
        bind(parameters, {"amount": "x", "name": ""})


def test_an_unsupported_parameter_answers_before_a_missing_one() -> None:
    """Forms of CloudStack's UI leave out what the unsupported parameter replaces: the caller must read its name."""
    command = Command(
        "makeThing",
        "",
        lambda _: None,
        Shape.SUCCESS,
        parameters=(string("size", "", required=True),),
        unsupported={"snapshotid": "things are not made from snapshots"},
    )
    with pytest.raises(InvalidParameter, match="things are not made from snapshots"):
        Binder(command).bind({"snapshotid": "7"}, RoleType.ADMIN, Catalogue())
    with pytest.raises(MissingParameter, match="missing parameter size"):
        Binder(command).bind({"snapshotid": ""}, RoleType.ADMIN, Catalogue())


def test_unknown_parameters_are_ignored() -> None:
    """What is not declared does no harm, whatever it is called."""
    assert bind([string("name", "")], {"Name": "n", "filter": "x", "name[0].x": "y", "[": "z", "": ""}) == {
        "name": "n"
    }


def test_first_of_two_spellings_counts() -> None:
    """A parameter that was sent in two spellings has the value of the first."""
    assert bind([string("name", "")], {"NAME": "a", "name": "b"}) == {"name": "a"}


def test_two_names_of_one_parameter_must_not_differ() -> None:
    """A parameter with another spelling is given under either; under both, only where they say the same."""
    parameter = Parameter("disk", WireType.STRING, "", spellings=("diwsk",))
    assert bind([parameter], {"diwsk": "a"}) == bind([parameter], {"disk": "a", "DIWSK": "a"}) == {"disk": "a"}
    with pytest.raises(InvalidCombination, match="'diwsk' and 'disk' are names of the same parameter"):
        bind([parameter], {"diwsk": "a", "disk": "b"})


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
        (Needs("a", "b"), {"a": "1"}, "'a' parameter requires 'b'"),
        (ExactlyOne(("a", "b")), {}, "One of these parameters must be given: a, b"),
        (ExactlyOne(("a", "b")), {"a": "1", "b": "2"}, "mutually exclusive"),
    ],
)
def test_rules_between_parameters(rule: Rule, texts: dict[str, str], said: str) -> None:
    """Combinations that the command forbids are refused with the names involved."""
    with pytest.raises(InvalidCombination, match=said):
        bind([string("a", ""), string("b", "")], texts, (rule,))


@pytest.mark.parametrize("other", [{}, {"dryrun": "false"}])
def test_a_flag_that_is_false_counts_as_not_given(other: dict[str, str]) -> None:
    """Only a dry run has a summary: a call that forgets or denies ``dryrun`` does not do its work instead."""
    parameters, rules = [boolean("dryrun", ""), boolean("summary", "")], (Needs("summary", "dryrun"),)
    with pytest.raises(InvalidCombination, match="'summary' parameter requires 'dryrun'"):
        bind(parameters, {"summary": "true", **other}, rules)
    assert bind(parameters, {"summary": "false", **other}, rules)["summary"] is False
    assert bind(parameters, {"summary": "true", "dryrun": "true"}, rules) == {"summary": True, "dryrun": True}


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
