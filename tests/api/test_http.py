"""The HTTP surface: addresses, methods, sizes, formats, and what happens when something breaks."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from bulkdeploy.api.app import create_app, create_monitoring_app
from bulkdeploy.api.dispatch import Dispatcher
from bulkdeploy.api.wire import MOST_BODY_BYTES, MOST_PARAMETERS, WireRequest
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.command import Command
from bulkdeploy.declare.parameters import string
from bulkdeploy.declare.response_fields import number
from bulkdeploy.declare.responses import Response, Shape
from bulkdeploy.domain.accounts.accounts import EVERY_ROLE
from bulkdeploy.domain.errors import InsufficientCapacity
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.store.rows.listing import ROWS_AT_ONCE, Page, rows_of
from bulkdeploy.wiring.cipher import FernetCipher
from tests.support.api.accounts import add_user
from tests.support.api.api_client import Answer, ApiClient
from tests.support.api.api_server import serving

MANY = ROWS_AT_ONCE + 1
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def log() -> Iterator[list[EventDict]]:
    """What is logged while the test runs."""
    with capture_logs() as entries:
        yield entries


@pytest.mark.parametrize("path", ["/client/api", "/client/api/", "/client/api/anything/under/it"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_addresses(client: ApiClient, path: str, method: str) -> None:
    """The API answers at /client/api and anything under it, and redirects nobody."""
    assert client.request(method, f"{path}?response=json").status == 401


def test_other_addresses(client: ApiClient) -> None:
    """There is nothing elsewhere."""
    assert client.request("GET", "/client/apis").status == 404
    assert client.request("GET", "/").status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods(client: ApiClient, method: str) -> None:
    """Other methods are refused in the form of any other refusal."""
    answer = client.request(method, "/client/api?response=json")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST")
    assert answer.json["errorresponse"]["errorcode"] == 405


@pytest.mark.parametrize(
    ("response", "content_type"), [("json", "application/json"), ("xml", "text/xml"), ("", "text/xml")]
)
def test_formats(client: ApiClient, response: str, content_type: str) -> None:
    """Answers and refusals come in the format asked for, in UTF-8."""
    for answer in (
        client.get("listCapabilities", response=response),
        client.request("GET", f"/client/api?response={response}"),
    ):
        assert answer.headers["Content-Type"] == f"{content_type}; charset=UTF-8"
        if content_type == "text/xml":
            root = ElementTree.fromstring(answer.text)  # noqa: S314 - our own server
            assert root.attrib == {"cloud-stack-version": "4.22.1.0"}


def test_headers(client: ApiClient) -> None:
    """No browser should guess, frame, run or keep what the API answers."""
    headers = client.get("listCapabilities").headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert {"X-XSS-Protection", "Content-Security-Policy"} <= headers.keys()


def test_what_a_client_has_already_is_not_sent_again(client: ApiClient) -> None:
    """A GET that reads has an ETag: with If-None-Match it is answered 304 and no body, while it is the same."""

    def get(command: str, tag: str = "") -> Answer:
        query = urlencode(client.signed(command), quote_via=quote)
        return client.request("GET", f"/client/api?{query}", headers={"If-None-Match": tag} if tag else {})

    first = get("listZones")
    again, other = get("listZones", first.headers["ETag"]), get("listRoles", first.headers["ETag"])
    assert (again.status, again.text, again.headers["ETag"]) == (304, "", first.headers["ETag"])
    assert (other.status, other.headers["ETag"] == first.headers["ETag"]) == (200, False)


def test_only_what_a_get_reads_has_a_tag(client: ApiClient) -> None:
    """Refusals, answers to POST, and of what changes something are always sent."""
    refused = client.request("GET", "/client/api?response=json")
    changed = client.get(
        "createZone", name="tagged", networktype="Advanced", dns1="1.1.1.1", internaldns1="1.1.1.1"
    )
    assert (refused.status, changed.status) == (401, 200)
    assert all("ETag" not in answer.headers for answer in (refused, changed, client.post("listZones")))


def test_other_bodies_are_not_read(client: ApiClient) -> None:
    """Only forms are bodies; the parameters of another body do not count."""
    answer = client.request(
        "POST", "/client/api?response=json", '{"command": "login"}', {"Content-Type": "application/json"}
    )
    assert answer.status == 401


def test_large_bodies_are_refused(client: ApiClient) -> None:
    """A body above the limit is refused without being read into parameters."""
    answer = client.request("POST", "/client/api?response=json", "a=" + "x" * MOST_BODY_BYTES, FORM)
    assert (answer.status, answer.json["errorresponse"]["errorcode"]) == (413, 413)


def test_many_parameters_are_refused(client: ApiClient) -> None:
    """A form of very many parameters is refused."""
    answer = client.request("POST", "/client/api?response=json", "a=1&" * MOST_PARAMETERS, FORM)
    assert answer.status == 413


def test_long_values_come_through(client: ApiClient) -> None:
    """A megabyte of user data fits, percent-encoded, in a form."""
    assert client.post("listCapabilities", userdata="+" * 1_048_576).status == 200


def test_health(system: System) -> None:
    """Whoever watches the process learns that it can work, without credentials."""
    with serving(create_monitoring_app(system)) as url:
        assert ApiClient(url, "", "").request("GET", "/health/ready").json == {"status": "ready"}


def test_database_unreachable(system: System, client: ApiClient, log: list[EventDict]) -> None:
    """Without its database the server says so: not ready, and one clear answer per call."""
    gone = create_engine("postgresql://nobody@127.0.0.1:1/none", pool_size=1)
    unplugged = System(gone, system.job_queue, system.cipher, system.data_dir)
    with serving(create_app(unplugged)) as url:
        caller = ApiClient(url, client.api_key, client.secret_key)
        answer = caller.get("listCapabilities")
        assert (answer.status, answer.body["cserrorcode"]) == (503, 4250)
        assert answer.body["errortext"] == "The database cannot be reached at the moment; try again later"
    with serving(create_monitoring_app(unplugged)) as url:
        assert ApiClient(url, "", "").request("GET", "/health/ready").status == 503
    assert [entry["event"] for entry in log if entry["log_level"] == "error"] == ["database_unreachable"]
    gone.dispose()


def fail(_: Any) -> None:
    """A handler with a fault."""
    raise RuntimeError("secret detail")


def refuse(_: Any) -> None:
    """A handler that finds no room."""
    raise InsufficientCapacity(requested=5, fits=2, scope="zone z", why="hosts ruled out: 3 by memory")


def write(call: Any) -> None:
    """A handler that writes where it may only read."""
    call.connection.exec_driver_sql("DELETE FROM sessions")


def list_many(call: Any) -> Page:
    """A handler that finds more rows than are read at once."""

    def read(numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        rows = call.connection.exec_driver_sql("SELECT unnest(%s::int[])", (list(numbers),))
        return {at: {"id": at} for (at,) in rows}

    return Page(rows_of(range(MANY), read), MANY)


def dispatcher(system: System, handler: Any, shape: Shape = Shape.SUCCESS) -> Dispatcher:
    """A dispatcher of the real commands and one more."""
    response = Response("thing", (number("id", ""),))
    parameters = (string("name", ""),)
    made = Command("tryThing", "", handler, shape, response, parameters=parameters, authorized=EVERY_ROLE)
    return Dispatcher(system, {**find_commands(), made.name: made})


def test_faults_have_a_neutral_answer_and_one_log_entry(
    system: System, client: ApiClient, log: list[EventDict]
) -> None:
    """A fault of ours tells the client nothing of the inside and the operator everything, once."""
    answered = dispatcher(system, fail).answer(WireRequest(client.signed("tryThing")))
    assert answered.status == 530
    assert b"Internal error executing command" in answered.body
    assert b"secret detail" not in answered.body
    (entry,) = [entry for entry in log if entry["log_level"] == "error"]
    assert isinstance(entry["exc_info"], RuntimeError)


def test_handlers_can_not_write_where_they_read(system: System, client: ApiClient) -> None:
    """The connection of a call refuses every change, so that writes go through transactions of services."""
    assert dispatcher(system, write).answer(WireRequest(client.signed("tryThing"))).status == 530


@pytest.mark.parametrize("response", ["json", "xml"])
def test_long_lists_are_read_while_they_are_written(system: System, client: ApiClient, response: str) -> None:
    """They are never in memory as a whole, so the call's connection is open until the last row."""
    requested = WireRequest(client.signed("tryThing", response=response))
    answered = dispatcher(system, list_many, Shape.LIST).answer(requested)
    assert answered.status == 200
    assert answered.body.count(b"id") == (MANY if response == "json" else 2 * MANY)


def test_only_root_admins_see_capacity(
    system: System, client: ApiClient, cipher: FernetCipher, log: list[EventDict]
) -> None:
    """Others read a neutral text; the operator finds the true one in the log."""
    user = add_user(system.engine, cipher, "ann")
    other = ApiClient(client.url, user.api_key, user.secret_key)
    reported = dispatcher(system, refuse).answer(WireRequest(client.signed("tryThing"))).body
    hidden = dispatcher(system, refuse).answer(WireRequest(other.signed("tryThing"))).body
    assert b"2 would fit" in reported
    assert b"would fit" not in hidden
    assert b'"errorcode":533' in hidden
    assert any("2 would fit" in entry.get("text", "") for entry in log)


@pytest.mark.parametrize(
    "parameters",
    [{"name": "x" * 300}, {"name": "\x00"}, {"signature": "x"}, {"apiKey": "\x00"}],
)
def test_mistakes_of_clients_are_no_errors_of_ours(
    system: System, client: ApiClient, log: list[EventDict], parameters: dict[str, str]
) -> None:
    """What a client does wrong is never logged as an error, and never with a traceback."""
    request = WireRequest(client.signed("tryThing", **parameters) | parameters)
    assert dispatcher(system, fail).answer(request).status in {401, 431}
    assert all(entry["log_level"] == "info" and "exc_info" not in entry for entry in log)


def test_secrets_are_not_logged(system: System, client: ApiClient, log: list[EventDict]) -> None:
    """Neither keys nor passwords nor signatures come into the log."""
    server = dispatcher(system, fail)
    form = {"command": "login", "username": "admin", "password": "hunter2" * 50, "response": "json"}
    server.answer(WireRequest(form, method="POST"))
    server.answer(WireRequest({**form, "password": "hunter2"}, method="POST"))
    signed = client.signed("listCapabilities")
    server.answer(WireRequest(signed))
    text = repr(log)
    assert "hunter2" not in text
    assert signed["signature"] not in text
    assert client.api_key not in text
