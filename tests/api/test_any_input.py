"""Whatever bytes come in whatever parameter of whatever command, the answer is a declared one."""

from collections.abc import Mapping
from urllib.parse import quote, quote_from_bytes
from xml.etree import ElementTree

import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sqlalchemy import Engine
from structlog.testing import capture_logs

from bulkdeploy.api.errors import TABLE
from bulkdeploy.commands.registry import find_commands
from bulkdeploy.declare.parameters import WireType
from bulkdeploy.domain import errors
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.security.signature import sign
from bulkdeploy.wiring.cipher import FernetCipher
from tests.support.api.accounts import add_user
from tests.support.api.api_client import Answer, ApiClient
from tests.support.runs.properties import examples

EVERY_COMMAND_CAN_GIVE: tuple[type[BulkDeployError], ...] = (
    errors.MissingParameter,
    errors.EmptyParameter,
    errors.MalformedValue,
    errors.MalformedMap,
    errors.InvalidParameter,
    errors.InvalidCombination,
    errors.UnknownEntity,
    errors.PagingError,
    errors.PermissionDenied,
    errors.CredentialsRefused,
    errors.CommandNotAvailable,
)

COMMANDS = find_commands()
TYPICAL = {
    WireType.UUID: (b"1", b"2", b"0", b"-1", b"00000000-0000-0000-0000-000000000000", b"9" * 40),
    WireType.LIST: (b"1,2", b",", b"a,b,,a", b"1,x", b"00000000-0000-0000-0000-000000000000"),
    WireType.INTEGER: (b"1", b"0", b"-1", b"500", b"2147483647", b"-2147483648", b"\xd9\xa1"),
    WireType.LONG: (b"1", b"0", b"-1", b"9223372036854775807", b"-9223372036854775808"),
    WireType.BOOLEAN: (b"true", b"false", b"True", b"1"),
    WireType.DATE: (b"2026-01-31", b"0001-01-01", b"9999-12-31", b"2026-01-31T00:00:00+0000"),
}
ODD = (
    b"",
    b"%",
    b"_",
    b"\\",
    b"'",
    b"\x00",
    b"\xff",
    "\u202e\uffff\U0010ffff".encode(),
    b"ROOT",
    b"admin",
    b"x" * 300,
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[bytes, bytes], bool]:
    """A command's name, parameters for it by name, and whether JSON is asked for."""
    command = COMMANDS[draw(st.sampled_from(sorted(COMMANDS)))]
    parameters: dict[bytes, bytes] = {}
    for one in command.parameters:
        if one.required or draw(st.integers(0, 3)) == 0:
            name = one.name.encode() + (
                draw(st.sampled_from((b"", b"[0].key", b"[1].x", b"[z]"))) if one.type is WireType.MAP else b""
            )
            words = tuple(word.encode() for word in one.choices)
            odd = st.sampled_from(ODD) | st.binary(max_size=20)
            typical = st.sampled_from((*words, *TYPICAL.get(one.type, ()))) if words or one.type in TYPICAL else odd
            parameters[name] = draw(typical if draw(st.integers(0, 2)) else odd)
    if draw(st.integers(0, 5)) == 0:
        parameters[draw(st.binary(max_size=8))] = draw(st.binary(max_size=8))
    return command.name, parameters, draw(st.booleans())


def send(client: ApiClient, command: str, parameters: Mapping[bytes, bytes], *, json: bool) -> Answer:
    """Send exactly these bytes, signed as a client would that decodes them as the server does."""
    raw = {**parameters, b"command": command.encode(), b"apiKey": client.api_key.encode()}
    raw[b"response"] = b"json" if json else b"xml"
    texts = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in raw.items()}
    form = "&".join(f"{quote_from_bytes(name)}={quote_from_bytes(value)}" for name, value in raw.items())
    form += f"&signature={quote(sign(texts, client.secret_key))}"
    return client.request("POST", "/client/api", form, {"Content-Type": "application/x-www-form-urlencoded"})


def refusal_of(answer: Answer, *, json: bool) -> tuple[int, str]:
    """Code and text of an error answer, which must be well-formed."""
    if json:
        (content,) = orjson.loads(answer.text).values()
        return content["errorcode"], content["errortext"]
    root = ElementTree.fromstring(answer.text)  # noqa: S314 - our own server
    return int(root.findtext("errorcode", "")), root.findtext("errortext", "")


@pytest.mark.parametrize("role", ["admin", "user"])
def test_any_input_has_a_declared_answer(
    client: ApiClient, engine: Engine, cipher: FernetCipher, role: str
) -> None:
    """Every answer is a success or an error that the command declares, well-formed, and never an accident."""
    if role == "user":
        user = add_user(engine, cipher, "ann")
        client = ApiClient(client.url, user.api_key, user.secret_key)

    @examples(400, suppress=tuple(HealthCheck))
    @given(requests())
    def bulk_request(request: tuple[str, dict[bytes, bytes], bool]) -> None:
        command, parameters, json = request
        answer = send(client, command, parameters, json=json)
        accidents = [entry for entry in log if entry["log_level"] == "error"]
        log.clear()
        assert accidents == []
        if answer.status == 200:
            assert orjson.loads(answer.text) if json else ElementTree.fromstring(answer.text) is not None  # noqa: S314
            return
        code, text = refusal_of(answer, json=json)
        declared = {TABLE[kind].status for kind in (*EVERY_COMMAND_CAN_GIVE, *COMMANDS[command].errors)}
        assert code == answer.status
        assert code in declared, text
        assert text

    with capture_logs() as log:
        bulk_request()
