"""A second, independent implementation of the API, over a real socket: CloudStack as upstream has it.

It shares no code with the product: requests are parsed, signatures checked and answers written here, after
the protocol's description. Jobs advance with a clock that a test may turn by hand.
"""

import base64
import hashlib
import hmac
import json
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from tests.cli.recorded_answers import LISTS, apis, deployment_apis
from tests.cli.recorded_jobs import JobBook, plan
from tests.support.runs.waiting import PATIENCE_S

API_KEY = "plgWJfZK4gyS3mOMTVmjUVg-X-jlWlnfaUJ9GAbBbf9EdM"
SECRET_KEY = "VDaACYb0LV9eNjTetIOElcVQkvJck_J_QljX_FcHRj87ZKiy"
PASSWORD = "hunter2 & more"
PAGE = 500


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, text: str, cserrorcode: int | None = 9999) -> None:
        self.status, self.text, self.cserrorcode = status, text, cserrorcode
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Seen:
    """One request: when (by the server's clock), how, and what it said."""

    when: float
    method: str
    command: str
    parameters: dict[str, str]
    target: str


@dataclass(slots=True)
class RecordedServer:
    """The server, and what a test may ask of it or do to it."""

    clock: Callable[[], float] = time.monotonic
    deployments: bool = False
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    jobs: JobBook = field(default_factory=JobBook)
    faults: deque[tuple[str, int, str]] = field(default_factory=deque)
    """Answers to give instead, to the next requests for a command: command, status, body."""
    ahead: timedelta = timedelta()
    """How much the server's idea of the time differs."""
    held: dict[str, threading.Event] = field(default_factory=dict)
    """Commands that are not answered before their event."""
    sessions: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    """Parameters of lists that the server does not know."""

    def requested(self, command: str) -> list[dict[str, str]]:
        """The parameters of every request for a command."""
        return [one.parameters for one in self.seen if one.command == command]

    def now(self) -> datetime:
        """The server's time of day."""
        return datetime.now(UTC) + self.ahead

    def answer(self, parameters: dict[str, str], query_string: bool) -> tuple[str, dict[str, Any]]:
        """The envelope's key and what is inside."""
        command = parameters.get("command", "")
        if command == "login":
            return "loginresponse", self._login(parameters, query_string)
        self._authenticate(parameters)
        if command == "logout":
            self.sessions.discard(parameters.get("sessionkey", ""))
            return "logoutresponse", {"description": "success"}
        key = f"{command.lower()}response"
        if command in LISTS:
            return key, self._listed(command, parameters)
        handler = getattr(self, f"_{command.lower()}", None)
        if handler is None or command not in {api["name"] for api in apis() + deployment_apis()}:
            raise Refused(432, f"The given command '{command}' either does not exist or is not available")
        return key, handler(parameters)

    def _login(self, parameters: dict[str, str], query_string: bool) -> dict[str, Any]:
        if query_string:
            raise Refused(405, "Please use HTTP POST to authenticate using this API")
        if (parameters.get("username"), parameters.get("password")) != ("admin", PASSWORD):
            raise Refused(531, "Failed to authenticate user; please provide valid credentials")
        key = uuid.uuid4().hex
        self.sessions.add(key)
        return {"username": "admin", "sessionkey": key, "timeout": 1800}

    def _authenticate(self, parameters: dict[str, str]) -> None:
        refusal = Refused(401, "unable to verify user credentials and/or request signature", None)
        if "apiKey" not in parameters:
            if parameters.get("sessionkey") not in self.sessions:
                raise refusal
            return
        if parameters["apiKey"] != API_KEY or parameters.get("signature") != signature_of(parameters):
            raise refusal
        if parameters.get("signatureVersion") == "3":
            expires = datetime.strptime(parameters.get("expires", ""), "%Y-%m-%dT%H:%M:%S%z")
            if expires < self.now():
                raise refusal

    def _listed(self, command: str, parameters: dict[str, str]) -> dict[str, Any]:
        if command == "listTemplates" and "templatefilter" not in parameters:
            raise Refused(
                431, "Unable to execute API command listtemplates due to missing parameter templatefilter"
            )
        key, rows = LISTS[command]
        for name in ("id", "name", "zoneid", "type"):
            if name in parameters:
                rows = [row for row in rows if str(row.get(name, parameters[name])) == parameters[name]]
        return paged(key, rows, parameters)

    def _listapis(self, parameters: dict[str, str]) -> dict[str, Any]:
        del parameters
        rows = apis() + (deployment_apis() if self.deployments else [])
        return {"count": len(rows), "api": rows}

    def _listvirtualmachines(self, parameters: dict[str, str]) -> dict[str, Any]:
        return paged("virtualmachine", self.jobs.virtual_machines(parameters, self.clock()), parameters)

    def _deployvirtualmachine(self, parameters: dict[str, str]) -> dict[str, Any]:
        self._known_offering(parameters)
        batch = self.jobs.start(1, self.clock(), names=parameters.get("name"))
        return {"id": batch.vm_id(0), "jobid": batch.job_id(0)}

    def _destroyvirtualmachine(self, parameters: dict[str, str]) -> dict[str, Any]:
        del parameters
        return {"jobid": self.jobs.start(1, self.clock()).job_id(0)}

    def _bulkdeployvirtualmachine(self, parameters: dict[str, str]) -> dict[str, Any]:
        self._known_offering(parameters)
        count = int(parameters["virtualmachinecount"])
        if self.deployments and parameters.get("dryrun") == "true":
            return {"plan": plan(count)}
        batch = self.jobs.start(count, self.clock(), deployment=self.deployments)
        rows = [batch.row(number, self.clock()) for number in range(count)]
        return {"count": count, "asyncjobs": rows}

    def _queryasyncjobresult(self, parameters: dict[str, str]) -> dict[str, Any]:
        row = self.jobs.find(parameters.get("jobid", ""), self.clock())
        if row is None:
            raise Refused(431, f"Invalid parameter jobid value={parameters.get('jobid')}: entity does not exist")
        return row

    def _listasyncjobs(self, parameters: dict[str, str]) -> dict[str, Any]:
        deployment = None if "deploymentid" in self.ignored else parameters.get("deploymentid")
        answer = paged("asyncjobs", self.jobs.places(deployment, self.clock()), parameters)
        if "asyncjobs" in answer:
            answer["asyncjobs"] = [batch.row(number, self.clock()) for batch, number in answer["asyncjobs"]]
        return answer

    def _listbulkdeployments(self, parameters: dict[str, str]) -> dict[str, Any]:
        batches = [one for one in self.jobs.batches if one.deployment]
        if "id" in parameters and "id" not in self.ignored:
            batches = [one for one in batches if one.deployment == parameters["id"]]
            if not batches:
                raise Refused(431, f"Invalid parameter id value={parameters['id']}: entity does not exist")
        return paged("bulkdeployment", [one.summary(self.clock()) for one in batches], parameters)

    def _updatezone(self, parameters: dict[str, str]) -> dict[str, Any]:
        return {
            "zone": {"id": parameters["id"], "name": parameters.get("name", "Demo"), "allocationstate": "Enabled"}
        }

    def _getuserkeys(self, parameters: dict[str, str]) -> dict[str, Any]:
        del parameters
        return {"userkeys": {"apikey": API_KEY, "secretkey": SECRET_KEY}}

    @staticmethod
    def _known_offering(parameters: dict[str, str]) -> None:
        if parameters.get("serviceofferingid") != LISTS["listServiceOfferings"][1][0]["id"]:
            raise Refused(
                431, "Unable to execute API command due to invalid value. serviceofferingid does not exist", 4350
            )


def paged(key: str, rows: list[Any], parameters: dict[str, str]) -> dict[str, Any]:
    """A list as the protocol has it: the total beside one page; nothing found is an empty object."""
    size = int(parameters.get("pagesize", PAGE))
    if size > PAGE:
        raise Refused(431, f"Page size can't exceed max allowed page size value: {PAGE}")
    start = (int(parameters.get("page", 1)) - 1) * size
    answer: dict[str, Any] = {"count": len(rows)} if rows else {}
    return answer | ({key: rows[start : start + size]} if rows[start : start + size] else {})


def signature_of(parameters: dict[str, str]) -> str:
    """The signature by the letter of the protocol, with Java's encoding but for ``~``."""
    named = sorted((name, value) for name, value in parameters.items() if name != "signature")
    text = "&".join(f"{name}={quote(value, safe='.-*_~')}" for name, value in named).lower()
    return base64.b64encode(hmac.digest(SECRET_KEY.encode(), text.encode(), hashlib.sha1)).decode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one write: two would wait for each other's acknowledgement
    server: "_Listener"

    def do_GET(self) -> None:
        self._handle("GET", urlsplit(self.path).query)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._handle("POST", body)

    def _handle(self, method: str, text: str) -> None:
        recorded = self.server.recorded
        parameters = dict(parse_qsl(text, keep_blank_values=True))
        command = parameters.get("command", "")
        recorded.seen.append(Seen(recorded.clock(), method, command, parameters, self.path))
        if command in recorded.held:
            recorded.held[command].wait(PATIENCE_S)
        if recorded.faults and recorded.faults[0][0] in (command, "*"):
            _, status, body = recorded.faults.popleft()
            self._send(status, body.encode(), "application/json" if body.startswith("{") else "text/html")
            return
        try:
            key, inner = recorded.answer(parameters, method == "GET")
            self._send(200, json.dumps({key: inner}).encode())
        except Refused as refused:
            error = {"uuidList": [], "errorcode": refused.status, "errortext": refused.text}
            if refused.cserrorcode is not None:
                error["cserrorcode"] = refused.cserrorcode
            self._send(refused.status, json.dumps({f"{command.lower() or 'error'}response": error}).encode())

    def _send(self, status: int, body: bytes, kind: str = "application/json; charset=UTF-8") -> None:
        self.send_response_only(status, "Answer")
        self.send_header("Date", format_datetime(self.server.recorded.now(), usegmt=True))
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Tests read what was asked from ``seen``."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, recorded: RecordedServer) -> None:
        self.recorded = recorded
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away before they were answered: tests let some do so."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(recorded: RecordedServer) -> Iterator[RecordedServer]:
    """Serve on a free port until the block ends."""
    listener = _Listener(recorded)
    recorded.url = f"http://127.0.0.1:{listener.server_port}/client/api"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield recorded
    finally:
        for event in recorded.held.values():
            event.set()
        listener.shutdown()
        thread.join()
        listener.server_close()
