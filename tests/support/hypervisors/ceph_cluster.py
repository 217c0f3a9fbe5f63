"""A real Ceph on this machine: a monitor, a manager and one OSD, whose device is a file. No systemd starts them."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from bulkdeploy.embedded.valkey import free_port

PROGRAMS = ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph", "rbd", "ceph-authtool", "monmaptool")
PATIENCE_S = 120.0
POOL, USER = "vms", "bulkdeploy"
DEVICE_BYTES = 4 << 30
SETTINGS = """[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{port}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
osd pool default size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon max pg per osd = 500
mon data avail crit = 1
auth allow insecure global id reclaim = false
keyring = {folder}/keyring
run dir = {folder}
admin socket = {folder}/$name.asok
log file = {folder}/$name.log
pid file =
[mon]
mon data = {folder}/mon
ms bind msgr1 = false
[mgr]
mgr data = {folder}/mgr
[osd]
osd data = {folder}/osd
osd journal size = 100
osd memory target = 939524096
bluestore block size = {device_bytes}
bluestore block create = true
bluestore fsck on mount = false
osd client watch timeout = 30
"""


def why_no_ceph() -> str | None:
    """Return why no Ceph can be started here, or None if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed: make test-ceph" if missing else None


class CephCluster:
    """A cluster with one RBD pool, and a user with the capabilities of OpenStack's and CloudStack's guides."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.secret = ""
        settings = SETTINGS.format(fsid=uuid4(), port=self.port, folder=folder, device_bytes=DEVICE_BYTES)
        (folder / "ceph.conf").write_text(settings)

    @property
    def monitor(self) -> str:
        """The address of the monitor."""
        return f"127.0.0.1:{self.port}"

    @property
    def pool_url(self) -> str:
        """The pool as createStoragePool names it; CloudStack's clients replace + and / of the secret."""
        secret = self.secret.replace("+", "-").replace("/", "_")
        return f"rbd://{USER}:{secret}@{self.monitor}/{POOL}"

    def ceph(self, *arguments: str) -> str:
        """Run the program ceph as the cluster's administrator, and return its output."""
        return self._run("ceph", "--connect-timeout", "20", *arguments)

    def rbd(self, *arguments: str) -> str:
        """Run the program rbd as the cluster's administrator, and return its output."""
        return self._run("rbd", *arguments)

    def images(self) -> set[str]:
        """Return the names of all images of the pool."""
        return set(json.loads(self.rbd("ls", POOL, "--format", "json")))

    def clients(self, image: str) -> set[str]:
        """Return the addresses of clients that have an image open."""
        status = json.loads(self.rbd("status", f"{POOL}/{image}", "--format", "json"))
        return {one["address"] for one in status["watchers"]}

    def blocked_clients(self) -> set[str]:
        """Return the addresses of all blocked clients."""
        printed = self.ceph("osd", "blocklist", "ls", "--format", "json").strip()
        blocked, _ = json.JSONDecoder().raw_decode(printed)  # a count follows
        return {one["addr"] for one in blocked}

    def start(self) -> None:
        """Create the cluster, and wait until its pool can be written to."""
        keyring = str(self.folder / "keyring")
        capabilities = ("--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
        self._run("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", *capabilities[:3])
        self._run("ceph-authtool", keyring, "--gen-key", "-n", "client.admin", *capabilities)
        for daemon in ("mgr.x", "osd.0"):
            self._run("ceph-authtool", keyring, "--gen-key", "-n", daemon, *capabilities)
        monitors = str(self.folder / "monmap")
        fsid = next(line for line in (self.folder / "ceph.conf").read_text().splitlines() if "fsid" in line)
        address = f"[v2:127.0.0.1:{self.port}]"
        self._run("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid.split()[-1], monitors)
        for name in ("mon", "mgr", "osd"):
            (self.folder / name).mkdir()
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors, "--keyring", keyring)
        self._begin("ceph-mon", "a")
        osd = str(uuid4())
        self.ceph("osd", "new", osd, "0")
        self.ceph("auth", "import", "-i", keyring)
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._begin("ceph-mgr", "x")
        self._begin("ceph-osd", "0")
        self.ceph("osd", "pool", "create", POOL)
        self.rbd("pool", "init", POOL)
        of_pool = f"profile rbd pool={POOL}"
        rights = ("mon", "profile rbd", "osd", of_pool, "mgr", of_pool)
        made = self.ceph("auth", "get-or-create-key", f"client.{USER}", *rights)
        self.secret = made.strip()
        deadline = time.monotonic() + PATIENCE_S
        while POOL not in self.ceph("df"):
            assert time.monotonic() < deadline, "the manager reports no sizes"
            time.sleep(0.2)

    def clear(self) -> None:
        """Remove all images; templates last, because volumes are clones of them."""
        for image in sorted(self.images(), key=lambda name: name.startswith("template-")):
            for client in self.clients(image):
                self.ceph("osd", "blocklist", "add", client)
            for snapshot in json.loads(self.rbd("snap", "ls", f"{POOL}/{image}", "--format", "json")):
                if snapshot["protected"] == "true":
                    self.rbd("snap", "unprotect", f"{POOL}/{image}@{snapshot['name']}")
            self.rbd("snap", "purge", f"{POOL}/{image}")
            self.rbd("rm", f"{POOL}/{image}")

    def stop(self) -> None:
        """Kill all daemons."""
        for process in self._processes:
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)

    def _begin(self, program: str, name: str) -> None:
        with (self.folder / f"{program}.out").open("wb") as output:
            command = [program, "-f", "-i", name, "-c", str(self.folder / "ceph.conf")]
            self._processes.append(subprocess.Popen(command, stdout=output, stderr=output))

    def _run(self, program: str, *arguments: str) -> str:
        environment = {**os.environ, "CEPH_CONF": str(self.folder / "ceph.conf")}
        ended = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, env=environment, check=False
        )
        assert ended.returncode == 0, f"{program} {' '.join(arguments)}: {ended.stderr}"
        return ended.stdout


@contextmanager
def ceph_cluster() -> Iterator[CephCluster]:
    """A cluster that ends with the context."""
    folder = Path(tempfile.mkdtemp(prefix="ceph-"))
    folder.chmod(0o755)
    made = CephCluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
