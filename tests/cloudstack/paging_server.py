"""A small server with CloudStack's habits: pages that repeat rows and lose others, limits on pages and on calls.

It shares no code with the product: signatures are checked and answers written here, after the protocol.
"""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

API_KEY, SECRET_KEY = "a key", "a secret"


@dataclass(slots=True)
class PagingServer:
    """What it answers, and what it was asked.

    Attributes:
        lists: key of the rows in the answer, and the rows, by command.
        most_rows: the largest page that it gives.
        shifted: numbers of the list calls before which rows move by one: one row comes twice, another not at all.
        unknown: ids that it does not know, and refuses lists for.
        names_unknown: whether such a refusal names the first of them.
        answers: status, headers and body that the next requests get instead of their own.
        seen: method and parameters of each request.
        written: what changing commands were executed.
    """

    url: str = ""
    lists: dict[str, tuple[str, list[dict[str, Any]]]] = field(default_factory=dict)
    most_rows: int = 500
    shifted: set[int] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    names_unknown: bool = True
    answers: list[tuple[int, dict[str, str], bytes] | None] = field(default_factory=list)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    def answer(self, method: str, given: dict[str, str]) -> tuple[int, dict[str, str], bytes] | None:
        """What a request gets; None: the connection is closed without a word."""
        self.seen.append((method, given))
        command = given.get("command", "")
        if not _is_signed(given):
            return self._error(command, 401, "unable to verify user credentials and/or request signature")
        if self.answers:
            instead = self.answers.pop(0)
            if instead is None and not command.startswith("list"):
                self.written.append(command)
            return instead
        if command not in self.lists:
            self.written.append(command)
            return self._ok(command, {"success": True})
        return self._page(command, given)

    def _page(self, command: str, given: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        key, rows = self.lists[command]
        if "ids" in given:
            wanted = given["ids"].split(",")
            if unknown := [one for one in wanted if one in self.unknown]:
                value = unknown[0] if self.names_unknown else "of one"
                return self._error(command, 431, f"Invalid parameter ids value={value}: entity does not exist")
            rows = [row for row in rows if row["id"] in wanted]
        if "page" not in given:
            return self._ok(command, {"count": len(rows), key: rows} if rows else {})
        size, page = int(given["pagesize"]), int(given["page"])
        if size > self.most_rows:
            return self._error(
                command, 431, f"Page size can't exceed max allowed page size value: {self.most_rows}"
            )
        start = size * (page - 1)
        if len(self.seen) in self.shifted:
            start = max(start - 1, 0)
        shown = rows[start : start + size]
        return self._ok(command, ({"count": len(rows)} if rows else {}) | ({key: shown} if shown else {}))

    def _ok(self, command: str, inner: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, json.dumps({f"{command.lower()}response": inner}).encode()

    def _error(self, command: str, code: int, text: str) -> tuple[int, dict[str, str], bytes]:
        inner = {"uuidList": [], "errorcode": code, "cserrorcode": 4350, "errortext": text}
        return code, {}, json.dumps({f"{command.lower()}response": inner}).encode()


def _is_signed(given: dict[str, str]) -> bool:
    if given.get("signatureVersion") != "3" or given.get("apiKey") != API_KEY:
        return False
    if datetime.strptime(given["expires"], "%Y-%m-%dT%H:%M:%S%z") < datetime.now(UTC):
        return False
    pairs = sorted((name, value) for name, value in given.items() if name != "signature")
    text = "&".join(f"{name}={quote(value, safe='*').replace('~', '%7E')}" for name, value in pairs).lower()
    right = base64.b64encode(hmac.new(SECRET_KEY.encode(), text.encode(), hashlib.sha1).digest()).decode()
    return right == given.get("signature")


@contextmanager
def paging_server() -> Iterator[PagingServer]:
    """The server on a free port; it has no rows yet."""
    server = PagingServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve("GET", urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._serve("POST", self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _serve(self, method: str, query: str) -> None:
            answer = server.answer(method, dict(parse_qsl(query, keep_blank_values=True)))
            if answer is None:
                self.close_connection = True
                return
            status, headers, body = answer
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_port}/client/api"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
