"""The machine-readable description: OpenAPI 3.1 of all commands, and what is called by it answers by it."""

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from sqlalchemy import Engine, text

from bulkdeploy.commands.registry import find_commands
from bulkdeploy.domain.entities import Entity
from bulkdeploy.domain.errors import OperationFailed
from bulkdeploy.store.rows.entities import SOURCES
from bulkdeploy.wiring.cipher import FernetCipher
from tests.support.api.api_client import ApiClient
from tests.support.hypervisors.drivers import OF_HYPERVISORS
from tests.support.runs.waiting import PATIENCE_S
from tests.support.zones.population import OWNERS, run
from tests.support.zones.zone_files import load_zone

COMMANDS = find_commands()
SMALL_ZONE = Path(__file__).parents[1] / "zones" / "small.yaml"
EXAMPLES = 2
SAID = frozenset({431, 432, 405, 531, 533, 534, 535, 536})
"""What a call by a root admin may be refused with; a 530 is an accident wherever a command does not declare it."""

MOST_COMMANDS_DO = 0.3
"""At least this share of the commands does something with what is generated for it; or this tests refusals only."""

Description = dict[str, Any]


@pytest.fixture
def description(api_url: str) -> Description:
    """As anybody gets it."""
    answer = requests.get(f"{api_url}/client/api/openapi.json", timeout=PATIENCE_S)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json; charset=UTF-8")
    document: Description = answer.json()
    return document


@pytest.fixture
def zone(engine: Engine, cipher: FernetCipher) -> Engine:
    """The small zone with owners: a database to be spoilt."""
    load_zone(engine, cipher, SMALL_ZONE)
    with engine.begin() as connection:
        run(connection, OWNERS)
    return engine


def sample_ids(engine: Engine) -> dict[str, list[str]]:
    """Some ids of each kind of entity, the caller's own apart, and one that names nothing."""
    found: dict[str, list[str]] = {}
    with engine.connect() as connection:
        for entity, source in SOURCES.items():
            rows = connection.execute(
                text(
                    f"SELECT uuid FROM {source.table.name} WHERE CAST({source.name} AS text) <> 'admin'"
                    " ORDER BY id LIMIT 3"
                )
            ).scalars()
            found[entity.value] = [*map(str, rows), str(uuid4())]
    return found


def with_real_ids(document: Any, ids: Mapping[str, list[str]]) -> Any:
    """The description with ids to choose from where it says what kind of entity they name."""
    if isinstance(document, list):
        return [with_real_ids(item, ids) for item in document]
    if not isinstance(document, dict):
        return document
    if "x-entities" in document:
        return {"type": "string", "enum": [one for kind in document["x-entities"] for one in ids[kind]]}
    return {key: with_real_ids(value, ids) for key, value in document.items()}


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as they travel."""
    words = {True: "true", False: "false"}
    return {name: words[value] if isinstance(value, bool) else str(value) for name, value in values.items()}


def said(command: str) -> set[int]:
    """The statuses that a refusal of this command may have."""
    may_fail = any(issubclass(kind, OperationFailed) for kind in COMMANDS[command].errors)
    return {*SAID, 530} if may_fail else {*SAID}


def operations(schemathesis: ModuleType, document: Description) -> Iterator[Any]:
    """What schemathesis makes of each command."""
    from schemathesis.core.result import Ok

    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(result, Ok)
        yield result.ok()


def test_every_command_is_described(description: Description) -> None:
    """All commands and no others, each by the method it is meant for."""
    assert description["openapi"] == "3.1.0"
    named = {path.rpartition("/")[2]: set(methods) for path, methods in description["paths"].items()}
    assert named == {
        name: {"post" if command.changes_state or command.post_only else "get"}
        for name, command in COMMANDS.items()
    }
    assert {Entity(kind) for kind in sample_kinds(description)} <= set(SOURCES)


def sample_kinds(document: Any) -> set[str]:
    """The kinds of entities that ids are said to name."""
    if isinstance(document, list):
        return {kind for item in document for kind in sample_kinds(item)}
    if not isinstance(document, dict):
        return set()
    return {*document.get("x-entities", ()), *(kind for value in document.values() for kind in sample_kinds(value))}


@pytest.mark.long
def test_calls_made_from_the_description_answer_by_it(
    zone: Engine, description: Description, client: ApiClient
) -> None:
    """Every command, with generated parameters and real ids: declared fields and types, no accident."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis  # takes a second, for which other tests need not wait
    from schemathesis.core.failures import FailureGroup
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

    found = operations(schemathesis, with_real_ids(description, sample_ids(zone)))
    checks = [content_type_conformance, response_schema_conformance]
    accidents: list[str] = []
    done: set[str] = set()

    def probe(operation: Any) -> None:
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def call(case: Any) -> None:
            given_values = case.query if case.method == "GET" else case.body
            wanted = as_texts(given_values)
            command = wanted.pop("command")
            signed = client.signed(command, **wanted)
            way: dict[str, Any] = {"params": signed} if case.method == "GET" else {"data": signed}
            answer = requests.request(case.method, f"{client.url}{case.path}", timeout=PATIENCE_S, **way)
            if answer.status_code == 200:
                done.add(command)
            elif answer.status_code not in said(command):
                accidents.append(f"{command} {answer.status_code} {answer.text[:200]} {wanted}")
            try:
                case.validate_response(answer, checks=checks)
            except FailureGroup as problem:
                accidents.append(f"{command} {str(problem)[:600]}")

        call()

    for operation in found:
        name = operation.path.rpartition("/")[2]
        if not COMMANDS[name].open and name not in OF_HYPERVISORS:
            probe(operation)
    assert accidents == []
    assert len(done) > MOST_COMMANDS_DO * len(COMMANDS)
