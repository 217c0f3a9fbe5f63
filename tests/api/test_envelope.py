"""Answers: envelopes and objects, in JSON and XML."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.api.envelope import Renderer, UndeclaredField, answer, refusal
from bulkdeploy.api.xml import to_xml
from bulkdeploy.declare.command import Command, Instead, JobTicket, SuccessText
from bulkdeploy.declare.response_fields import (
    flag,
    fraction,
    large_number,
    moment,
    number,
    objects,
    text,
    text_map,
    texts,
)
from bulkdeploy.declare.responses import Field, FieldType, Response, Shape
from bulkdeploy.domain.accounts.accounts import ROOT_ADMIN_ONLY, RoleType
from bulkdeploy.domain.infrastructure.topology import HostState
from bulkdeploy.store.rows.listing import Page

FIELDS = (
    text("id", ""),
    number("cpunumber", ""),
    large_number("size", ""),
    fraction("share", ""),
    flag("ready", ""),
    moment("created", ""),
    texts("names", ""),
    text_map("details", ""),
    objects("nic", "", (text("id", ""), flag("isdefault", ""))),
    Field("result", FieldType.OBJECT, ""),
    text("hostid", "", ROOT_ADMIN_ONLY),
)


def command(shape: Shape, name: str = "listThings", fields: tuple[Field, ...] = FIELDS) -> Command:
    """A command that answers things."""
    return Command(name, "", lambda _: None, shape, Response("thing", fields))


def content(
    shape: Shape, result: Any, role: RoleType | None = RoleType.ADMIN, *, strict: bool = True
) -> dict[str, Any]:
    """What stands in the envelope."""
    return Renderer(command(shape), refuse_undeclared_fields=strict).content(result, role)


def test_lists() -> None:
    """A list has the count over all pages and one array under the object's key."""
    assert content(Shape.LIST, Page([{"id": "a"}, {"id": "b"}], 7)) == {
        "count": 7,
        "thing": [{"id": "a"}, {"id": "b"}],
    }


def test_nothing_found_is_an_empty_object() -> None:
    """Clients break on a bare count of 0."""
    assert content(Shape.LIST, Page([], 0)) == {}


def test_a_page_past_the_end_has_a_count_only() -> None:
    """Whoever pages too far still learns how many there are."""
    assert content(Shape.LIST, Page([], 2)) == {"count": 2}


@pytest.mark.parametrize(
    ("shape", "result", "expected"),
    [
        (Shape.OBJECT, {"id": "a"}, {"thing": {"id": "a"}}),
        (Shape.BARE, {"id": "a"}, {"id": "a"}),
        (Shape.SUCCESS, None, {"success": True}),
        (Shape.SUCCESS, SuccessText("done"), {"success": True, "displaytext": "done"}),
        (Shape.JOB, JobTicket("j"), {"jobid": "j"}),
        (Shape.JOB, JobTicket("j", "e"), {"id": "e", "jobid": "j"}),
        (Shape.JOB_SUCCESS, JobTicket("j"), {"jobid": "j"}),
    ],
)
def test_shapes(shape: Shape, result: Any, expected: dict[str, Any]) -> None:
    """Each kind of answer lies in the envelope as CloudStack lays it."""
    assert content(shape, result) == expected


def test_values_have_their_declared_types() -> None:
    """Whatever a query returns, the wire shows the declared JSON type."""
    row = {
        "id": UUID(int=1),
        "cpunumber": Decimal(4),
        "size": "5",
        "share": 1,
        "ready": 1,
        "created": datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))),
        "names": ("a", HostState.UP, None),
        "details": {"cores": 2, "fast": True, "none": None},
        "nic": [{"id": 7, "isdefault": "True"}],
        "result": {"errorcode": 530, "list": [1]},
    }
    assert orjson.loads(answer("x", content(Shape.BARE, row), json=True).body)["x"] == {
        "id": "00000000-0000-0000-0000-000000000001",
        "cpunumber": 4,
        "size": 5,
        "share": 1.0,
        "ready": True,
        "created": "2026-01-31T10:00:00+0000",
        "names": ["a", "Up"],
        "details": {"cores": "2", "fast": "true"},
        "nic": [{"id": "7", "isdefault": True}],
        "result": {"errorcode": 530, "list": [1]},
    }


def test_nothing_is_null() -> None:
    """Fields without a value are left out, in nested objects too."""
    assert content(Shape.BARE, {"id": None, "nic": [{"id": None, "isdefault": False}]}) == {
        "nic": [{"isdefault": False}]
    }


def test_another_object_instead() -> None:
    """A command may answer one object of another kind, of which only what is declared is shown."""
    other = Response("plan", (number("fits", ""),))
    made = Command("listThings", "", lambda _: None, Shape.LIST, Response("thing", FIELDS), instead=other)
    assert Renderer(made).content(Instead(other, {"fits": "3", "more": 1}), RoleType.USER) == {"plan": {"fits": 3}}


@pytest.mark.parametrize(("role", "seen"), [(RoleType.ADMIN, True), (RoleType.DOMAIN_ADMIN, False), (None, False)])
def test_fields_for_some_roles(role: RoleType | None, seen: bool) -> None:
    """A field meant for root admins is shown to nobody else."""
    assert ("hostid" in content(Shape.BARE, {"id": "a", "hostid": "h"}, role)) is seen


def test_undeclared_fields() -> None:
    """What is not declared never reaches a client, and tests are told of it."""
    row = {"id": "a", "nic": [{"secret": 1}], "passwordhash": "x"}
    assert content(Shape.BARE, row, strict=False) == {"id": "a", "nic": [{}]}
    with pytest.raises(UndeclaredField, match="passwordhash"):
        content(Shape.BARE, row)
    with pytest.raises(UndeclaredField, match="secret"):
        content(Shape.BARE, {"nic": [{"secret": 1}]})


def test_envelope_keys() -> None:
    """The key is the lower-cased command and ``response``, or what the command says it is."""
    assert command(Shape.LIST).envelope_key == "listthingsresponse"
    irregular = Command("restoreThing", "", lambda _: None, Shape.SUCCESS, envelope="restorethresponse")
    assert irregular.envelope_key == "restorethresponse"


def test_json_answer() -> None:
    """JSON has its content type, one key and the security headers."""
    made = answer("listthingsresponse", {"count": 1}, json=True)
    assert (made.status, made.content_type) == (200, "application/json; charset=UTF-8")
    assert orjson.loads(made.body) == {"listthingsresponse": {"count": 1}}
    assert made.headers["X-Content-Type-Options"] == "nosniff"


def test_refusal_carries_its_text_in_a_header() -> None:
    """The text is in X-Description, as far as a header can carry it."""
    made = refusal(
        "errorresponse",
        {"uuidList": [], "errorcode": 431, "errortext": "bad\r\nSet-Cookie: é"},
        json=True,
        headers={},
    )
    assert (made.status, made.headers["X-Description"]) == (431, "bad??Set-Cookie: ?")


def test_xml_to_the_letter() -> None:
    """XML is on one line, repeats the element of a list, and escapes what must be."""
    tree = {
        "count": 2,
        "thing": [{"name": "a<&>\"'", "nic": [{"id": "1"}, {"id": "2"}]}, {"ok": True, "tags": ["x", "y"]}],
    }
    assert to_xml("listthingsresponse", tree).decode() == (
        '<?xml version="1.0" encoding="UTF-8"?><listthingsresponse cloud-stack-version="4.22.1.0"><count>2</count>'
        "<thing><name>a&lt;&amp;&gt;&quot;&apos;</name><nic><id>1</id></nic><nic><id>2</id></nic></thing>"
        "<thing><ok>true</ok><tags>x</tags><tags>y</tags></thing></listthingsresponse>"
    )


def test_xml_of_nothing() -> None:
    """An empty list is an empty envelope."""
    assert to_xml("listzonesresponse", {}).endswith(
        b'<listzonesresponse cloud-stack-version="4.22.1.0"></listzonesresponse>'
    )


VALUES = st.recursive(
    st.text() | st.booleans() | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=4))
def test_any_answer_is_well_formed_xml(tree: dict[str, Any]) -> None:
    """Whatever text a value or a map's key has, an XML parser reads the answer."""
    assert ElementTree.fromstring(to_xml("response", tree)).tag == "response"  # noqa: S314 - our own text


def test_dates_are_in_utc() -> None:
    """Two clocks that show the same moment show the same text."""
    moments = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5.5)))]
    assert {content(Shape.BARE, {"created": shown})["created"] for shown in moments} == {"2026-01-01T00:00:00+0000"}
