"""A cluster of Proxmox VE as its HTTP API shows it: machines with numbers, which are free until a creation begins.

Source: the public description of the API, https://pve.proxmox.com/pve-docs/api-viewer/. Only what extensions for
machines of QEMU ask for is there.
"""

import json
import random
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.processes.certificates import self_signed

PORT = 8006
"""Extensions know no other."""

NODE = "pve1"
TEMPLATE = "9000"
FIRST_NUMBER = 100


class RefusedError(Exception):
    """The API refuses a request, with a status of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


@dataclass
class ProxmoxCluster:
    """The machines by number, and what was asked for; safe to share between threads.

    Attributes:
        address: a loopback address of its own.
        machines: name and power by number.
        strangers: how many of the next creations somebody else forestalls, with a machine under the same number.
        removed: names of the machines that were stopped or deleted, in order.
    """

    address: str
    machines: dict[str, dict[str, str]] = field(default_factory=dict)
    strangers: int = 0
    removed: list[str] = field(default_factory=list)
    tasks: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, path: str, given: dict[str, str]) -> Any:
        """Return the data of an answer.

        Raises:
            RefusedError: the API refuses the request.
        """
        parts = [unquote(part) for part in path.removeprefix("/api2/json/").strip("/").split("/")]
        with self.lock:
            match [method, *parts]:
                case ["GET", "cluster", "nextid"]:
                    return self._next_number(given.get("vmid"))
                case ["GET", "nodes", str(), "tasks", upid, "status"]:
                    return {"status": "stopped", "exitstatus": self.tasks[upid]}
                case ["GET", "nodes", str(), "qemu"]:
                    return [{"vmid": int(number), **one} for number, one in self.machines.items()]
                case ["POST", "nodes", str(), "qemu", template, "clone"] if template == TEMPLATE:
                    return self._clone(given["newid"], given["name"])
                case ["POST" | "PUT", "nodes", str(), "qemu", number, "config"]:
                    self._machine(number)
                    return self._task("OK")
                case ["GET", "nodes", str(), "qemu", number, "status", "current"]:
                    return dict(self._machine(number))
                case ["POST", "nodes", str(), "qemu", number, "status", action]:
                    return self._switch(number, action)
                case ["DELETE", "nodes", str(), "qemu", number]:
                    return self._delete(number)
        raise RefusedError(501, f"Method '{method} {path}' not implemented")

    def names(self) -> dict[str, str]:
        """Return the power of every machine by its name, of which each is there once."""
        with self.lock:
            found = {one["name"]: one["status"] for one in self.machines.values()}
            assert len(found) == len(self.machines)
        return found

    def _next_number(self, wanted: str | None) -> str:
        if wanted is not None:
            if wanted in self.machines:
                raise RefusedError(400, f"VM {wanted} already exists")
            return wanted
        return str(next(number for number in range(FIRST_NUMBER, 10**6) if str(number) not in self.machines))

    def _clone(self, number: str, name: str) -> str:
        if self.strangers and number not in self.machines:
            self.strangers -= 1
            self.machines[number] = {"name": f"stranger-{number}", "status": "running"}
        if number in self.machines:
            raise RefusedError(500, f"unable to create VM {number}: config file already exists")
        self.machines[number] = {"name": name, "status": "stopped"}
        return self._task("OK")

    def _machine(self, number: str) -> dict[str, str]:
        if number not in self.machines:
            raise RefusedError(500, f"Configuration file 'nodes/{NODE}/qemu-server/{number}.conf' does not exist")
        return self.machines[number]

    def _switch(self, number: str, action: str) -> str:
        machine = self._machine(number)
        if action == "stop":
            self.removed.append(machine["name"])
        machine["status"] = "stopped" if action == "stop" else "running"
        return self._task("OK")

    def _delete(self, number: str) -> str:
        machine = self._machine(number)
        if machine["status"] == "running":
            return self._task(f"VM {number} is running - destroy failed")
        self.removed.append(machine["name"])
        del self.machines[number]
        return self._task("OK")

    def _task(self, end: str) -> str:
        upid = f"UPID:{NODE}:{len(self.tasks):08X}:task:root@pam!token:"
        self.tasks[upid] = end
        return upid


@contextmanager
def proxmox_cluster(folder: Path) -> Iterator[ProxmoxCluster]:
    """A cluster that answers over TLS, at a loopback address of its own, until the context ends."""
    numbers = random.SystemRandom()
    address = f"127.{numbers.randrange(2, 250)}.{numbers.randrange(250)}.{numbers.randrange(2, 250)}"
    cluster = ProxmoxCluster(address)

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            given = {key: values[0] for key, values in parse_qs(f"{parts.query}&{body}").items()}
            try:
                status, content = 200, json.dumps({"data": cluster.answer(self.command, parts.path, given)})
            except RefusedError as error:
                status, content = error.status, json.dumps({"data": None, "message": str(error)})
            time.sleep(0.02)  # so that calls at the same time meet
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content.encode())

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - names of the library's

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((address, PORT), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = self_signed(folder)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield cluster
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
