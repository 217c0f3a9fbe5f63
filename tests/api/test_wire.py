"""Requests as they come: query strings and forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkdeploy.api.wire import MOST_PARAMETERS, WireRequest, read_parameters
from bulkdeploy.domain.errors import RequestTooLarge


@pytest.mark.parametrize(
    ("query", "form", "expected"),
    [
        (b"a=1&b=2", b"c=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=query", b"a=form", {"a": "query"}),
        (b"a=first&a=second", b"", {"a": "first"}),
        (b"alone&a=1&&=empty", b"", {"a": "1", "": "empty"}),
        (b"a=x%20y+z&%C3%BC=%E2%82%AC", b"", {"a": "x y z", "ü": "€"}),
        (b"a=b=c&d=", b"", {"a": "b=c", "d": ""}),
        (b"a=%ff%fe&b=%zz", b"", {"a": "\ufffd\ufffd", "b": "%zz"}),
        ("a=ü".encode(), b"", {"a": "ü"}),
        (b"details[0].cpuNumber=2&details%5B1%5D.x=3", b"", {"details[0].cpuNumber": "2", "details[1].x": "3"}),
    ],
)
def test_parameters(query: bytes, form: bytes, expected: dict[str, str]) -> None:
    """Query and form are one map, read as CloudStack reads them."""
    assert read_parameters(query, form) == expected


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_read(query: bytes, form: bytes) -> None:
    """No bytes are too odd to be read, and what is read can be written as UTF-8 again."""
    for name, value in read_parameters(query, form).items():
        assert (name + value).encode().decode() == name + value


def test_number_of_parameters_is_bounded() -> None:
    """A request made of very many parameters is refused before it costs anything."""
    most = b"&".join(b"a=1" for _ in range(MOST_PARAMETERS))
    assert read_parameters(most, b"") == {"a": "1"}
    with pytest.raises(RequestTooLarge, match=str(MOST_PARAMETERS)):
        read_parameters(most, b"&")


@pytest.mark.parametrize(("response", "json"), [("json", True), ("JSON", True), ("xml", False), ("", False)])
def test_answers_are_json_only_on_request(response: str, json: bool) -> None:
    """Anything but ``response=json`` is answered in XML."""
    assert WireRequest({"response": response}).wants_json is json
    assert not WireRequest({"Response": "json"}).wants_json


def test_names_in_any_case() -> None:
    """Where the case of a name does not matter, the first spelling counts."""
    request = WireRequest({"APIKEY": "a", "apiKey": "b", "Command": "listZones"})
    assert (request.in_any_case("apikey"), request.in_any_case("signature"), request.command) == ("a", None, None)
