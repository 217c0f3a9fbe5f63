"""The virtual cluster of ``cluster.sh``, in whose namespaces tests run: how to reach it, and its programs."""

import hashlib
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bulkdeploy.drivers.ganeti.options import GanetiOptions
from bulkdeploy.drivers.hosts import HostAddress
from tests.support.runs.waiting import say, wait_for

CLUSTER = os.environ.get("GANETI_CLUSTER")
"""Its directory."""

needs_cluster = pytest.mark.skipif(CLUSTER is None, reason="no virtual Ganeti cluster: make test-ganeti")

PATIENCE_S = 300.0
"""A job of Ganeti takes seconds of CPU."""


def gnt(*arguments: str) -> str:
    """Run a program of Ganeti on the master, and its output; a failure shows what it said."""
    done = subprocess.run([f"{CLUSTER}/node1/cmd", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def mirrored_cluster() -> Iterator[None]:
    """DRBD is among the cluster's disk templates, of files (``files_for_drbd.py``)."""
    both = "diskless,sharedfile"
    modify = partial(gnt, "gnt-cluster", "modify")
    modify(f"--enabled-disk-templates=drbd,{both}", "--vg-name=mirrored", "--drbd-usermode-helper=/bin/true")
    modify("--disk-parameters=drbd:metavg=mirrored")
    modify(f"--ipolicy-disk-templates=drbd,{both}")
    yield
    modify(f"--ipolicy-disk-templates={both}")
    modify(f"--enabled-disk-templates={both}", "--vg-name=", "--drbd-usermode-helper=")


def kill_daemons(node: str, *daemons: str) -> None:
    """Kill daemons of a node at once."""
    for daemon in daemons:
        file = pid_file(node, daemon)
        os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
        file.unlink()  # where it is of another user, nothing is started beside it


def start_daemons(node: str, *daemons: str) -> None:
    """Start those of a node's daemons that do not run, and wait until the master answers."""
    for daemon in daemons:
        if not pid_file(node, daemon).exists():
            assert run(node, "/usr/lib/ganeti/daemon-util", "start", daemon) == 0
    wait_for(
        lambda: run("node1", "gnt-instance", "list") == 0, "the master answers", pause_s=2, patience_s=PATIENCE_S
    )


def pid_file(node: str, daemon: str) -> Path:
    """Return the file with the process id of a node's daemon, which is there while the daemon runs."""
    return Path(f"{CLUSTER}/{node}/var/run/ganeti/{daemon}.pid")


def run(node: str, *command: str) -> int:
    """Run a program on a node, show what it complains of, and return its exit code."""
    done = subprocess.run([f"{CLUSTER}/{node}/cmd", *command], capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        say(f"{node}: {' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[:300]}")
    return done.returncode


def guest_files(node: str) -> dict[str, Path]:
    """Return the file that the hypervisor of a node has of each guest, by the instance's name."""
    return {path.name: path for path in Path(f"{CLUSTER}/{node}/var/run/ganeti/fake-hypervisor").iterdir()}


def set_offline(node: str, *, offline: bool) -> None:
    """Tell Ganeti that a node is off, or on again, as its operators do."""
    gnt("gnt-node", "modify", "--force", f"--offline={'yes' if offline else 'no'}", node)


def address(node: int) -> HostAddress:
    """A node as a host."""
    return HostAddress(uuid4(), f"node{node}", f"192.0.2.{9 + node}", "KVM", f"ganeti://node{node}")


def fingerprint() -> str:
    """SHA-256 of the certificate that the cluster's RAPI shows."""
    pem = Path(f"{CLUSTER}/node1/var/lib/ganeti/rapi.pem").read_text()
    start = pem.index("-----BEGIN CERTIFICATE-----")
    end = pem.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem[start:end])).hexdigest()


def options(**more: Any) -> GanetiOptions:
    """How to reach the cluster; one address is that of no master."""
    values = {
        "urls": ["https://192.0.2.11:5080", "https://192.0.2.10:5080"],
        "username": "bulkdeploy",
        "password": "secret",
        "fingerprint": fingerprint(),
        "hypervisor": "fake",
        "disk_template": "sharedfile",
        "nic_mode": "bridged",
        "nic_link": "br0",
        "cpu_mhz": 2000,
        **more,
    }
    return GanetiOptions.model_validate(values)
