"""The virtual cluster of ``cluster.sh``, in whose namespaces tests run: how to reach it, and its programs."""

import hashlib
import os
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
