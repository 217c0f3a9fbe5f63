"""One call, twenty guests that really boot; then what operators, users and accidents do to them."""

import io
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr
from websockets.sync.client import connect

from bulkdeploy.drivers.libvirt.domain import SeenDomain, read_domain
from bulkdeploy.drivers.libvirt.probe_guest import boot_image
from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.security.guarded_fetch import FetchRules
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.conftest import ADMIN_PASSWORD, SECRET_KEY, unused_redis_database
from tests.support.api.api_client import ApiClient
from tests.support.hypervisors.libvirt_hosts import LibvirtHosts, why_not
from tests.support.hypervisors.real_cloud import build_zone
from tests.support.processes.programs import BULKDEPLOY, Process, bulkdeploy, program, wait_for
from tests.support.processes.services import database_clone
from tests.support.runs.waiting import PATIENCE_S

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

GUESTS = 20
WORKERS = 2
PROGRAMS = {"worker": WORKER, "sweeper": SWEEPER, "api": (*BULKDEPLOY, "api")}


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    """What ``holds`` answers once it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


@dataclass
class Programs:
    """The programs of the service: two workers, a sweeper and an API."""

    settings: Settings
    log: Path
    stack: ExitStack
    running: dict[str, list[Process]] = field(default_factory=dict)

    def start(self, kind: str) -> None:
        """Start one more program of a kind, and wait for an API until it answers."""
        process = self.stack.enter_context(program(self.settings, self.log, *PROGRAMS[kind]))
        if kind == "api":
            wait_for(f"{self.settings.api_monitoring_url}/health/ready", process, self.log)
        self.running.setdefault(kind, []).append(process)

    def kill(self, kind: str) -> None:
        """Kill all programs of a kind, and start as many anew."""
        killed = self.running.pop(kind)
        for process in killed:
            process.kill()
            process.wait()
        for _ in killed:
            self.start(kind)


@dataclass
class Cloud:
    """A running service whose hosts are real."""

    client: ApiClient
    settings: Settings
    hosts: LibvirtHosts
    programs: "Programs"
    ids: dict[str, str]
    folder: Path

    def job(self, command: str, **parameters: object) -> dict[str, Any]:
        """The result of an asynchronous call; it succeeds."""
        return self.result(self.client.call(command, **parameters)["jobid"])

    def result(self, job_id: str) -> dict[str, Any]:
        """The result of a job; it succeeds."""

        def ended() -> dict[str, Any] | None:
            job = self.client.call("queryAsyncJobResult", jobid=job_id)
            return job if job["jobstatus"] else None

        job = wait_until(ended, f"job {job_id} does not end")
        assert job["jobstatus"] == 1, job
        return dict(job["jobresult"])

    def deploy(self, count: int, **given: str) -> list[str]:
        """Deploy so many VMs with one call; their ids, once all run."""
        call = {**self.ids, **given, "virtualmachinecount": count}
        called = self.client.call("bulkDeployVirtualMachine", **call)
        jobs = [job["jobid"] for job in called["asyncjobs"]]
        return [str(self.result(job)["virtualmachine"]["id"]) for job in jobs]

    def state(self, vm: str) -> str:
        """A VM's state."""
        return str(self.client.call("listVirtualMachines", id=vm)["virtualmachine"][0]["state"])

    def host_of(self, vm: str) -> str:
        """The name of a VM's host."""
        return str(self.client.call("listVirtualMachines", id=vm)["virtualmachine"][0]["hostname"])

    def assert_intact(self) -> None:
        """The audit compares rows with what the daemons have, and finds nothing."""
        audited = bulkdeploy(self.settings, "audit")
        assert audited.returncode == 0, audited.stdout + audited.stderr

    def says_who_it_is(self, vm: str) -> bool:
        """Whether a guest has written its uuid to its console."""
        return f"guest {UUID(vm).hex} is up" in self.hosts.console(UUID(vm)).lower()

    def drive(self, vm: str) -> str | None:
        """The ISO in the drive of a VM's guest, as its daemon has it."""
        from bulkdeploy.drivers.libvirt.storage.storage import template_of_copy

        seen = seen_of(self, vm)
        return None if seen.iso_place is None else str(template_of_copy(seen.iso_place))

    def counted(self, vm: str) -> list[int]:
        """The seconds that a guest has counted on its console."""
        return [
            int(found, 16) for found in re.findall(r"^([0-9A-Fa-f]{4})\r?$", self.hosts.console(UUID(vm)), re.M)
        ]


@pytest.fixture(scope="module")
def cloud(
    request: pytest.FixtureRequest,
    made_hosts: LibvirtHosts,
    postgres_url: str,
    redis_url: str,
    bare_database: str,
    cipher: FernetCipher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cloud]:
    """The whole service, two workers, on a zone of three real hosts."""
    folder = tmp_path_factory.mktemp("cloud")
    image, log = folder / "boot.raw", folder / "programs.log"
    image.write_bytes(boot_image())
    with ExitStack() as stack:
        settings = Settings(
            database_url=stack.enter_context(database_clone(postgres_url, bare_database)),
            listen=f"127.0.0.1:{free_port()}",
            redis_url=redis_url.removesuffix("/0") + f"/{unused_redis_database(request.config)}",
            data_dir=folder / "data",
            secret_key=SecretStr(SECRET_KEY),
            admin_password=SecretStr(ADMIN_PASSWORD),
            worker_threads=16,
            sweep_interval_seconds=0.5,
            lease_seconds=5,
            drivers={"KVM": "libvirt"},
            power={"redfish": {"https": False, "tries": 1}},
            driver={"libvirt": {**made_hosts.driver_options, "shutdown_seconds": 20}},
            fetch=FetchRules.model_validate({"directories": [folder], "allowed_networks": ["127.0.0.1/32"]}),
        )
        engine = create_engine(str(settings.database_url), pool_size=4)
        stack.callback(engine.dispose)
        programs = Programs(settings, log, stack)
        for kind in (*["worker"] * WORKERS, "sweeper", "api"):
            programs.start(kind)
        with engine.connect() as connection:
            admin = admin_row(connection)
        assert admin is not None
        client = ApiClient(f"http://{settings.listen}", admin.api_key, cipher.decrypt(admin.secret_key_encrypted))
        yield Cloud(client, settings, made_hosts, programs, build_zone(client, made_hosts, image), folder)
    made_hosts.clear()
    assert "Traceback" not in log.read_text()


@pytest.fixture(autouse=True)
def nothing_left(cloud: Cloud) -> Iterator[None]:
    """Every VM of a test goes with it, and leaves nothing."""
    yield
    for vm in cloud.client.call("listVirtualMachines").get("virtualmachine", ()):
        cloud.result(cloud.client.call("destroyVirtualMachine", id=vm["id"], expunge=True)["jobid"])
    assert cloud.hosts.running() == {}


def test_one_call_boots_twenty_guests(cloud: Cloud) -> None:
    """Each says who it is on its console; spread over all hosts; they stop by their power button, start, and go."""
    vms = cloud.deploy(GUESTS)
    assert len(set(vms)) == GUESTS
    wait_until(lambda: all(map(cloud.says_who_it_is, vms)), "a guest is silent")
    running = cloud.hosts.running()
    assert {str(uuid) for uuid in running} == set(vms)
    assert set(running.values()) == {host.name for host in cloud.hosts.hosts}
    cloud.assert_intact()
    first = vms[0]
    cloud.job("stopVirtualMachine", id=first)
    assert "switched off" in cloud.hosts.console(UUID(first))
    assert UUID(first) not in cloud.hosts.running()
    cloud.job("startVirtualMachine", id=first)
    wait_until(lambda: cloud.hosts.console(UUID(first)).count(" is up") == 2, "it does not boot again")
    cloud.assert_intact()
    for job in [cloud.client.call("destroyVirtualMachine", id=vm, expunge=True)["jobid"] for vm in vms]:
        cloud.result(job)
    assert cloud.hosts.running() == {}
    cloud.assert_intact()
    assert [file.name for file in cloud.hosts.pool.iterdir() if not file.name.startswith("template-")] == []


def test_a_guest_moves_and_goes_on_counting(cloud: Cloud) -> None:
    """It never boots again, and misses no second; a volume comes and goes while it runs."""
    (vm,) = cloud.deploy(1)
    wait_until(lambda: len(cloud.counted(vm)) > 1, "it does not count")
    source = cloud.host_of(vm)
    made = cloud.client.call("createDiskOffering", name="small", displaytext="Small", disksize=1)
    of_disk = {"zoneid": cloud.ids["zoneid"], "diskofferingid": made["diskoffering"]["id"]}
    volume = cloud.job("createVolume", name="data", **of_disk)["volume"]
    cloud.job("attachVolume", id=volume["id"], virtualmachineid=vm)
    assert (cloud.hosts.pool / f"{volume['id']}.qcow2").exists()
    cloud.assert_intact()
    cloud.job("migrateVirtualMachine", virtualmachineid=vm, autoselect=True)
    assert cloud.host_of(vm) != source
    assert cloud.hosts.running() == {UUID(vm): cloud.host_of(vm)}
    reached = cloud.counted(vm)[-1]
    wait_until(lambda: cloud.counted(vm)[-1] > reached + 1, "it does not go on")
    counted = cloud.counted(vm)
    assert counted == list(range(1, len(counted) + 1))
    assert cloud.hosts.console(UUID(vm)).count(" is up") == 1
    cloud.assert_intact()
    cloud.job("detachVolume", id=volume["id"])
    cloud.assert_intact()
    cloud.client.call("deleteVolume", id=volume["id"])


def test_a_guest_goes_back_to_what_it_was_doing(cloud: Cloud) -> None:
    """It counts on from the second of its snapshot without booting again, also where it moved meanwhile."""
    (vm,) = cloud.deploy(1)
    wait_until(lambda: len(cloud.counted(vm)) > 1, "it does not count")
    snapshot = cloud.job("createVMSnapshot", virtualmachineid=vm, name="early", snapshotmemory=True)["vmsnapshot"]
    assert (snapshot["state"], snapshot["type"]) == ("Ready", "DiskAndMemory")
    reached = cloud.counted(vm)[-1]
    wait_until(lambda: cloud.counted(vm)[-1] > reached + 3, "it does not go on")
    cloud.job("migrateVirtualMachine", virtualmachineid=vm, autoselect=True)
    before, password = len(cloud.counted(vm)), password_of(cloud, vm)
    assert cloud.job("revertToVMSnapshot", vmsnapshotid=snapshot["id"])["virtualmachine"]["state"] == "Running"
    wait_until(lambda: len(cloud.counted(vm)) > before + 1, "it does not go on after the revert")
    assert min(cloud.counted(vm)[before:]) <= reached + 1
    assert cloud.hosts.console(UUID(vm)).count(" is up") == 1
    assert (password_of(cloud, vm), cloud.hosts.running()) == (password, {UUID(vm): cloud.host_of(vm)})
    cloud.assert_intact()
    cloud.job("deleteVMSnapshot", vmsnapshotid=snapshot["id"])
    cloud.job("stopVirtualMachine", id=vm, forced=True)
    snapshot = cloud.job("createVMSnapshot", virtualmachineid=vm)["vmsnapshot"]
    cloud.job("revertToVMSnapshot", vmsnapshotid=snapshot["id"])
    cloud.job("startVirtualMachine", id=vm)
    wait_until(lambda: cloud.hosts.console(UUID(vm)).count(" is up") == 2, "it does not boot")
    cloud.assert_intact()


def test_a_volume_goes_back_to_its_snapshot(cloud: Cloud) -> None:
    """The guest counts on while QEMU takes its volumes, moves with them, and starts with what they were."""
    (vm,) = cloud.deploy(1)
    wait_until(lambda: len(cloud.counted(vm)) > 1, "it does not count")
    (root,) = cloud.client.call("listVolumes", virtualmachineid=vm)["volume"]
    file = cloud.hosts.pool / f"{root['id']}.qcow2"
    snapshot = cloud.job("createSnapshot", volumeid=root["id"], name="early")["snapshot"]
    whole = cloud.job("createVMSnapshot", virtualmachineid=vm, name="all")["vmsnapshot"]
    assert (snapshot["state"], whole["type"]) == ("BackedUp", "Disk")
    cloud.job("deleteVMSnapshot", vmsnapshotid=whole["id"])
    listed = subprocess.run(["qemu-img", "snapshot", "-U", "-l", file], capture_output=True, check=True, text=True)
    assert (snapshot["id"] in listed.stdout, whole["id"] in listed.stdout) == (True, False)
    reached = cloud.counted(vm)[-1]
    wait_until(lambda: cloud.counted(vm)[-1] > reached + 1, "it does not go on")
    cloud.job("migrateVirtualMachine", virtualmachineid=vm, autoselect=True)
    assert cloud.counted(vm) == list(range(1, len(cloud.counted(vm)) + 1))
    cloud.job("stopVirtualMachine", id=vm, forced=True)
    subprocess.run(["qemu-io", "-c", "write -P 0 0 512", file], capture_output=True, check=True)  # no boot sector
    cloud.job("revertSnapshot", id=snapshot["id"])
    cloud.job("startVirtualMachine", id=vm)
    wait_until(lambda: cloud.hosts.console(UUID(vm)).count(" is up") == 2, "it does not boot again")
    cloud.job("deleteSnapshot", id=snapshot["id"])
    cloud.assert_intact()


def test_a_vm_boots_from_an_iso(cloud: Cloud) -> None:
    """Its root disk is empty; the ISO leaves its drive and comes back while it runs."""
    image = cloud.folder / "installer.iso"
    image.write_bytes(bootable_iso())
    (template,) = cloud.client.call("listTemplates", templatefilter="all", id=cloud.ids["templateid"])["template"]
    registered = cloud.client.call(
        "registerIso", name="installer", displaytext="Installer", url=image.as_uri(), zoneid=cloud.ids["zoneid"],
        ostypeid=template["ostypeid"], bootable=True,
    )  # fmt: skip
    iso = registered["iso"][0]["id"]
    disk = cloud.client.call("createDiskOffering", name="root", displaytext="Root", disksize=1)["diskoffering"][
        "id"
    ]
    ids = {**cloud.ids, "templateid": iso, "diskofferingid": disk, "hypervisor": "KVM"}
    vm = str(cloud.job("deployVirtualMachine", **ids)["virtualmachine"]["id"])
    wait_until(lambda: cloud.says_who_it_is(vm), "it does not boot from the ISO")
    assert cloud.drive(vm) == iso
    assert cloud.job("detachIso", virtualmachineid=vm)["virtualmachine"].get("isoid") is None
    assert cloud.drive(vm) is None
    assert cloud.job("attachIso", virtualmachineid=vm, id=iso)["virtualmachine"]["isoid"] == iso
    assert cloud.drive(vm) == iso
    cloud.job("migrateVirtualMachine", virtualmachineid=vm, autoselect=True)
    cloud.job("detachIso", virtualmachineid=vm)
    cloud.job("stopVirtualMachine", id=vm, forced=True)
    cloud.job("startVirtualMachine", id=vm)
    assert cloud.drive(vm) is None
    cloud.assert_intact()


def bootable_iso() -> bytes:
    """An ISO that the firmware boots as it does a disk (El Torito, without emulation)."""
    from pycdlib import PyCdlib

    iso, written, sector = PyCdlib(), io.BytesIO(), boot_image()[:2048]
    iso.new()
    iso.add_fp(io.BytesIO(sector), len(sector), "/BOOT.;1")
    iso.add_eltorito("/BOOT.;1", bootcatfile="/BOOT.CAT;1")
    iso.write_fp(written)
    iso.close()
    return written.getvalue()


def test_a_daemon_that_dies_under_a_snapshot_leaves_none_half_made(cloud: Cloud) -> None:
    """It is there whole, or in state Error and can be removed; the guest runs on either way."""
    (vm,) = cloud.deploy(1)
    wait_until(lambda: cloud.counted(vm), "it does not count")
    name = cloud.host_of(vm)
    (daemon,) = (host for host in cloud.hosts.hosts if host.name == name)
    job = cloud.client.call("createVMSnapshot", virtualmachineid=vm, snapshotmemory=True)["jobid"]
    daemon.signal(signal.SIGKILL)
    daemon.start()
    daemon.wait()
    wait_until(lambda: cloud.client.call("queryAsyncJobResult", jobid=job)["jobstatus"], "the job does not end")
    wait_until(lambda: cloud_host_state(cloud, name) == "Up", "nobody notices that the daemon is back")
    (snapshot,) = cloud.client.call("listVMSnapshot", virtualmachineid=vm)["vmSnapshot"]
    assert snapshot["state"] in ("Ready", "Error")
    if snapshot["state"] == "Ready":
        cloud.job("revertToVMSnapshot", vmsnapshotid=snapshot["id"])
    cloud.job("deleteVMSnapshot", vmsnapshotid=snapshot["id"])
    assert (cloud.state(vm), cloud.hosts.running()[UUID(vm)]) == ("Running", name)
    cloud.assert_intact()


def test_heal_makes_guests_what_rows_say(cloud: Cloud) -> None:
    """A guest that lost its nic has it again, and one that was started by hand is ended."""
    import libvirt

    changed, started = cloud.deploy(2)
    wait_until(lambda: cloud.counted(changed) and cloud.counted(started), "they do not count")
    seen, by_hand = seen_of(cloud, changed), definition_of(cloud, started)
    (nic,) = (one.uuid for one in seen.nics)
    cloud.job("stopVirtualMachine", id=started, forced=True)
    with connected(cloud, cloud.host_of(changed)) as connection:
        both = libvirt.VIR_DOMAIN_AFFECT_LIVE | libvirt.VIR_DOMAIN_AFFECT_CONFIG
        connection.lookupByUUIDString(changed).detachDeviceFlags(seen.devices[nic], both)
        connection.defineXML(by_hand).create()
    wait_until(lambda: not seen_of(cloud, changed).nics, "the guest keeps its nic")
    audited = bulkdeploy(cloud.settings, "audit")
    assert audited.returncode != 0
    assert (changed in audited.stdout, started in audited.stdout) == (True, True), audited.stdout
    healed = bulkdeploy(cloud.settings, "heal")
    assert healed.returncode == 4, healed.stdout + healed.stderr
    cloud.assert_intact()
    assert [one.uuid for one in seen_of(cloud, changed).nics] == [nic]
    assert cloud.hosts.running() == {UUID(changed): cloud.host_of(changed)}
    assert cloud.hosts.console(UUID(changed)).count(" is up") == 1


def test_people_see_their_guests(cloud: Cloud, tmp_path: Path) -> None:
    """The screen by a VNC client over the websocket, with pixels on it, also after a move; the serial console."""
    (vm,) = cloud.deploy(1)
    wait_until(lambda: len(cloud.counted(vm)) > 1, "it does not count")
    before = password_of(cloud, vm)
    assert len(before) == 8
    assert shows_something(cloud, vm)
    cloud.job("migrateVirtualMachine", virtualmachineid=vm, autoselect=True)
    assert password_of(cloud, vm) == before
    assert shows_something(cloud, vm)
    config = tmp_path / "settings"
    config.write_text(
        f"profile = here\n\n[here]\nurl = {cloud.client.url}/client/api\n"
        f"apikey = {cloud.client.api_key}\nsecretkey = {cloud.client.secret_key}\n"
    )
    config.chmod(0o600)
    with subprocess.Popen(
        [sys.executable, "-m", "bulkdeploy.cli.main", "-c", config, "console", vm],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    ) as looking:  # fmt: skip
        assert looking.stdin is not None
        assert looking.stdout is not None
        assert looking.stderr is not None
        seen = [looking.stdout.readline() for _ in range(4)]
        counted = [line.strip() for line in seen if line.strip()]
        assert len(counted) > 1, looking.stderr.read()
        assert int(counted[-1], 16) == int(counted[-2], 16) + 1
        looking.stdin.write(b"\x1d")
        looking.stdin.flush()
        assert looking.wait(PATIENCE_S) == 0


def password_of(cloud: Cloud, vm: str) -> str:
    """A guest's VNC password, as the daemon that runs it has it."""
    return str(re.findall(r"<graphics [^>]*passwd='([^']*)'", definition_of(cloud, vm))[0])


def definition_of(cloud: Cloud, vm: str) -> str:
    """A guest's definition, as the daemon that runs it has it."""
    import libvirt

    with connected(cloud, cloud.host_of(vm)) as connection:
        return str(connection.lookupByUUIDString(vm).XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE))


def seen_of(cloud: Cloud, vm: str) -> SeenDomain:
    """What the driver reads of a guest's definition."""
    seen = read_domain(definition_of(cloud, vm))
    assert seen is not None
    return seen


@contextmanager
def connected(cloud: Cloud, host: str) -> Iterator[Any]:
    """A connection to a host's daemon, past the service."""
    import libvirt

    (url,) = (one.url for one in cloud.hosts.hosts if one.name == host)
    connection = libvirt.open(url.split("#")[0])
    try:
        yield connection
    finally:
        connection.close()


def shows_something(cloud: Cloud, vm: str) -> bool:
    """Whether a VNC client, let in by a token, gets a picture that is not all of one colour (RFC 6143)."""
    found = cloud.client.call("createConsoleEndpoint", virtualmachineid=vm)["consoleendpoint"]["websocket"]
    url = f"ws://{found['host']}:{found['port']}/{found['path']}?token={found['token']}"
    with connect(url, compression=None, max_size=None) as socket:
        received = bytearray()

        def read(size: int) -> bytes:
            while len(received) < size:
                part = socket.recv(PATIENCE_S)
                assert isinstance(part, bytes)
                received.extend(part)
            taken = bytes(received[:size])
            del received[:size]
            return taken

        assert read(12) == b"RFB 003.008\n"
        socket.send(b"RFB 003.008\n")
        assert read(2) == b"\1\1"
        socket.send(b"\1")
        assert read(4) == bytes(4)
        socket.send(b"\1")
        width, height, _, name_length = struct.unpack("!HH16sI", read(24))
        read(name_length)
        socket.send(struct.pack("!BxHi", 2, 1, 0))  # pixels as they are
        socket.send(struct.pack("!BBHHHH", 3, 0, 0, 0, width, height))
        kind, count = struct.unpack("!BxH", read(4))
        assert (kind, count > 0) == (0, True)
        colours = set()
        for _ in range(count):
            *_, wide, high, encoding = struct.unpack("!HHHHi", read(12))
            assert encoding == 0
            pixels = read(wide * high * 4)
            colours |= {pixels[start : start + 4] for start in range(0, len(pixels), 4)}
    return len(colours) > 1


def test_whatever_dies_rows_and_hosts_agree(cloud: Cloud) -> None:
    """A killed worker, a killed daemon, a killed guest: jobs end well, no guest runs twice, the audit is clean."""
    called = cloud.client.call("bulkDeployVirtualMachine", virtualmachinecount=GUESTS, **cloud.ids)
    jobs = [job["jobid"] for job in called["asyncjobs"]]
    wait_until(cloud.hosts.running, "no guest starts")
    cloud.programs.kill("worker")
    vms = [str(cloud.result(job)["virtualmachine"]["id"]) for job in jobs]
    assert {str(uuid) for uuid in cloud.hosts.running()} == set(vms)
    cloud.assert_intact()
    daemon = cloud.hosts.hosts[0]
    daemon.signal(signal.SIGKILL)
    name = daemon.name
    wait_until(lambda: cloud_host_state(cloud, name) != "Up", "nobody notices that the daemon is gone")
    daemon.start()
    daemon.wait()
    wait_until(lambda: cloud_host_state(cloud, name) == "Up", "nobody notices that the daemon is back")
    assert {str(uuid) for uuid in cloud.hosts.running()} == set(vms)
    cloud.assert_intact()
    uuid, pid = next(iter(cloud.hosts.hosts[1].guest_pids().items()))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: cloud.state(str(uuid)) == "Stopped", "nobody notices that the guest is gone")
    cloud.assert_intact()
    cloud.job("startVirtualMachine", id=uuid)
    assert uuid in cloud.hosts.running()
    cloud.assert_intact()


def cloud_host_state(cloud: Cloud, name: str) -> str:
    """The state of a host."""
    return str(cloud.client.call("listHosts", name=name, type="Routing")["host"][0]["state"])
