"""What users register reaches no file of a host: on real libvirt daemons and QEMU, by HTTP."""

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as Tree

import pytest

from bulkdeploy.drivers.libvirt.probe_guest import boot_image
from tests.kvm.conftest import made_hosts
from tests.kvm.test_bulk_call import Cloud, cloud, nothing_left, wait_until
from tests.security.qcow2 import Qcow2
from tests.support.api.api_client import ApiClient

__all__ = ["cloud", "made_hosts", "nothing_left"]

MIB = 1 << 20
SECRET = b"the host's secret"


@dataclass
class Shelf:
    """A folder that a web server shows, and a plain user who registers what is in it."""

    cloud: Cloud
    user: ApiClient
    folder: Path
    url: str

    def register(self, name: str, **more: object) -> str:
        """Register the file of this name as a template of the user's; its id."""
        ids = self.cloud.ids
        (os_type,) = self.cloud.client.call("listOsTypes", page=1, pagesize=1)["ostype"]
        given = {"format": "QCOW2", "hypervisor": "KVM", "ostypeid": os_type["id"], "zoneid": ids["zoneid"]}
        made = self.user.call(
            "registerTemplate", name=name, displaytext=name, **{"url": f"{self.url}/{name}", **given, **more}
        )
        return str(made["template"][0]["id"])

    def deploy(self, template: str) -> dict[str, Any]:
        """How the job that deploys a VM of the user's from this template ends."""
        ids = {**self.cloud.ids, "templateid": template}
        job = self.user.call("deployVirtualMachine", **ids)["jobid"]

        def ended() -> dict[str, Any] | None:
            found = self.user.call("queryAsyncJobResult", jobid=job)
            return found if found["jobstatus"] else None

        return dict(wait_until(ended, f"job {job} does not end"))

    def copies(self, template: str) -> list[str]:
        """The files in the pool that belong to a template."""
        return [file.name for file in self.cloud.hosts.pool.iterdir() if template in file.name]


@pytest.fixture(scope="module")
def shelf(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """A web server at an address that the settings allow, and a user."""
    folder = tmp_path_factory.mktemp("shelf")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    person = {"email": "a@b.example", "firstname": "A", "lastname": "B", "password": "a long password"}
    made = cloud.client.call("createAccount", username="mallory", accounttype=0, **person)["account"]
    keys = cloud.client.call("registerUserKeys", id=made["user"][0]["id"])["userkeys"]
    user = ApiClient(cloud.client.url, keys["apikey"], keys["secretkey"])
    yield Shelf(cloud, user, folder, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def nobody_stays(shelf: Shelf, nothing_left: None) -> Iterator[None]:
    """The VMs of the user go with each test, before it is seen that nothing is left."""
    del nothing_left
    yield
    for vm in shelf.cloud.client.call("listVirtualMachines", listall=True).get("virtualmachine", ()):
        shelf.cloud.job("destroyVirtualMachine", id=vm["id"], expunge=True)


def create(path: Path, *arguments: str) -> None:
    """Make an image by ``qemu-img create``."""
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *arguments, str(path), "2M"], check=True)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the host."""
    path = tmp_path / "secret"
    path.write_bytes(SECRET.ljust(2 * MIB, b"\0"))
    path.chmod(0o644)
    return path


def test_a_sound_image_of_a_user_boots(shelf: Shelf) -> None:
    """Otherwise the tests below would prove nothing; its disk and its backing file have explicit formats."""
    (shelf.folder / "raw").write_bytes(boot_image().ljust(MIB, b"\0"))
    convert = [
        "qemu-img",
        "convert",
        "-f",
        "raw",
        "-O",
        "qcow2",
        str(shelf.folder / "raw"),
        str(shelf.folder / "sound"),
    ]
    subprocess.run(convert, check=True)
    digest = hashlib.sha256((shelf.folder / "sound").read_bytes()).hexdigest()
    template = shelf.register("sound", checksum=f"{{SHA-256}}{digest}")
    ended = shelf.deploy(template)
    assert ended["jobstatus"] == 1, ended
    vm = ended["jobresult"]["virtualmachine"]["id"]
    wait_until(lambda: shelf.cloud.says_who_it_is(vm), "it does not boot")
    root = Tree.fromstring(defined(shelf.cloud, vm))  # noqa: S314 - of a daemon of this test
    for disk in root.findall("devices/disk"):
        if disk.get("device") == "disk":
            formats = [each.get("type") for each in disk.iter("format")]
            assert (disk.find("driver").get("type"), formats) == ("qcow2", ["qcow2"])  # type: ignore[union-attr]
            assert [each.get("type") for each in disk.iter("backingStore")] == ["file", None]
        else:
            assert disk.find("driver").get("type") == "raw"  # type: ignore[union-attr]
    assert root.find("seclabel") is None or root.find("seclabel").get("type") != "none"  # type: ignore[union-attr]


def defined(cloud: Cloud, vm: str) -> str:
    """The inactive definition of a VM's guest, by its daemon."""
    import libvirt

    (host,) = (one for one in cloud.hosts.hosts if one.name == cloud.host_of(vm))
    connection = libvirt.open(host.url.split("#")[0])
    try:
        return str(connection.lookupByUUID(UUID(vm).bytes).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    finally:
        connection.close()


EVIL = {
    "backing": ("-b", "{secret}", "-F", "raw"),
    "old-backing": ("-o", "compat=0.10", "-b", "{secret}", "-F", "raw"),
    "data-file": ("-o", "data_file={secret}"),
    "raw-data-file": ("-o", "data_file={secret},data_file_raw=on"),
}


@pytest.mark.parametrize("image_format", ["QCOW2", "RAW"])
@pytest.mark.parametrize("name", EVIL)
def test_an_image_that_refers_to_a_file_of_the_host_makes_no_vm(
    shelf: Shelf, secret: Path, name: str, image_format: str
) -> None:
    """The job fails and says why; no pool has the image, no guest runs, and the file was not read."""
    create(shelf.folder / name, *(one.format(secret=secret) for one in EVIL[name]))
    template = shelf.register(name, format=image_format)
    ended = shelf.deploy(template)
    assert ended["jobstatus"] == 2, ended
    assert "template" in ended["jobresult"]["errortext"]
    assert shelf.copies(template) == []
    assert shelf.cloud.hosts.running() == {}
    if "data" not in name:
        assert secret.read_bytes().startswith(SECRET)


def test_a_bomb_and_a_wrong_checksum_leave_no_file(shelf: Shelf) -> None:
    """Neither what declares more than the setting allows, nor what is not what its checksum says."""
    (shelf.folder / "bomb").write_bytes(Qcow2(disk_bytes=1 << 50, l1_entries=1 << 21, file_bytes=20 * MIB).write())
    (shelf.folder / "changed").write_bytes(Qcow2().write())
    for name, more in (("bomb", {}), ("changed", {"checksum": "{SHA-256}" + "0" * 64})):
        template = shelf.register(name, **more)
        ended = shelf.deploy(template)
        assert ended["jobstatus"] == 2, ended
        assert shelf.copies(template) == []
    shelf.cloud.assert_intact()


def test_an_internal_server_answers_nobody(shelf: Shelf) -> None:
    """A URL that redirects to an address that is not allowed, and one whose server refuses: no answer is told."""
    (shelf.folder / "gone").unlink(missing_ok=True)
    ended = shelf.deploy(shelf.register("gone"))
    assert ended["jobstatus"] == 2
    assert "404" not in ended["jobresult"]["errortext"]
    assert "Not Found" not in ended["jobresult"]["errortext"]
