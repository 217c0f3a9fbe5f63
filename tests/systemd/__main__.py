"""The units of config/systemd on a real systemd: docs/how-to/operations.md word for word, then kills.

The systemd is the machine's own program, started once more as the first process of its own namespaces, over a copy
of this machine's files that is thrown away. It needs root on Debian; elsewhere it is skipped, and says why.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.architecture.test_imports import ROOT
from tests.compose.production import commands_of
from tests.support.runs.waiting import say, wait_for

NEEDED = ("unshare", "nsenter", "pivot_root", "ip", "apt-get", "chroot")
GUIDE, HEADING = "docs/how-to/operations.md", "Without containers"
BACKUPS = "docs/how-to/backup.md"
VMS = 200


class Machine:
    """A machine of its own as far as its processes see: files, processes, network, systemd."""

    def __init__(self, root: Path, pid: int) -> None:
        self._root, self._pid = root, pid

    def shell(self, commands: str) -> str:
        """Run commands as root; what they print.

        Raises:
            AssertionError: they failed.
        """
        ended = subprocess.run(
            ["nsenter", f"--target={self._pid}", "--all", "sh", "-eux", "-c", f"cd /source\n{commands}"],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
        )
        if ended.returncode:
            raise AssertionError(f"{commands}\n{ended.stdout}\n{ended.stderr[-4000:]}")
        return ended.stdout


@contextmanager
def files() -> Iterator[Path]:
    """A copy of this machine's files, changes in memory."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", name], check=True)
        try:
            for part in ("changes", "work", "root"):
                (place / part).mkdir()
            options = f"lowerdir=/,upperdir={place}/changes,workdir={place}/work"
            subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, place / "root"], check=True)
            try:
                yield place / "root"
            finally:
                subprocess.run(["umount", "--lazy", place / "root"], check=True)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


def install(root: Path) -> None:
    """The first block of commands, before the machine boots: packages need this machine's network."""
    parts = ("bulkdeploy", "workers", "config", "pyproject.toml", "README.md", "LICENSE")
    for part in parts:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, root / "source" / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (root / "source").mkdir(exist_ok=True)
            shutil.copy2(source, root / "source" / part)
    (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # nothing starts before the boot
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    commands = (
        "cd /source\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive\napt-get update\n"
        + commands_of(GUIDE, HEADING, 0)
    )
    subprocess.run(["chroot", root, "sh", "-eux", "-c", commands], check=True, stdout=sys.stderr)


@contextmanager
def booted(root: Path) -> Iterator[Machine]:
    """The machine, up."""
    spaces = ["--pid", "--fork", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--kill-child"]
    boot = Path(__file__).with_name("boot.sh")
    starter = subprocess.Popen(["unshare", *spaces, "sh", boot, root])
    try:
        wait_for(lambda: bool(children(starter.pid)), "the first process")
        machine = Machine(root, children(starter.pid)[0])
        wait_for(lambda: answers(machine, "systemctl is-system-running || true", r"running|degraded"), "systemd")
        yield machine
    finally:
        starter.kill()
        starter.wait()


def children(pid: int) -> list[int]:
    """Processes that this one started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def answers(machine: Machine, command: str, pattern: str) -> bool:
    """Whether the command prints it now."""
    try:
        return re.search(pattern, machine.shell(command)) is not None
    except AssertionError:
        return False


def walk(machine: Machine) -> None:
    """Install, deploy, kill every program half-way, look at the accounting."""
    machine.shell("systemctl start postgresql redis-server")  # as their packages do where systemd already runs
    machine.shell(commands_of(GUIDE, HEADING, 1))
    units = ["bulkdeploy-api", "bulkdeploy-worker@1", "bulkdeploy-worker@2", "bulkdeploy-sweeper"]
    for port in (9090, 9091, 9101, 9102):
        get = f'import urllib.request; urllib.request.urlopen("http://127.0.0.1:{port}/health/ready")'
        wait_for(partial(answers, machine, f"/opt/bulkdeploy/bin/python -c '{get}'", ""), f"ready at {port}")
    say("the units of docs/how-to/operations.md are up and ready")
    for unit in units:
        shown = machine.shell(f"systemctl show {unit} --property=MainPID,DynamicUser,NRestarts")
        (pid,) = re.findall(r"MainPID=(\d+)", shown)
        owner = machine.shell(f"stat -c %u /proc/{pid}").strip()
        assert int(owner) > 0, f"{unit} runs as root"
        score = machine.shell(f"systemd-analyze security --no-pager {unit}.service | tail -1")
        say(f"{unit}: {score.strip()}")
    credentials, audit = commands_of(GUIDE, HEADING, 2).splitlines()
    keys = json.loads(machine.shell(f"{credentials} --json"))
    machine.shell(credentials.replace("admin credentials", "inventory load /source/config/zones/demo.yaml"))
    monkey = (
        "/opt/bulkdeploy/bin/bulkmonkey --url http://127.0.0.1:8080/client/api"
        f" --apikey '{keys['apikey']}' --secretkey '{keys['secretkey']}'"
    )
    deploy(machine, monkey, units)
    back_up_and_restore(machine, monkey)
    wait_for(lambda: answers(machine, audit, ""), "an audit without discrepancy")
    say(machine.shell(audit).strip().splitlines()[-1])


def deploy(machine: Machine, monkey: str, units: list[str]) -> None:
    """A bulk call; each program is killed while its jobs run; systemd starts it again, and every job ends."""

    def first(command: str, noun: str) -> str:
        return str(json.loads(machine.shell(f"{monkey} --output json {command}"))[noun][0]["id"])

    zone, offering = first("list zones", "zone"), first("list serviceofferings name=Small", "serviceoffering")
    template = first("list templates templatefilter=executable", "template")
    machine.shell(
        f"{monkey} --no-wait bulk deployvirtualmachine zoneid={zone} serviceofferingid={offering}"
        f" templateid={template} virtualmachinecount={VMS}"
    )
    for unit in units:
        machine.shell(f"systemctl kill --signal=KILL {unit}")
    counted = f"{monkey} --output json list bulkdeployments"

    def ended() -> bool:
        try:
            return bool(json.loads(machine.shell(counted))["bulkdeployment"][0].get("succeeded") == VMS)
        except (AssertionError, ValueError):
            return False

    wait_for(ended, f"{VMS} jobs")
    for unit in units:
        assert int(re.findall(r"\d+", machine.shell(f"systemctl show {unit} --property=NRestarts"))[0]) >= 1
    say(f"{VMS} VMs run; every program was killed meanwhile, and started again by systemd")
    machine.shell("systemctl stop bulkdeploy.target bulkdeploy-worker@2")
    for unit in units:
        inactive = f"systemctl show {unit} --property=ActiveState"
        wait_for(partial(answers, machine, inactive, "=inactive"), unit)
    machine.shell("systemctl start bulkdeploy.target")
    assert "Traceback" not in machine.shell("journalctl --no-pager --unit 'bulkdeploy-*'")
    say("they end when they are told to, and no traceback is in the journal")


def back_up_and_restore(machine: Machine, monkey: str) -> None:
    """Dump the database, make a zone, restore the dump: the zone is gone, and all else is there."""
    machine.shell(commands_of(BACKUPS, "Backup", 2))
    later = "name=later networktype=Advanced dns1=192.0.2.53 internaldns1=192.0.2.53"
    machine.shell(f"{monkey} create zone {later}")
    machine.shell(commands_of(BACKUPS, "Restore", 2))
    machine.shell("systemctl start bulkdeploy.target bulkdeploy-worker@2")
    wait_for(partial(answers, machine, f"{monkey} list zones", "demo"), "the API after the restore")
    assert not answers(machine, f"{monkey} list zones", "later")
    counted = json.loads(machine.shell(f"{monkey} --output json list virtualmachines filter=id"))
    assert counted["count"] == VMS
    say(f"the dump was restored: {VMS} VMs, and nothing of what came after it")


def main() -> None:
    """Run it, or say why not."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if os.geteuid() != 0 or missing or not Path("/lib/systemd/systemd").exists():
        say("skipped: it needs root on Debian with systemd" + (f" and {', '.join(missing)}" if missing else ""))
        return
    with files() as root:
        install(root)
        with booted(root) as machine:
            try:
                walk(machine)
            except AssertionError:
                say(machine.shell("journalctl --no-pager --lines=60 --unit 'bulkdeploy-*'"))
                raise
    say("passed")


if __name__ == "__main__":
    main()
