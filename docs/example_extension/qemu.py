#!/usr/bin/env python3
"""An extension that runs guests as QEMU processes, in folders under externaldetails.extension.folder.

QEMU_EXTENSION ACTION PAYLOAD.json SECONDS. A guest is a folder with a disk; it runs while its process does.
externaldetails.virtualmachine.image: the disk it starts from. externaldetails.extension.accelerator: tcg or kvm.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

QEMU = "qemu-system-x86_64"
ADDRESS, FIRST_PORT = "127.0.0.1", 5900


class Refused(Exception):
    """The action can not be done; the text says why."""


class Guest:
    """A guest's folder."""

    def __init__(self, payload: dict) -> None:
        external = payload["externaldetails"]
        self.vm = payload["cloudstack.vm.details"]
        self.image = external.get("virtualmachine", {}).get("image")
        self.accelerator = external["extension"].get("accelerator", "tcg")
        self.folder = Path(external["extension"]["folder"]) / self.vm["name"]

    @property
    def pid(self) -> int | None:
        """Its process; None: it does not run."""
        try:
            pid = int((self.folder / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.folder).encode() in command else None

    def create(self) -> None:
        """A folder with a disk, and the guest running; a name that is taken is refused."""
        if self.image is None:
            raise Refused("externaldetails.virtualmachine.image is missing")
        try:
            self.folder.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            raise Refused(f"there is a guest {self.vm['name']}") from None
        try:
            shutil.copyfile(self.image, self.folder / "disk")
            self.start()
        except (OSError, Refused):
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def start(self) -> None:
        """QEMU in the background; its serial console goes into a file."""
        if not self.folder.is_dir():
            raise Refused(f"there is no guest {self.vm['name']}")
        if self.pid is not None:
            return
        command = [QEMU, "-name", self.vm["name"], "-accel", self.accelerator, "-display", "none", "-daemonize"]
        command += ["-smp", str(self.vm["cpus"]), "-m", f"{self.vm['minRam'] >> 20}M"]
        command += ["-drive", f"file={self.folder}/disk,format=raw", "-nic", "none"]
        command += ["-serial", f"file:{self.folder}/console", "-pidfile", f"{self.folder}/pid"]
        command += ["-object", f"secret,id=screen,file={self.folder}/password"]
        command += ["-vnc", f"{ADDRESS}:{self.choose_port() - FIRST_PORT},password-secret=screen"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refused(done.stderr.strip())

    def choose_port(self) -> int:
        """A port for its screen, and a password; both are kept in its folder, which is the user's alone."""
        with socket.create_server((ADDRESS, 0)) as free:
            port = free.getsockname()[1]
        (self.folder / "port").write_text(str(port))
        (self.folder / "password").write_text(secrets.token_hex(4))
        return port

    def screen(self) -> dict:
        """Where its screen is."""
        if self.pid is None:
            raise Refused("it does not run")
        port, password = ((self.folder / name).read_text() for name in ("port", "password"))
        return {"protocol": "vnc", "host": ADDRESS, "port": port, "password": password}

    def stop(self) -> None:
        """As if its power were cut; one that does not run is fine."""
        while (pid := self.pid) is not None:
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def delete(self) -> None:
        """Stopped, and its folder gone; absent is fine."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def state(self) -> str:
        """Its power state."""
        if not self.folder.is_dir():
            return "unknown"
        return "poweroff" if self.pid is None else "poweron"


def states(payload: dict) -> dict[str, str]:
    """The power states of all guests."""
    folder = Path(payload["externaldetails"]["extension"]["folder"])
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return {name: Guest({**payload, "cloudstack.vm.details": {"name": name}}).state() for name in names}


def run(action: str, payload: dict) -> dict:
    """Do what is asked; the answer."""
    if action == "statuses":
        return {"status": "success", "power_state": states(payload)}
    guest = Guest(payload)
    if action == "status":
        return {"status": "success", "power_state": guest.state()}
    if action == "prepare":
        return {"details": {"qemu_folder": str(guest.folder)}}
    if action == "getconsole":
        return {"status": "success", "console": guest.screen()}
    if action == "reboot":
        guest.stop()
        guest.start()
    elif action in ("create", "start", "stop", "delete"):
        getattr(guest, action)()
    else:
        raise Refused(f"unknown action {action}")
    return {"status": "success", "message": f"{action} done"}


def main() -> None:
    """Answer on standard output; exit code 1 where something can not be done."""
    try:
        payload = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
        print(json.dumps(run(sys.argv[1], payload)))
    except (Refused, OSError, KeyError) as error:
        print(json.dumps({"status": "error", "error": f"{type(error).__name__}: {error}"}))
        sys.exit(1)


if __name__ == "__main__":
    main()
