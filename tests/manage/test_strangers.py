"""The API process as strangers meet it: nobody holds others up, and every refusal is an answer of the API.

Strangers send slowly, never finish, hold connections, read nothing, or speak something else.
"""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from xml.etree import ElementTree

import psycopg
import pytest
from pydantic import SecretStr

from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.services.system import PASSWORD_THREADS
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.conftest import SECRET_KEY
from tests.support.api.api_client import ApiClient
from tests.support.api.raw_connections import connected
from tests.support.processes.programs import api_process
from tests.support.processes.services import database_clone

HALF_HEADERS = b"GET /client/api?response=json&command=listZones HTTP/1.1\r\nHost: "
HALF_BODY = b"POST /client/api?response=json HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\ncommand="
WHOLE = b"GET /client/api?response=json HTTP/1.1\r\nHost: x\r\n\r\n"
PROCESSES, THREADS, PER_ADDRESS = 2, 4, 40


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server."""

    url: str
    monitoring_url: str
    admin: ApiClient
    database_url: str

    def watched(self, path: str) -> tuple[int, str]:
        """What whoever watches over the process is told."""
        answer = ApiClient(self.monitoring_url, "", "").request("GET", path)
        return answer.status, answer.text

    def waiting_for_locks(self) -> int:
        """How many calls the database lets wait."""
        with psycopg.connect(self.database_url) as connection:
            requested = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            (count,) = connection.execute(requested).fetchone() or (0,)
        return int(count)

    def put_out(self) -> float:
        """How many connections have made room for others so far."""
        figures = self.watched("/metrics")[1]
        found = re.search(r'^bulkdeploy_requests_refused_total{reason="no room"} (.*)$', figures, re.MULTILINE)
        return 0 if found is None else float(found[1])

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Let calls that look for zones wait."""
        with psycopg.connect(self.database_url) as connection:
            connection.execute("LOCK TABLE zones IN ACCESS EXCLUSIVE MODE")
            yield
            connection.rollback()


@pytest.fixture(scope="module")
def server(
    postgres_url: str, bare_database: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with little patience."""
    folder = tmp_path_factory.mktemp("slow")
    with database_clone(postgres_url, bare_database) as database_url:
        settings = Settings(
            database_url=database_url,
            redis_url=redis_url,
            data_dir=folder,
            secret_key=SecretStr(SECRET_KEY),
            api_processes=PROCESSES,
            api_threads=THREADS,
            request_header_seconds=1.5,
            request_body_seconds=2.5,
            keepalive_seconds=2,
            connections_per_address=PER_ADDRESS,
            monitoring_listen=f"127.0.0.1:{free_port()}",
        )
        engine = create_engine(database_url, pool_size=1)
        with engine.connect() as connection:
            admin = admin_row(connection)
        engine.dispose()
        assert admin is not None
        with api_process(settings, folder / "api.log") as url:
            keys = admin.api_key, FernetCipher(SECRET_KEY).decrypt(admin.secret_key_encrypted)
            yield Server(url, settings.api_monitoring_url, ApiClient(url, *keys), database_url)
    assert "Traceback" not in (folder / "api.log").read_text()


def honest_calls_are_answered(server: Server, calls: int = 20) -> None:
    """Calls one after the other and beside each other, each on a connection of its own, from the same address."""
    with ThreadPoolExecutor(5) as pool:
        assert set(pool.map(lambda _: server.admin.get("listCapabilities").status, range(calls))) == {200}


@pytest.mark.long
@pytest.mark.parametrize("sent", [b"", HALF_HEADERS, HALF_BODY])
def test_half_requests_do_not_delay_other_calls(server: Server, sent: bytes) -> None:
    """64 connections that never say the rest, as many as there are threads and more; in the end they are closed."""
    with connected(server.url, 64) as links:
        for link in links:
            link.send(sent)
        honest_calls_are_answered(server)
        for link in links:
            assert link.rest()[:12] in (b"", b"HTTP/1.1 408")


@pytest.mark.parametrize("sources", [("127.0.0.1",), tuple(f"127.0.0.{number}" for number in range(2, 12))])
def test_a_thousand_half_requests_do_not_delay_other_calls(server: Server, sources: tuple[str, ...]) -> None:
    """A thousand half requests, from the address of the honest callers or from ten others."""
    with ThreadPoolExecutor(1) as pool:
        honest = pool.submit(honest_calls_are_answered, server, 100)
        for _ in range(3):
            for source in sources:
                with connected(server.url, 1000 // len(sources), source) as links:
                    for link in links:
                        link.send(HALF_HEADERS)
        honest.result()


@pytest.mark.parametrize(("begin", "part"), [(HALF_HEADERS, "headers"), (HALF_BODY, "body")])
def test_a_byte_now_and_then_does_not_prolong_a_request(server: Server, begin: bytes, part: str) -> None:
    """The time of a request counts from its beginning; who drips is told so, in the format it asked for."""
    with connected(server.url) as (link,):
        link.send(begin)
        while not link.hears():
            link.send(b"x")
            time.sleep(0.1)
        answer = link.rest()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert f"The {part} of the request did not arrive within".encode() in answer
    assert b'{"errorresponse":{"uuidList":[],"errorcode":408' in answer


def test_idle_connections_are_closed(server: Server) -> None:
    """A kept connection is closed without a word when nothing comes; until then it takes the next call."""
    with connected(server.url) as (link,):
        for _ in range(3):
            link.send(WHOLE)
            assert link.answer().startswith(b"HTTP/1.1 401 ")
        assert link.rest() == b""


def test_connections_of_one_address_are_bounded(server: Server) -> None:
    """More than the bound are not kept; whoever comes last is served, those who waited longest go."""
    before = server.put_out()
    with connected(server.url, PROCESSES * PER_ADDRESS * 2, "127.0.0.7") as links:
        for link in links:
            link.send(HALF_HEADERS)
        with connected(server.url, source="127.0.0.7") as (late,):
            late.send(WHOLE)
            assert late.answer().startswith(b"HTTP/1.1 401 ")
        while server.put_out() < before + PROCESSES * PER_ADDRESS:
            time.sleep(0.1)


def test_who_is_being_answered_is_never_put_out(server: Server) -> None:
    """Connections that wait make room, those with a call in hand do not."""
    with ThreadPoolExecutor(THREADS) as pool:
        with server.held_up():
            calls = [pool.submit(server.admin.get, "listZones") for _ in range(THREADS)]
            with connected(server.url, PROCESSES * PER_ADDRESS * 3) as links:
                for link in links:
                    link.send(HALF_HEADERS)
                assert any(link.rest() == b"" for link in links)
        assert [call.result().status for call in calls] == [200] * THREADS


def test_answers_that_are_never_read_are_dropped(server: Server) -> None:
    """Who asks for a lot and reads nothing is hung up on, and its answers are forgotten."""
    with connected(server.url) as (link,):
        link.send(b"GET /client/api/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 64)
        while link.send(b"\r\n"):
            time.sleep(0.1)
    honest_calls_are_answered(server)


REQUESTED = b"POST /client/api?response=%s HTTP/1.1\r\nHost: x\r\n"
REFUSED = {
    "a URL without end": (b"GET /client/api?response=%s&x=" + b"x" * 200_000, 414, "as a form by POST"),
    "a header without end": (REQUESTED + b"A: " + b"x" * 300_000, 431, "headers are too large"),
    "many headers": (REQUESTED + b"A: b\r\n" * 200, 431, "headers are too large"),
    "two lengths": (REQUESTED + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "not valid HTTP"),
    "no length": (REQUESTED + b"Content-Length: -1\r\n\r\n", 400, "not valid HTTP"),
    "a header that is none": (REQUESTED + b"A b c\r\n\r\n", 400, "not valid HTTP"),
    "a large body": (REQUESTED + b"Content-Length: 99999999\r\n\r\n", 413, "at most 16777216 bytes"),
    "a large body in parts": (
        REQUESTED + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 257,
        413,
        "at most 16777216 bytes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_answers_of_the_api(server: Server, case: str) -> None:
    """What never becomes a call is told as CloudStack tells errors, in the format asked for, and the link ends."""
    sent, code, reported = REFUSED[case]
    for response in (b"json", b"xml"):
        with connected(server.url) as (link,):
            link.send(sent.replace(b"%s", response))
            head, _, body = link.rest().partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {code} ".encode())
        assert b"Connection: close" in head
        assert reported in body.decode()
        if response == b"json":
            assert json.loads(body)["errorresponse"]["errorcode"] == code
        else:
            assert ElementTree.fromstring(body).findtext("errorcode") == str(code)  # noqa: S314 - our own server


def test_bytes_that_are_not_http_get_400(server: Server) -> None:
    """Such as TLS on the port without it."""
    with connected(server.url) as (link,):
        link.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        answer = link.rest()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"<errorcode>400</errorcode>" in answer


@pytest.mark.parametrize("more", [b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b"Expect: 100-continue\r\n"])
def test_other_ways_of_asking_are_answered(server: Server, more: bytes) -> None:
    """Who would rather speak another protocol, or asks before it sends, is answered as anybody."""
    with connected(server.url) as (link,):
        link.send(REQUESTED.replace(b"%s", b"json") + more + b"Content-Length: 0\r\n\r\n")
        assert link.answer().startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 100 "))


def test_calls_in_one_go_are_answered_in_turn(server: Server) -> None:
    """Requests that a client sends without waiting for answers get them in their order."""
    with connected(server.url) as (link,):
        link.send(WHOLE.replace(b"json", b"xml") + WHOLE)
        answers = link.answer()
        while answers.count(b"HTTP/1.1 401 ") < 2:
            answers += link.answer()
    assert answers.index(b"text/xml") < answers.index(b"application/json")


def test_monitoring_needs_no_thread_of_calls(server: Server) -> None:
    """While every thread waits for the database, and calls wait for threads, the process says that it lives."""
    with ThreadPoolExecutor(PER_ADDRESS) as pool:
        with server.held_up():
            calls = [pool.submit(server.admin.get, "listZones") for _ in range(PROCESSES * THREADS * 3)]
            while server.waiting_for_locks() < PROCESSES * THREADS:  # one process may have taken most of them
                assert len(calls) < PER_ADDRESS
                calls.append(pool.submit(server.admin.get, "listZones"))
                time.sleep(0.1)
            for _ in range(PROCESSES * 3):
                assert server.watched("/health/live") == (200, '{"status":"live"}')
                assert server.watched("/metrics")[0] == 200
        assert {call.result().status for call in calls} == {200}


def test_calls_with_passwords_take_no_thread_of_others(server: Server) -> None:
    """While more calls than there are threads set passwords, and wait, other calls are answered.

    At most PASSWORD_THREADS calls with a password are under way in each process.
    """
    person = {"firstname": "Ann", "lastname": "Other", "email": "ann@example.com", "accounttype": 0}
    made = server.admin.call("createAccount", username="ann", password="her first password", **person)["account"]
    change = {"id": made["user"][0]["id"], "password": "her second password"}
    with ThreadPoolExecutor(PROCESSES * THREADS * 3) as pool:
        with psycopg.connect(server.database_url) as connection:
            connection.execute("SELECT FROM users WHERE username = 'ann' FOR UPDATE")
            calls = [pool.submit(server.admin.post, "updateUser", **change) for _ in range(PROCESSES * THREADS * 3)]
            while server.waiting_for_locks() < 1 and not any(call.done() for call in calls):
                time.sleep(0.1)
            honest_calls_are_answered(server)
            assert not any(call.done() for call in calls)
            # One that waited for too long may be about to try again: none waits at that moment.
            assert server.waiting_for_locks() <= PROCESSES * PASSWORD_THREADS
            connection.rollback()
        assert {call.result().status for call in calls} == {200}


def test_monitoring_has_its_own_address(server: Server) -> None:
    """Metrics and health are not at the address that a proxy shows to the world, and calls not at theirs."""
    assert server.watched("/health/ready") == (200, '{"status":"ready"}')
    for path in ("/health/live", "/health/ready", "/metrics"):
        assert server.admin.request("GET", path).status == 404
    assert server.watched("/client/api?command=listZones")[0] == 404
