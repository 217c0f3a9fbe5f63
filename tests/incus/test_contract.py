"""The driver for Incus keeps what every driver must keep, on a live cluster: ``make test-incus``."""

import base64
import json
import random
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.drivers.contract import (
    Caller,
    Contents,
    DeclaredOffContract,
    DeviceContract,
    DriverContract,
    FencingContract,
    HostContract,
    LeftoversContract,
    Machines,
    Outage,
    OutageContract,
    ResizeContract,
    Rig,
    ScalingContract,
    SerialConsoleContract,
    ShrinkContract,
    SnapshotContract,
    Subjects,
    VolumeContract,
    open_serial,
)
from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.guests import PowerState
from bulkdeploy.drivers.hosts import HostAccess, HostAddress, HostPromise, NewHost
from bulkdeploy.drivers.incus import rest
from bulkdeploy.drivers.incus.cluster import image_alias
from bulkdeploy.drivers.incus.driver import IncusDriver, access_of
from bulkdeploy.drivers.incus.options import IncusOptions
from bulkdeploy.drivers.incus.rest import Answer, Incus, OperationFailed, path_of
from bulkdeploy.drivers.records import TemplateImage
from bulkdeploy.security.guarded_fetch import Fetcher, FetchRules
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import LAST_FENCE
from bulkdeploy.wiring.driver_records import records_in
from tests.drivers.fixed_directory import FixedDirectory, shared_pool
from tests.incus.cluster import CLUSTER, MEMBERS, Member, driver_options, why_not
from tests.incus.image import write_image
from tests.support.runs.waiting import wait_for

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

PATIENCE_S = 120.0
OF_DAEMONS = ("database", "images", "cache", "backups", "logs", "devices", "run", "security")
"""Folders of a member that it changes by itself; in some Incus leaves logs and sockets of deleted instances."""

CLOUD_INIT = ("user-data", "vendor-data", "network-config")
HEARD_S = 5.0
"""How long to wait for a word before it is tried again: a guest may end before anybody hears its member."""


def is_of_step(step: str, method: str, path: str, body: Any) -> bool:
    """Whether a request is what a step does to the cluster."""
    last = path.rpartition("/")[2]
    action = body.get("action") if isinstance(body, dict) else None
    devices = body.get("devices") if isinstance(body, dict) else None
    return {
        "volume": (method, last) == ("POST", "instances"),
        "boot": action == "start",
        "stop": action == "stop",
        "delete": method == "DELETE",
        "scale": method == "PUT" and devices is not None,
        "devices": method == "PUT" and devices is not None,
        "resize": method == "PATCH" and "volumes" in path,
        "snapshot": (method, last) == ("POST", "snapshots"),
        "revert": method == "PUT" and isinstance(body, dict) and "restore" in body,
        "delete_snapshot": method == "DELETE" and "/snapshots/" in path,
    }[step]


class FaultyIncus(Incus):
    """A connection that breaks, once, before the request of a step."""

    failing: str | None = None

    def send(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """See Incus."""
        if self.failing is not None and is_of_step(self.failing, method, path, body):
            self.failing = None
            raise NotAnswered("the connection broke")
        return super().send(method, path, body, **more)


def clear(incus: Incus) -> None:
    """Remove every instance and volume."""
    for row in incus.send("GET", path_of("instances"), timeout_s=PATIENCE_S, recursion=1).value:
        where = path_of("instances", row["name"])
        if row["status"] == "Running":
            stop = {"action": "stop", "force": True}
            incus.run("PUT", f"{where}/state", stop, timeout_s=PATIENCE_S)
        config = {"config": {"security.protection.delete": "false"}}
        incus.run("PATCH", where, config, timeout_s=PATIENCE_S)
        incus.run("DELETE", where, timeout_s=PATIENCE_S)
    volumes = path_of("storage-pools", "local", "volumes", "custom")
    for row in incus.send("GET", volumes, timeout_s=PATIENCE_S, recursion=1).value or ():
        if "/" in row["name"]:
            continue  # a snapshot, which goes with its volume
        incus.run("DELETE", f"{volumes}/{row['name']}", timeout_s=PATIENCE_S, target=row["location"])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image's file."""
    path = tmp_path_factory.mktemp("image") / "busybox.tar.gz"
    write_image(path)
    return path


@pytest.fixture
def rig(engine: Engine, image: Path) -> Iterator[Rig]:
    """A cluster without instances and volumes."""
    options = IncusOptions.model_validate(driver_options())
    incus = FaultyIncus(access_of(options))
    clear(incus)
    driver = IncusDriver(options, incus)
    hosts = [HostAddress(uuid4(), f"member{n}", f"192.0.2.{10 + n}", "LXC", f"incus://member{n}") for n in (1, 2)]
    subjects = replace(Subjects(), volume_bytes=1 << 20, memory_mib=16)
    template = TemplateImage(
        subjects.template_uuid, "busybox", image.as_uri(), "TAR", None, 1 << 20, is_of_root_admin=True
    )
    kept = records_in(engine, lambda _: True, Fetcher(FetchRules(directories=(image.parent,))))
    driver.use_records(replace(kept, directory=FixedDirectory(hosts, shared_pool(subjects.pool_uuid), template)))
    driver.ensure_template(hosts[0], subjects.pool_uuid, subjects.template_uuid, timeout_s=PATIENCE_S)

    def fail_next(step: str) -> None:
        incus.failing = step

    def release(guest: UUID) -> None:
        kept.fences.release(guest, LAST_FENCE)

    yield Rig(driver, tuple(hosts), fail_next, ("volume", "boot"), subjects, release, PATIENCE_S)
    clear(incus)
    driver.close()


@pytest.fixture
def caller(rig: Rig) -> Caller:
    """Patient: two daemons share what others leave."""
    return Caller(rig.driver, timeout_s=PATIENCE_S)


class TestIncusContract(
    DriverContract,
    VolumeContract,
    HostContract,
    FencingContract,
    ScalingContract,
    DeviceContract,
    ResizeContract,
    SerialConsoleContract,
    SnapshotContract,
    ShrinkContract,
    DeclaredOffContract,
    LeftoversContract,
):
    """A cluster of two members, whose guests are containers with one process."""

    def test_an_operation_lasts_as_long_as_it_takes(
        self, rig: Rig, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is asked for again after each wait, which Incus 6.0 ends with an error."""
        monkeypatch.setattr(rest, "WAIT_S", 1)
        guest = rig.new_guest()
        caller.run(rig.hosts[0], guest)
        assert isinstance(rig.driver, IncusDriver)
        state = path_of("instances", f"vm-{guest.uuid}", "state")
        (process,) = (pid for uuid, pid in Member(1).guests().items() if uuid == guest.uuid)
        subprocess.run(["kill", "-STOP", str(process)], check=True)
        try:
            with suppress(OperationFailed):  # the container may end or not
                rig.driver._incus.run("PUT", state, {"action": "stop", "timeout": 5}, timeout_s=PATIENCE_S)
        finally:
            subprocess.run(["kill", "-CONT", str(process)], check=True)
        caller.remove(rig.hosts[0], guest)

    @pytest.fixture
    def machines(self) -> Machines:
        """Members by name; one that is none."""
        promise = HostPromise(Decimal(2), Decimal(1), 50)
        first, second, silent = (
            NewHost(uuid4(), "LXC", HostAccess(f"incus://{name}"), promise)
            for name in ("member1", "member2", "nobody")
        )
        return Machines((first, second), silent)

    @pytest.fixture
    def contents(self, rig: Rig) -> Contents:
        """A file in the folder that the pool has for a volume."""

        def letter(volume_uuid: UUID) -> Path:
            assert isinstance(rig.driver, IncusDriver)
            instances = rig.driver._instances("list", PATIENCE_S)
            names = [
                f"containers/vm-{one.uuid}/rootfs" for one in instances if one.root and one.root.uuid == volume_uuid
            ]
            name = names[0] if names else f"custom/default_{volume_uuid}"
            (folder,) = Path(f"{CLUSTER}").glob(f"*/storage-pools/local/{name}")
            return folder / "letter"

        def write(volume_uuid: UUID, text: str) -> None:
            letter(volume_uuid).write_text(text)

        return Contents(write, lambda volume_uuid: letter(volume_uuid).read_text())

    def test_a_late_start_finds_the_gate(self, rig: Rig, caller: Caller) -> None:
        """Who was overtaken between taking the gate away and starting finds it there again."""
        guest = rig.new_guest()
        rig.fail_next("boot")
        with pytest.raises(Exception, match="the connection broke"):
            caller.run(rig.hosts[0], guest)
        newer = Caller(rig.driver, fence=2, timeout_s=PATIENCE_S)
        assert newer.look(rig.hosts[0], guest) is None
        assert isinstance(rig.driver, IncusDriver)
        incus = rig.driver._incus
        where = path_of("instances", f"vm-{guest.uuid}", "state")
        with suppress(OperationFailed):  # a loaded Incus may have forgotten that the operation failed
            incus.run("PUT", where, {"action": "start"}, timeout_s=PATIENCE_S)
        assert newer.look(rig.hosts[0], guest) is None
        newer.run(rig.hosts[0], guest)
        assert newer.look(rig.hosts[0], guest) is PowerState.RUNNING

    def test_a_serial_console_carries_what_is_typed(self, rig: Rig, caller: Caller) -> None:
        """Also of a guest on the member that is asked second; it ends with the guest."""
        for host in rig.hosts:
            guest = rig.new_guest()
            caller.run(host, guest)
            with closing(open_serial(rig, host, guest.uuid)) as connected:
                shown, ends = b"", time.monotonic() + PATIENCE_S
                while b"heard: anybody there?" not in shown:
                    assert time.monotonic() < ends, f"nobody hears: {shown!r}"
                    connected.sendall(b"anybody there?\r")  # until Incus has attached it, nobody does
                    if select.select([connected], [], [], 1.0)[0]:
                        shown += connected.recv(4096)
                connected.settimeout(PATIENCE_S)
                caller.stop(host, guest, forced=True)
                while connected.recv(4096):
                    pass

    def test_a_guest_has_what_it_was_given(self, rig: Rig, caller: Caller) -> None:
        """Its MAC, its address from Incus's DHCP, and what cloud-init reads, on either member."""
        for number, host in enumerate(rig.hosts):
            new, text = rig.new_guest(), "#cloud-config\nruncmd: [touch /here]\n"
            nic = replace(new.nics[0], ip_address=f"10.8.3.{10 + number}")
            encoded = base64.b64encode(text.encode()).decode()
            guest = replace(new, nics=(nic,), user_data=encoded, host_name="web", public_keys=("ssh-ed25519 AAAA",))
            caller.run(host, guest)
            member, name = Member(number + 1), f"vm-{guest.uuid}"
            seen = member.incus("exec", name, "--", "cat", "/sys/class/net/eth0/address")
            assert seen.strip() == nic.mac_address
            lease = ("udhcpc", "-i", "eth0", "-n", "-q", "-f", "-s", "/bin/true")
            assert f"lease of {nic.ip_address} obtained" in member.incus(
                "exec", name, "--", "sh", "-c", " ".join(lease) + " 2>&1"
            )
            config = {key: member.incus("config", "get", name, f"cloud-init.{key}") for key in CLOUD_INIT}
            assert config["user-data"].strip() == text.strip()
            assert '"hostname": "web"' in config["vendor-data"]
            assert "ssh-ed25519 AAAA" in config["vendor-data"]
            (interface,) = json.loads(config["network-config"])["config"]
            assert (interface["name"], "mac_address" in interface) == ("eth0", False)

    def test_an_image_is_named_by_its_fingerprint(self, rig: Rig, caller: Caller) -> None:
        """As operators name images that Incus has, beside aliases."""
        assert isinstance(rig.driver, IncusDriver)
        template = rig.driver._records.directory.template(rig.subjects.template_uuid)
        assert template is not None
        alias = path_of("images", "aliases", image_alias(template))
        fingerprint = rig.driver._incus.send("GET", alias, timeout_s=PATIENCE_S).value["target"]
        options = IncusOptions.model_validate(driver_options(images={"busybox": fingerprint[:12]}))
        driver = IncusDriver(options, rig.driver._incus)
        driver.use_records(rig.driver._records)
        guest = rig.new_guest()
        assert driver._cluster.source_of(guest) == {"type": "image", "fingerprint": fingerprint[:12]}
        driver.ensure_running(rig.hosts[0], guest, fence=1, timeout_s=PATIENCE_S)
        assert caller.look(rig.hosts[0], guest) is PowerState.RUNNING

    def test_a_root_volume_that_lost_its_instance_is_listed(self, rig: Rig, caller: Caller) -> None:
        """By its guest's uuid, and a start says what is in its way, until an operator has taken it away."""
        host, member, guest = rig.hosts[1], Member(2), rig.new_guest()
        caller.run(host, guest)
        caller.stop(host, guest, forced=True)
        name, pool = f"vm-{guest.uuid}", guest.volumes[0].pool_uuid
        lost = (guest.uuid, pool, 0)
        assert lost not in list(rig.driver.list_volumes())
        member.incus("admin", "sql", "global", f"DELETE FROM instances WHERE name = '{name}'")
        assert lost in list(rig.driver.list_volumes())
        with pytest.raises(DriverError, match=f"root volume {name} in pool local without it"):
            caller.run(host, guest)
        member.incus("admin", "sql", "global", f"DELETE FROM storage_volumes WHERE name = '{name}'")
        pools = json.dumps({"pools": [{"name": "local", "driver": "dir"}]})
        member.incus("query", "--wait", "-X", "POST", "-d", pools, "/internal/recover/import")
        assert lost not in list(rig.driver.list_volumes())
        caller.run(host, guest)

    @pytest.fixture
    def traces(self, rig: Rig) -> Callable[[], set[str]]:
        """The files of both members, without the database and images, and the volumes of the cluster."""
        del rig

        def listed() -> set[str]:
            found = set[str]()
            for number in range(1, MEMBERS + 1):
                root = Path(f"{CLUSTER}/{number}")
                for path in root.rglob("*"):
                    name = str(path.relative_to(root))
                    if name.split("/", maxsplit=1)[0] not in OF_DAEMONS and "/rootfs/" not in name:
                        found.add(f"{number} {name}")
            volumes = Member(1).incus("storage", "volume", "list", "local", "--format", "csv", "--columns", "tn")
            return found | {one for one in volumes.splitlines() if not one.startswith("image,")}

        return listed

    def test_an_instance_without_its_root_volume_is_made_anew_or_removed(self, rig: Rig, caller: Caller) -> None:
        """A daemon died between the two: Incus changes nothing of what it left, and does not start it."""
        host, member, guests = rig.hosts[1], Member(2), (rig.new_guest(), rig.new_guest())
        for guest in guests:
            rig.fail_next("devices")  # the gate stays
            with pytest.raises(DriverError, match="the connection broke"):
                caller.run(host, guest)
            name = f"vm-{guest.uuid}"
            member.incus("admin", "sql", "global", f"DELETE FROM storage_volumes WHERE name = '{name}'")
            shutil.rmtree(f"{CLUSTER}/2/storage-pools/local/containers/{name}")
        caller.remove(host, guests[0])
        with pytest.raises(DriverError, match="the instance was removed") as removed:
            caller.run(host, guests[1])
        assert removed.value.transient
        caller.run(host, guests[1])
        assert member.incus("list", "--format", "csv", "--columns", "ns").split() == [
            f"vm-{guests[1].uuid},RUNNING"
        ]

    def test_members_without_virtual_machines_are_no_hosts_for_them(self, rig: Rig, machines: Machines) -> None:
        """Where ``vhost_vsock`` is missing, as it mostly is where this runs."""
        if Path("/dev/vhost-vsock").exists():
            pytest.skip("these members may run virtual machines")
        with pytest.raises(DriverError, match="cannot run virtual machines"):
            rig.driver.admit_host(replace(machines.answering[0], hypervisor="KVM"), timeout_s=PATIENCE_S)

    def test_hosts_are_looked_at(self, rig: Rig, caller: Caller) -> None:
        """Each host tells its own guests; a guest that ended by itself is told as stopped."""
        guests = [rig.new_guest() for _ in rig.hosts]
        for host, guest in zip(rig.hosts, guests, strict=True):
            caller.run(host, guest)
        found = rig.driver.look_at_hosts(rig.hosts, timeout_s=PATIENCE_S)
        assert [[one.uuid for one in of_host] for of_host in found if isinstance(of_host, list)] == [
            [guest.uuid] for guest in guests
        ]
        assert isinstance(rig.driver, IncusDriver)
        state = path_of("instances", f"vm-{guests[0].uuid}", "state")
        rig.driver._incus.run("PUT", state, {"action": "stop", "force": True}, timeout_s=PATIENCE_S)
        (seen,) = rig.driver.look_at_hosts(rig.hosts[:1], timeout_s=PATIENCE_S)
        assert isinstance(seen, list)
        (ended,) = seen
        assert ended.power is PowerState.STOPPED

    def test_ends_are_told_of(self, rig: Rig, caller: Caller) -> None:
        """A stop by hand and a death, on either member; also after the member was killed that told of them."""
        members, staying = [Member(1), Member(2)], rig.new_guest()
        caller.run(rig.hosts[0], staying)

        def is_reported(number: int, end: Callable[[UUID], object]) -> bool:
            """Whether the end of a guest on this member is told of, if not at once, then of its next."""
            guest, until = rig.new_guest(), time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                caller.run(rig.hosts[number], guest)
                if guest.uuid in rig.driver.ended_guests(rig.hosts):  # told late, of its last end
                    return True
                end(guest.uuid)
                heard_until = time.monotonic() + HEARD_S
                while time.monotonic() < heard_until:
                    reported = rig.driver.ended_guests(rig.hosts)
                    assert staying.uuid not in reported
                    if guest.uuid in reported:
                        return True
                    time.sleep(0.05)
            return False

        def stop_by_hand(guest_uuid: UUID) -> None:
            members[0].incus("stop", "--force", f"vm-{guest_uuid}")

        assert is_reported(0, stop_by_hand)
        assert is_reported(1, lambda _: members[1].kill_guest(random.Random()))  # noqa: S311 - no secret
        members[0].signal_daemon(signal.SIGKILL)
        members[0].wait()
        assert is_reported(1, stop_by_hand)


class TestIncusOutages(OutageContract):
    """Member 2 falls silent: the database of a cluster of two is on member 1."""

    @pytest.fixture
    def rig(self, rig: Rig) -> Rig:
        """The member that falls silent comes first."""
        return replace(rig, hosts=rig.hosts[::-1])

    @pytest.fixture
    def outage(self, rig: Rig) -> Iterator[Outage]:
        """Stop daemons while their containers run on. Every member is Online again before `rig` removes guests."""

        def bring_back(host: HostAddress) -> None:
            member = Member(int(host.name.removeprefix("member")))
            member.signal_daemon(signal.SIGCONT)
            member.wait()
            incus = Incus(access_of(IncusOptions.model_validate(driver_options())))
            where = path_of("cluster", "members", member.name)
            wait_for(lambda: incus.send("GET", where, timeout_s=PATIENCE_S).value["status"] == "Online", "a member")
            incus.close()

        def cut_off(host: HostAddress) -> None:
            Member(int(host.name.removeprefix("member"))).signal_daemon(signal.SIGSTOP)

        yield Outage(cut_off, bring_back)
        for host in rig.hosts:
            bring_back(host)
