"""Parameters of custom actions: what an action may declare, and what its runs may say."""

from typing import Any

import pytest

from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.domain.virtual_machines.custom_actions import checked_values, declared_parameters, message_of

UUID = "1fa0e1c4-7f3c-4c9e-8e57-0a7d1e1f2a3b"


def declared(**entry: str) -> list[dict[str, Any]]:
    """Return one parameter, named p."""
    return declared_parameters([{"name": "p", **entry}])


@pytest.mark.parametrize(
    ("entry", "written", "value"),
    [
        ({}, " text ", " text "),
        ({"type": "number"}, "-12", -12),
        ({"type": "NUMBER", "validationformat": "decimal"}, "1.5", 1.5),
        ({"type": "BOOLEAN"}, "false", False),
        ({"type": "DATE"}, "2026-01-31T12:00:00+0100", "2026-01-31T12:00:00+0100"),
        ({"validationformat": "UUID"}, UUID, UUID),
        ({"validationformat": "EMAIL"}, "a@example.org", "a@example.org"),
        ({"validationformat": "URL"}, "https://example.org/", "https://example.org/"),
        ({"type": "NUMBER", "valueoptions": "1, 2"}, "2", 2),
    ],
)
def test_a_value_has_the_type_of_its_parameter(entry: dict[str, str], written: str, value: object) -> None:
    """The extension gets JSON."""
    assert checked_values(declared(**entry), {"p": written}) == {"p": value}


@pytest.mark.parametrize(
    ("entry", "written"),
    [
        ({}, "  "),
        ({"type": "NUMBER"}, "1.5"),
        ({"type": "NUMBER"}, "2147483648"),
        ({"type": "NUMBER", "validationformat": "DECIMAL"}, "nan"),
        ({"type": "BOOLEAN"}, "True"),
        ({"type": "DATE"}, "2026-02-30T12:00:00+0000"),
        ({"type": "DATE"}, "2026-01-31"),
        ({"validationformat": "UUID"}, "1"),
        ({"validationformat": "EMAIL"}, "nobody"),
        ({"validationformat": "URL"}, "example.org"),
        ({"validationformat": "URL"}, "http://[x"),
        ({"valueoptions": "a,b"}, "c"),
        ({"required": "true"}, ""),
    ],
)
def test_a_value_that_breaks_a_rule_is_refused(entry: dict[str, str], written: str) -> None:
    """The error names the parameter of the call."""
    with pytest.raises(InvalidParameter, match="parameters"):
        checked_values(declared(**entry), {"p": written})


@pytest.mark.parametrize(
    "entry",
    [
        {"name": " "},
        {"type": "INTEGER"},
        {"validationformat": "IPV4"},
        {"type": "NUMBER", "validationformat": "UUID"},
        {"validationformat": "DECIMAL"},
        {"type": "BOOLEAN", "valueoptions": "true"},
        {"type": "NUMBER", "valueoptions": "1,two"},
    ],
)
def test_a_declaration_that_breaks_a_rule_is_refused(entry: dict[str, str]) -> None:
    """It is refused before any run."""
    with pytest.raises(InvalidParameter, match="parameters"):
        declared(**entry)


def test_a_name_is_declared_once() -> None:
    """Two parameters of one name are refused."""
    with pytest.raises(InvalidParameter, match="declared twice"):
        declared_parameters([{"name": "p"}, {"name": "p"}])


def test_values_that_are_not_declared_stay_texts() -> None:
    """An action without parameters gets no values."""
    assert checked_values(declared(), {"q": "1"}) == {"q": "1"}
    assert checked_values([], {"q": "1"}) == {}


def test_errors_repeat_no_password() -> None:
    """A password that is none of the options is not shown."""
    with pytest.raises(InvalidParameter) as refused:
        checked_values(declared(validationformat="PASSWORD", valueoptions="right"), {"p": "wrong"})
    assert "wrong" not in str(refused.value)


def test_messages_name_what_was_done() -> None:
    """An empty message is the default message."""
    assert message_of("{{a}} of {{b}} {{c}}", "", {"a": "1", "b": "2"}) == "1 of 2 {{c}}"
    assert message_of(" ", "done", {}) == "done"
