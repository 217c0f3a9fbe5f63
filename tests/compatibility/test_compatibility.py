"""Every difference from what CloudStack 4.22 declares is known, with its reason."""

from bulkdeploy.declare.responses import Field, FieldType
from tests.compatibility.facts import read_facts
from tests.compatibility.page import in_both, missing_fields
from tests.compatibility.reasons import NO_REASON

JSON_TYPES = {
    **dict.fromkeys((FieldType.STRING, FieldType.DATE), "string"),
    **dict.fromkeys((FieldType.INTEGER, FieldType.LONG, FieldType.FLOAT), "number"),
    FieldType.BOOLEAN: "boolean",
    **dict.fromkeys((FieldType.LIST, FieldType.SET), "list"),
    **dict.fromkeys((FieldType.MAP, FieldType.OBJECT), "object"),
}
OTHERWISE = {
    ("AsyncJobResponse", "jobresult"): "an object, as CloudStack answers it",
}
"""Fields with another JSON type than CloudStack declares, by class of responses and name, and why."""


def test_every_missing_field_has_a_reason() -> None:
    """Clients that read CloudStack's documentation find in ours why a field is not answered."""
    facts = read_facts()
    assert missing_fields(in_both(facts), facts).get(NO_REASON, {}) == {}


def test_fields_have_cloudstacks_types() -> None:
    """Typed clients (Go) refuse a whole answer if one field has another type."""
    facts = read_facts()
    wrong = {}
    for name, command in in_both(facts).items():
        theirs = facts.fields(name)
        ours: tuple[Field, ...] = () if command.response is None else command.response.fields
        for field in ours:
            kind = theirs.get(field.name, JSON_TYPES[field.type])
            if kind != JSON_TYPES[field.type] and (facts.commands[name].response, field.name) not in OTHERWISE:
                wrong[facts.commands[name].response, field.name] = (JSON_TYPES[field.type], kind)
    assert wrong == {}
