"""Hosts for real guests on one machine: libvirt daemons of an ordinary user, with a folder that all of them share.

As root they run as ``nobody``; whoever runs the tests as somebody else is that ordinary user.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID, uuid4

from bulkdeploy.drivers.libvirt.probe_guest import boot_image

PROGRAM = "libvirtd"
NOBODY = 65534
PATIENCE_S = 60.0
RUNS = 20
"""Daemons that take each other's ports fail to start guests, so runs at the same time have ports of their own."""

REALLY = "BULKDEPLOY_REAL_GUESTS"
"""Variable that says that what real guests need is installed."""

HOMES = {
    "HOME": "home",
    "XDG_RUNTIME_DIR": "run",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_CACHE_HOME": "cache",
    "XDG_STATE_HOME": "state",
}


def why_not() -> str | None:
    """Why no real guests can be had here; None: they can."""
    if os.environ.get(REALLY) is None:
        return "real guests need packages: make test-kvm installs them"
    for program in (PROGRAM, "qemu-system-x86_64", "qemu-img"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
            return f"{program} is not installed: make test-kvm"
    return None


class LibvirtHost:
    """One daemon with its guests."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder / f"h{number}", number
        self.uuid = uuid4()
        self.name = f"kvm{number}"
        self._process: subprocess.Popen[bytes] | None = None
        for home in HOMES.values():
            (self.folder / home).mkdir(parents=True)
        (self.folder / "libvirtd.conf").write_text(f'host_uuid = "{uuid4()}"\nmax_client_requests = 20\n')
        config = self.folder / "config" / "libvirt"
        config.mkdir()
        screens = 5900 + 1000 * (os.getpid() % RUNS) + 200 * number
        migrations = 49152 + 800 * (os.getpid() % RUNS) + 100 * number
        (config / "qemu.conf").write_text(
            'stdio_handler = "file"\n'
            f"remote_display_port_min = {screens}\nremote_display_port_max = {screens + 199}\n"
            f"migration_port_min = {migrations}\nmigration_port_max = {migrations + 99}\n"
        )

    @property
    def url(self) -> str:
        """Where the driver finds it, with its name."""
        return f"qemu+unix:///session?socket={self._socket}#{self.name}"

    @property
    def _socket(self) -> Path:
        return self.folder / "run" / "libvirt" / "libvirt-sock"

    def start(self) -> None:
        """Start the daemon, or start it again: its guests have gone on."""
        paths = {variable: str(self.folder / home) for variable, home in HOMES.items()}
        program = shutil.which(PROGRAM, path=f"{os.environ.get('PATH', '')}:/usr/sbin") or PROGRAM
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    "--config",
                    self.folder / "libvirtd.conf",
                    "--pid-file",
                    self.folder / "pid",
                    "--timeout",
                    "0",
                ],
                env={**os.environ, **paths},
                stdout=log,
                stderr=log,
                user=NOBODY if os.geteuid() == 0 else None,
                group=NOBODY if os.geteuid() == 0 else None,
                extra_groups=[] if os.geteuid() == 0 else None,
            )

    def wait(self) -> None:
        """Until the daemon answers."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def _answers(self) -> bool:
        import libvirt

        try:
            libvirt.open(self.url.split("#")[0]).close()
        except libvirt.libvirtError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send the daemon a signal; a killed one is reaped."""
        assert self._process is not None
        self._process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._process.wait(PATIENCE_S)

    @property
    def is_alive(self) -> bool:
        """Whether the daemon has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def guest_pids(self) -> dict[UUID, int]:
        """The processes of its guests."""
        return guest_processes(self.folder / "run" / "libvirt" / "qemu" / "run")

    def stop(self) -> None:
        """End the guests, then the daemon."""
        for pid in self.guest_pids().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)


def guest_processes(folder: Path) -> dict[UUID, int]:
    """The processes of guests by the files that a daemon keeps of them."""
    found = {}
    for file in folder.glob("*.pid"):
        with suppress(OSError, ValueError):
            pid = int(file.read_text())
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found[UUID(arguments[arguments.index(b"-uuid") + 1].decode())] = pid
    return found


class LibvirtHosts:
    """Daemons that share a pool of volumes."""

    hypervisor, driver, image_format = "KVM", "libvirt", "RAW"

    def __init__(self, folder: Path, count: int, kind: type[LibvirtHost] = LibvirtHost) -> None:
        self.folder = folder
        self.pool, self.consoles = folder / "pool", folder / "consoles"
        self.other_pool_url: str | None = None
        self.hosts = [kind(folder, number) for number in range(1, count + 1)]
        for made in (self.pool, self.consoles):
            made.mkdir()
        if os.geteuid() == 0 and kind is LibvirtHost:
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)

    @property
    def driver_options(self) -> dict[str, object]:
        """Options of the driver for guests without rights: emulated, with networks of QEMU's own."""
        return {
            "virtualization": "qemu",
            "network": "user",
            "local_path": None,
            "console_log": f"{self.consoles}/{{uuid}}",
            "unsafe_migration": True,
            "keepalive_seconds": 1,
            "shutdown_seconds": 10,
            "socket_directories": [str(self.folder)],
        }

    @property
    def pool_url(self) -> str:
        """The shared folder, or another pool, as createStoragePool names it."""
        return self.other_pool_url or f"sharedmountpoint://localhost{self.pool}"

    def console(self, guest_uuid: UUID) -> str:
        """What a guest has written to its serial console."""
        file = self.consoles / str(guest_uuid)
        return file.read_text(errors="replace") if file.exists() else ""

    def says(self, guest_uuid: UUID) -> str:
        """The last line that a guest has written to its serial console."""
        lines = [line.strip() for line in self.console(guest_uuid).splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def write_image(self, path: Path) -> None:
        """Write the image of the guests: a boot sector."""
        path.write_bytes(boot_image())

    def running(self) -> dict[UUID, str]:
        """By guest, the name of the host that has its process; the same guest twice is an error."""
        found: dict[UUID, str] = {}
        for host in self.hosts:
            for guest in host.guest_pids():
                assert guest not in found, f"guest {guest} runs on {found[guest]} and {host.name}"
                found[guest] = host.name
        return found

    def clear(self) -> None:
        """Remove every guest and every file, so that another test begins with nothing."""
        import libvirt

        for host in self.hosts:
            connection = libvirt.open(host.url.split("#")[0])
            for domain in connection.listAllDomains():
                with suppress(libvirt.libvirtError):
                    if domain.isPersistent():
                        domain.undefine()
                    domain.destroy()
            for pool in connection.listAllStoragePools():
                with suppress(libvirt.libvirtError):
                    pool.destroy()
                    pool.undefine()
            connection.close()
        for file in [*self.pool.iterdir(), *self.consoles.iterdir()]:
            file.unlink()


@contextmanager
def libvirt_hosts(
    count: int, kind: type[LibvirtHost] = LibvirtHost, of: type[LibvirtHosts] = LibvirtHosts
) -> Iterator[LibvirtHosts]:
    """That many hosts, which end with the context."""
    import libvirt

    libvirt.registerErrorHandler(lambda *_: None, None)  # errors are raised; nobody reads them twice
    folder = Path(tempfile.mkdtemp(prefix="kvm-"))
    folder.chmod(0o755)
    made = of(folder, count, kind)
    try:
        for host in made.hosts:
            host.start()
        for host in made.hosts:
            host.wait()
        yield made
    finally:
        for host in made.hosts:
            host.stop()
        shutil.rmtree(folder, ignore_errors=True)
