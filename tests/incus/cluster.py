"""The cluster that ``cluster.sh`` made, in whose namespaces this runs."""

import hashlib
import os
import random
import re
import signal
import ssl
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from bulkdeploy.drivers.incus.driver import access_of
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import Incus, path_of
from tests.incus.image import why_no_image, write_image

CLUSTER = os.environ.get("INCUS_CLUSTER")
MEMBERS = 2
PATIENCE_S = 300.0
GUEST = re.compile(r"(?<=vm-)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def why_not() -> str | None:
    """Why nothing can be tried here; None: it can."""
    return "no Incus cluster: make test-incus" if CLUSTER is None else why_no_image()


def driver_options(**more: Any) -> dict[str, Any]:
    """How to reach the cluster: over TLS, with the certificate of a client that it trusts."""
    pem = Path(f"{CLUSTER}/1/cluster.crt").read_text()
    return {
        "urls": [f"https://192.0.2.{10 + number}:8443" for number in range(1, MEMBERS + 1)],
        "certificate": f"{CLUSTER}/client.crt",
        "key": f"{CLUSTER}/client.key",
        "fingerprint": hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest(),
        "storage_pools": {"shared": "local"},
        "default_label": "guests",
        "shutdown_seconds": 5,
        **more,
    }


_booted: list["subprocess.Popen[bytes]"] = []
"""Starters of members that were booted again; they run until the members end."""


class Member:
    """One member: its daemon, and the namespaces in which all that is its own runs."""

    def __init__(self, number: int) -> None:
        self.number, self.name = number, f"member{number}"

    @property
    def url(self) -> str:
        """As addHost is given it."""
        return f"incus://{self.name}"

    def signal_daemon(self, number: signal.Signals) -> None:
        """Send the daemon a signal; one that ends is started again."""
        for pid in self._pids():
            if _command(pid) == "incusd":
                os.kill(pid, number)

    def cut_power(self) -> None:
        """End all that runs there, at once."""
        first = self._first()
        if first is not None:
            os.kill(first, signal.SIGKILL)

    def boot(self) -> None:
        """Boot it after its power was cut."""
        command = [f"{CLUSTER}/boot", str(self.number)]
        _booted.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True))

    def incus(self, *words: str, timeout_s: float = PATIENCE_S) -> str:
        """What ``incus`` says there, as an operator runs it.

        Raises:
            subprocess.SubprocessError: it failed, or took too long.
        """
        environment = {**os.environ, "INCUS_DIR": f"{CLUSTER}/{self.number}"}
        command = ["incus", *words]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=True
        )
        return done.stdout

    def answers(self) -> bool:
        """Whether its daemon does, as a member of the cluster."""
        try:
            self.incus("list", timeout_s=30)
        except subprocess.SubprocessError:
            return False
        return True

    def wait(self) -> None:
        """Wait until it answers, and then until it takes requests about instances, which it does later."""
        ends = time.monotonic() + PATIENCE_S
        while not self.answers():
            assert time.monotonic() < ends, f"{self.name} does not come back"
            time.sleep(0.5)
        self.incus("admin", "waitready", f"--timeout={PATIENCE_S:.0f}", timeout_s=PATIENCE_S + 30)

    def guests(self) -> dict[UUID, int]:
        """First processes of the containers that run there, by guest."""
        found = {}
        for pid in self._pids():
            name = _command(pid)
            if name.startswith("[lxc monitor]") and (guest := GUEST.search(name)) is not None:
                children = (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()
                if children:
                    found[UUID(guest[0])] = int(children[0])
        return found

    def kill_guest(self, chance: random.Random) -> int:
        """End a container's first process; how many there were."""
        found = self.guests()
        if found:
            with suppress(ProcessLookupError):
                os.kill(found[chance.choice(sorted(found))], signal.SIGKILL)
        return len(found)

    def _first(self) -> int | None:
        """The first process of its namespaces."""
        script = f"member.sh {self.number} {CLUSTER}"
        found = [pid for pid in _all_pids() if script in _command(pid) and "unshare" not in _command(pid)]
        return min(found, default=None)

    def _pids(self) -> list[int]:
        """All that runs in its namespaces, containers aside."""
        first = self._first()
        if first is None:
            return []
        namespace = _namespace(first)
        return [pid for pid in _all_pids() if _namespace(pid) == namespace]


class IncusHosts:
    """The members, as hosts of a real cloud."""

    hypervisor, driver, image_format = "LXC", "incus", "TAR"
    pool_url = "sharedmountpoint://localhost/local"

    def __init__(self) -> None:
        self.hosts = [Member(number) for number in range(1, MEMBERS + 1)]

    @property
    def driver_options(self) -> dict[str, Any]:
        """See RealHosts."""
        return driver_options()

    def write_image(self, path: Path) -> None:
        """See RealHosts."""
        write_image(path)

    def running(self) -> dict[UUID, str]:
        """By guest, the member that has its processes; the same guest twice is an error."""
        found: dict[UUID, str] = {}
        for member in self.hosts:
            for guest in member.guests():
                assert guest not in found, f"guest {guest} runs on {found[guest]} and {member.name}"
                found[guest] = member.name
        return found

    def remains(self) -> list[str]:
        """Instances and volumes that the cluster still has."""
        incus = Incus(access_of(IncusOptions.model_validate(driver_options())))
        try:
            lists = (path_of("instances"), path_of("storage-pools", "local", "volumes", "custom"))
            return [
                str(one) for where in lists for one in incus.send("GET", where, timeout_s=PATIENCE_S).value or ()
            ]
        finally:
            incus.close()


def _all_pids() -> list[int]:
    return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]


def _command(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""
