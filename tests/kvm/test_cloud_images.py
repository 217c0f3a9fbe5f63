"""Images of a distribution with cloud-init boot, have their network, and let in whoever has the key.

One image of Debian for each renderer of cloud-init that Debian's packages have (``debian_images.sh``). The renderer
sysconfig and those of the BSDs cannot be built here; tests/cloud_init renders for them.
"""

import base64
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine

from bulkdeploy.domain.deployments.health_checks import HealthCheck
from bulkdeploy.drivers.contract import Caller
from bulkdeploy.drivers.guests import GuestCheck, GuestSpec, NicSpec, VolumeSpec
from bulkdeploy.drivers.records import TemplateImage
from tests.kvm.fixed_records import POOL, FixedRules, address_of, driver_on
from tests.support.hypervisors.libvirt_hosts import LibvirtHosts, why_not
from tests.support.hypervisors.libvirt_networks import BridgedHost
from tests.support.runs.waiting import say, wait_for

if (reason := why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

RENDERERS = ("eni", "netplan", "networkd", "network-manager")
SIZE = 1502 * 1024**2
MISSING_PACKAGES = 77
"""The exit code of debian_images.sh if it cannot get the packages."""

SWIOTLB_KIB = 60 << 10
"""Linux reserves 64 MiB where memory may be plugged in above 4 GiB. Tables for more pages vary with the image."""

BOOT_S = 1800.0
"""A guest is emulated on a machine that may be busy: it takes two minutes where nothing else runs."""

DNS = "10.8.255.53"
USER_DATA = "#cloud-config\nwrite_files: [{path: /etc/told, content: by-user-data}]\n"
WRITTEN_FOR_IFUPDOWN = "/etc/network/interfaces.d/50-cloud-init"
"""ifupdown passes name servers on to resolvconf only, which cannot be installed beside systemd-resolved."""

QUESTIONS = (
    "hostname; cat /etc/told; grep MemTotal /proc/meminfo; ip -4 -brief address; ip -4 route; resolvectl dns;"
    f" [ ! -e {WRITTEN_FOR_IFUPDOWN} ] || cat {WRITTEN_FOR_IFUPDOWN}"
)


@dataclass(frozen=True)
class Images:
    """A folder with an image for each renderer, and a key pair."""

    folder: Path

    @property
    def public_key(self) -> str:
        """The public half of the key pair."""
        return (self.folder / "key.pub").read_text().strip()

    def template(self, number: int) -> TemplateImage:
        """Return the template of the renderer with this number."""
        path = self.folder / f"{RENDERERS[number]}.raw"
        return TemplateImage(UUID(int=100 + number), path.stem, path.as_uri(), "RAW", None, SIZE)

    def query(self, host: BridgedHost, address: str) -> str:
        """Log in from the host by ssh and return the answers to QUESTIONS; empty if the guest cannot be reached."""
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "ConnectTimeout=20")
        command = ["nsenter", "--net", "--target", str(host.pid), "ssh", "-i", str(self.folder / "key")]
        command += [*(f"-o{option}" for option in options), f"debian@{address}", QUESTIONS]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    """The images; made once, as that takes minutes."""
    folder = tmp_path_factory.mktemp("images")
    script = Path(__file__).with_name("debian_images.sh")
    made = subprocess.run([str(script), str(folder), *RENDERERS], check=False)
    if made.returncode == MISSING_PACKAGES:
        pytest.skip("mmdebstrap, grub-pc-bin, or the packages of Debian 12 cannot be had")
    assert made.returncode == 0
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
    return Images(folder)


def new_guest(images: Images, number: int) -> GuestSpec:
    """Return a guest of the renderer with this number that has a default network and a second one.

    The guest after the last renderer is made from the first image, and may be scaled while it runs.
    """
    image = number % len(RENDERERS)
    first = NicSpec(
        uuid4(), f"02:00:00:0c:00:{number:02x}", f"10.8.1.{10 + number}", UUID(int=1), None, netmask="255.255.0.0",
        gateway="10.8.255.1", dns=(DNS,), label="cloudbr0", mtu=1450, is_default=True,
    )  # fmt: skip
    second = NicSpec(
        uuid4(), f"02:00:00:0d:00:{number:02x}", f"10.9.0.{10 + number}", UUID(int=2), None,
        netmask="255.255.255.0", gateway="10.9.0.1", label="cloudbr0",
    )  # fmt: skip
    root = VolumeSpec(uuid4(), "ROOT", SIZE, POOL, UUID(int=100 + image))
    return GuestSpec(
        uuid4(), f"i-2-{number}-VM", 1, 1000, 512, (root,), (first, second),
        base64.b64encode(USER_DATA.encode()).decode(), {}, (images.public_key,), host_name=f"web-{number}",
        is_dynamically_scalable=number != image,
    )  # fmt: skip


@pytest.fixture
def caller(bridged: LibvirtHosts, engine: Engine, images: Images) -> Iterator[Caller]:
    """Calls a driver that knows the images as templates."""
    with driver_on(bridged, engine, images.folder, FixedRules(), network="bridge", seed=True) as driver:
        records = driver._records
        templates = {images.template(number).uuid: images.template(number) for number in range(len(RENDERERS))}
        records.directory._templates.update(templates)  # type: ignore[attr-defined]
        driver.use_records(replace(records))
        yield Caller(driver, timeout_s=BOOT_S)


def test_guests_of_every_renderer_are_reached_by_ssh(bridged: LibvirtHosts, images: Images, caller: Caller) -> None:
    """Host name, key pair, user data, addresses, route and name server are those of the VM, and agents answer."""
    host = next(host for host in bridged.hosts if isinstance(host, BridgedHost))
    guests = [new_guest(images, number) for number in range(len(RENDERERS) + 1)]
    for guest in guests:
        template = guest.volumes[0].template_uuid
        assert template is not None
        caller.driver.ensure_template(address_of(host), POOL, template, timeout_s=BOOT_S)
        caller.run(address_of(host), guest)
    deadline = time.monotonic() + BOOT_S
    answers: dict[int, str] = {}
    while len(answers) < len(guests):
        assert time.monotonic() < deadline, {n: bridged.console(guests[n].uuid)[-2000:] for n in range(len(guests))}
        for number in set(range(len(guests))) - answers.keys():
            answer = images.query(host, f"10.8.1.{10 + number}")
            if "by-user-data" in answer:
                answers[number] = answer
        time.sleep(1)
    checks = [GuestCheck(address_of(host), guest.uuid, None, HealthCheck()) for guest in guests]
    wait_for(lambda: all(caller.driver.answers_of_guests(checks, timeout_s=60).values()), patience_s=BOOT_S)
    for number, answer in answers.items():
        assert answer.splitlines()[0] == f"web-{number}", answer
        assert f"10.8.1.{10 + number}/16" in answer, answer
        assert f"10.9.0.{10 + number}/24" in answer, answer
        assert [line.split()[2] for line in answer.splitlines() if line.startswith("default ")] == ["10.8.255.1"], (
            answer
        )
        assert DNS in answer, (number, answer)
    memory_kib = {
        number: int(re.findall(r"MemTotal: *([0-9]+) kB", answer)[0]) for number, answer in answers.items()
    }
    say(f"memory in KiB: {memory_kib}")
    growable = memory_kib.pop(len(RENDERERS))
    assert min(memory_kib.values()) >= growable + SWIOTLB_KIB
