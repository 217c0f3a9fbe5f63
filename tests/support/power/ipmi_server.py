"""A management controller with IPMI 2.0, pyghmi's, as a program: its power state is a file.

``python -m tests.support.power.ipmi_server FOLDER PORT``. FOLDER/power has ``on`` or ``off``; FOLDER/password the
password of the user ``admin``; while FOLDER/ignores exists, actions are accepted and nothing is done.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyghmi.ipmi.bmc import Bmc

USER_NUMBER = 2
GET_USER_ACCESS, GET_USER_NAME, SET_USER_PASSWORD = 0x44, 0x46, 0x47


class FileBmc(Bmc):  # type: ignore[misc]
    """A controller whose state is in files."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._users = {"admin": (folder / "password").read_text()}
        super().__init__(self._users, port, address="127.0.0.1")

    def get_power_state(self) -> str:
        """The power state."""
        return (self._folder / "power").read_text()

    def power_on(self) -> None:
        """Switch the server on."""
        self._set("on")

    def power_off(self) -> None:
        """Switch the server off."""
        self._set("off")

    power_cycle = power_reset = power_on
    power_shutdown = power_off

    def handle_raw_request(self, request: Any, session: Any) -> None:
        """Answer requests about the one user besides what pyghmi answers."""
        data = request["data"]
        if (request["netfn"], request["command"]) == (6, GET_USER_ACCESS):
            session.send_ipmi_response(data=[USER_NUMBER, 1, 0, 0x34])
        elif (request["netfn"], request["command"]) == (6, GET_USER_NAME):
            name = b"admin" if data[0] == USER_NUMBER else b""
            session.send_ipmi_response(data=list(name.ljust(16, b"\0")))
        elif (request["netfn"], request["command"]) == (6, SET_USER_PASSWORD):
            password = bytes(data[2:]).rstrip(b"\0").decode()
            self._users["admin"] = password
            (self._folder / "password").write_text(password)
            session.send_ipmi_response()
        else:
            super().handle_raw_request(request, session)

    def _set(self, power: str) -> None:
        if not (self._folder / "ignores").exists():
            (self._folder / "power").write_text(power)


@contextmanager
def ipmi(folder: Path, password: str) -> Iterator[int]:
    """Run a controller on the loopback interface whose server is on; its port."""
    (folder / "power").write_text("on")
    (folder / "password").write_text(password)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.power.ipmi_server", str(folder), str(port)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        while not (folder / "ready").exists():
            assert process.poll() is None, "the controller ended"
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    there = Path(sys.argv[1])
    controller = FileBmc(there, int(sys.argv[2]))
    (there / "ready").touch()
    controller.listen()
