"""Hosts with bridges and filters on one machine: libvirt daemons of root's, in namespaces of their own, joined."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from tests.support.hypervisors.libvirt_hosts import (
    PROGRAM,
    LibvirtHost,
    LibvirtHosts,
    guest_processes,
    libvirt_hosts,
)

NAMESPACES = """
set -eu
mkdir -p "$1/etc" "$1/lib" "$1/var" "$1/run/libvirt"
mount --make-rprivate /
cp -an /etc/libvirt/. "$1/etc/"
mount --bind "$1/etc" /etc/libvirt
mount --bind "$1/lib" /var/lib/libvirt
mount --bind "$1/var" /var/cache/libvirt
mount --bind "$1/var" /var/log/libvirt
mkdir -p /run/libvirt
mount --bind "$1/run/libvirt" /run/libvirt
ip link set lo up
ip link add cloudbr0 address "02:ff:00:00:00:$2" type bridge
ip link set cloudbr0 up
shift 2
exec "$@"
"""
"""A root's daemon in namespaces of its own: nothing of the machine's own libvirt and network is touched."""


class BridgedHost(LibvirtHost):
    """A daemon of root's in a network of its own, with a bridge: it can filter. Its guests run as root."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__(folder, number)
        (self.folder / "etc").mkdir()
        (self.folder / "config.sh").write_text(NAMESPACES)
        with (self.folder / "libvirtd.conf").open("a") as config:
            config.write('auth_unix_rw = "none"\n')
        (self.folder / "etc" / "qemu.conf").write_text(
            'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nstdio_handler = "file"\n'
            "cgroup_controllers = []\nnamespaces = []\n"
            f"migration_port_min = {49152 + 100 * number}\nmigration_port_max = {49251 + 100 * number}\n"
        )

    @property
    def url(self) -> str:
        """Where the driver finds it, with its name."""
        return f"qemu+unix:///system?socket={self._socket}#{self.name}"

    def start(self) -> None:
        """Start the daemon in new namespaces."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(
                        "unshare",
                        "--mount",
                        "--net",
                        "sh",
                        self.folder / "config.sh",
                        self.folder,
                        f"{self.number:02}",
                        PROGRAM,
                    ),
                    *(
                        "--config",
                        self.folder / "libvirtd.conf",
                        "--pid-file",
                        self.folder / "pid",
                        "--timeout",
                        "0",
                    ),
                ],
                env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
                stdout=log,
                stderr=log,
            )

    def guest_pids(self) -> dict[UUID, int]:
        """The processes of its guests."""
        return guest_processes(self.folder / "run" / "libvirt" / "qemu")

    @property
    def pid(self) -> int:
        """The daemon's process, whose network is the host's."""
        assert self._process is not None
        return self._process.pid

    @property
    def ip_address(self) -> str:
        """Of its bridge, which all hosts and their guests are joined to."""
        return f"10.8.255.{self.number}"


def run_in_network(pid: int, *command: str) -> str:
    """What a command says that runs in the network of a process."""
    nsenter = ["nsenter", "--net", "--target", str(pid), *command]
    return str(subprocess.run(nsenter, check=True, capture_output=True, text=True).stdout)


@contextmanager
def bridged_hosts(count: int) -> Iterator[LibvirtHosts]:
    """That many hosts of root's with one network, as if a switch joined them."""
    with libvirt_hosts(count, BridgedHost) as made:
        bridged = [host for host in made.hosts if isinstance(host, BridgedHost)]
        for host in bridged:
            run_in_network(host.pid, "ip", "address", "add", f"{host.ip_address}/16", "dev", "cloudbr0")
            if host is not bridged[0]:
                join(host.pid, bridged[0].pid, f"to-{host.number}")
        yield made


def join(pid: int, bridge_pid: int, name: str) -> None:
    """Join the network of one process, by its bridge if it has one, to the bridge in that of another."""
    run_in_network(
        bridge_pid, "ip", "link", "add", name, "type", "veth", "peer", "name", "outside", "netns", str(pid)
    )
    run_in_network(bridge_pid, "ip", "link", "set", name, "master", "cloudbr0", "up")
    run_in_network(pid, "ip", "link", "set", "outside", "up")
    if "cloudbr0" in run_in_network(pid, "ip", "-brief", "link"):
        run_in_network(pid, "ip", "link", "set", "outside", "master", "cloudbr0")
