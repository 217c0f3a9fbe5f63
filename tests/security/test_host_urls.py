"""A host's URL starts no program on the service's machine and opens no file outside the directories for it."""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from sqlalchemy import Engine

from bulkdeploy.api.app import create_app
from bulkdeploy.drivers.libvirt.host_url import HostUrlError, read_host_url
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.registry import configure_drivers
from bulkdeploy.services.system import System
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.driver_records import records_in
from tests.support.api.api_server import serving
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.zones.infrastructure_calls import Cloud

if TYPE_CHECKING:
    from bulkdeploy.drivers.simulator.driver import SimulatorDriver

NEEDS_LIBVIRT = pytest.mark.skipif(
    importlib.util.find_spec("libvirt") is None, reason="the libvirt binding is not installed: make test-kvm"
)

REJECTED = (
    "qemu+ext://x/system?command={program}",
    "qemu+ext:///system?command={program}",
    "QEMU+EXT://x/system?command={program}",
    "qemu+ssh://x/system?command={program}",
    "qemu+ssh://x/system?Command={program}",
    "qemu+ssh://x/system?%63ommand={program}",
    "qemu+ssh://x/system?keyfile=/etc/bulkdeploy/key&command={program}",
    "qemu+ssh://x/system?command={program}#kvm1",
    "qemu+ssh://x/system?netcat={program}",
    "qemu+ssh://x/system?netcat=x;{program}",
    "qemu+ssh://x/system?proxy=netcat",
    "qemu+ssh://x/system?socket=/run/libvirt/libvirt-sock",
    "qemu+ssh://x/system?no_verify=1",
    "qemu+tls://x/system?no_verify=1",
    "qemu+ssh://x/system?known_hosts=/dev/null",
    "qemu+ssh://x/system?known_hosts_verify=ignore",
    "qemu+ssh://x/system?sshauth=password",
    "qemu+ssh://x/system?mode=legacy",
    "qemu+ssh://x/system?auto=1",
    "qemu+ssh://x/system?a=1;command={program}",
    "qemu+ssh://-oProxyCommand={program}/system",
    "qemu+ssh://-oProxyCommand=x/system",
    "qemu+ssh://-l@x/system",
    "qemu+ssh://root -oProxyCommand=x@y/system",
    "qemu+ssh://ro%2fot@x/system",
    "qemu+ssh://x%20-oProxyCommand=y/system",
    "qemu+ssh://x;{program}/system",
    "qemu+ssh://$(id)/system",
    "qemu+ssh:///system",
    "qemu+ssh://localhost/system",
    "qemu+ssh://127.0.0.1/system",
    "qemu+ssh://127.1/system",
    "qemu+ssh://0/system",
    "qemu+ssh://2130706433/system",
    "qemu+ssh://[::1]/system",
    "qemu+ssh://[::ffff:127.0.0.1]/system",
    "qemu+ssh://169.254.169.254/system",
    "qemu+tls://[fe80::1]/system",
    "qemu+tls://224.0.0.1/system",
    "qemu+libssh://x/system",
    "qemu+libssh2://x/system",
    "qemu+tcp://x/system",
    "qemu+unix+ext://x/system",
    "qemu+tls://root@x/system",
    "qemu+tls://x/system?keyfile=/etc/bulkdeploy/key",
    "qemu+tls://x/system?pkipath=/tmp",
    "qemu+unix://x/system",
    "qemu+unix:///system?socket=/tmp/evil.sock",
    "qemu+unix:///system?socket=/run/libvirt/../../tmp/evil.sock",
    "qemu+unix:///system?socket=libvirt-sock",
    "qemu+unix:///system?socket=/run/libvirt",
    "qemu+unix:///system?socket=/run/libvirt/a&socket=/tmp/b",
    "qemu+ssh://x/system?keyfile=/root/.ssh/id_ed25519",
    "qemu+ssh://x/system?keyfile=/etc/bulkdeploy/../shadow",
    "qemu+ssh://x/system?keyfile=../../etc/shadow",
    "qemu+ssh://x/system?keyfile=/etc/bulkdeployment/key",
    "qemu:///embed?root=/tmp",
    "qemu:///system/../session",
    "qemu+ssh://x/",
    "qemu+ssh://x",
    "test:///default",
    "test+ext://x/default?command={program}",
    "xen+ssh://x/system",
    "lxc:///system",
    "openvz:///system",
    "esx://x/?no_verify=1",
    "file:///etc/passwd",
    "qemu+ssh://x:99999/system",
    "qemu+ssh://[::1/system",
    "",
)
ACCEPTED = {
    "qemu+ssh://root@kvm1/system": "qemu+ssh://root@kvm1/system?no_tty=1",
    "qemu+ssh://root@kvm1:2222/system#name": "qemu+ssh://root@kvm1:2222/system?no_tty=1",
    "qemu+ssh://kvm1.example.org/system?keyfile=/etc/bulkdeploy/keys/kvm":
        "qemu+ssh://kvm1.example.org/system?keyfile=/etc/bulkdeploy/keys/kvm&no_tty=1",
    "qemu+ssh://10.0.0.5/session": "qemu+ssh://10.0.0.5/session?no_tty=1",
    "qemu+ssh://[2001:db8::5]/system": "qemu+ssh://[2001:db8::5]/system?no_tty=1",
    "qemu+tls://kvm1/system": "qemu+tls://kvm1/system",
    "qemu://kvm1/system": "qemu+tls://kvm1/system",
    "qemu+tls://kvm1/system?pkipath=/etc/bulkdeploy/pki": "qemu+tls://kvm1/system?pkipath=/etc/bulkdeploy/pki",
    "qemu:///system": "qemu+unix:///system",
    "qemu+unix:///system#local": "qemu+unix:///system",
    "qemu+unix:///session?socket=/run/libvirt/libvirt-sock": "qemu+unix:///session?socket=/run/libvirt/libvirt-sock",
}  # fmt: skip


@pytest.mark.parametrize("url", REJECTED)
def test_a_url_outside_the_allow_list_is_rejected(url: str) -> None:
    """Whatever transport, parameter, host or file it names."""
    with pytest.raises(HostUrlError):
        read_host_url(url.format(program="/srv/evil"), LibvirtOptions())


@pytest.mark.parametrize(("url", "opened"), ACCEPTED.items(), ids=ACCEPTED)
def test_libvirt_opens_a_url_that_is_written_anew(url: str, opened: str) -> None:
    """With what was read, and nothing else of the caller's text."""
    assert read_host_url(url, LibvirtOptions()).write() == opened


def test_more_is_allowed_by_options_only() -> None:
    """Connections without encryption, and hosts that do not prove who they are."""
    options = LibvirtOptions(transports=("tcp",))
    assert read_host_url("qemu+tcp://kvm1/system", options).write() == "qemu+tcp://kvm1/system"
    with pytest.raises(HostUrlError, match="one of tcp"):
        read_host_url("qemu+ssh://kvm1/system", options)
    trusting = LibvirtOptions(verify_hosts=False)
    assert read_host_url("qemu+tls://kvm1/system", trusting).write() == "qemu+tls://kvm1/system?no_verify=1"


def test_a_key_file_behind_a_link_is_judged_by_where_it_is(tmp_path: Path) -> None:
    """A link below the directory may lead out of it."""
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "link").symlink_to("/etc/shadow")
    (keys / "good").touch()
    options = LibvirtOptions(key_directory=keys)
    assert read_host_url(f"qemu+ssh://x/system?keyfile={keys}/good", options).file == keys / "good"
    with pytest.raises(HostUrlError, match="key_directory"):
        read_host_url(f"qemu+ssh://x/system?keyfile={keys}/link", options)


@pytest.fixture
def cloud(system: System, engine: Engine, cipher: FernetCipher) -> Iterator[Cloud]:
    """An API whose KVM hosts are libvirt's."""
    drivers = configure_drivers({"KVM": "libvirt"}, {}, lambda serves: records_in(engine, serves))
    with serving(create_app(replace(system, drivers=drivers), refuse_undeclared_fields=True)) as url:
        yield Cloud(engine, url, cipher, cast("SimulatorDriver", SIMULATED.driver_for("Simulator")))
    drivers.close()


@NEEDS_LIBVIRT
def test_add_host_executes_nothing(cloud: Cloud, tmp_path: Path) -> None:
    """Each of these URLs is answered 431, changes nothing, and its program never runs; no password is repeated."""
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    cluster = cloud.cluster(cloud.pod(cloud.zone()["id"]), hypervisor="KVM")
    place = {"zoneid": cluster["zoneid"], "podid": cluster["podid"], "clusterid": cluster["id"]}
    for url in (*REJECTED, "qemu+ssh://root:s3cr3t@x/system?command={program}"):
        named = {"url": url.format(program=program), "hypervisor": "KVM", "username": "x", "password": "y"}
        failed = cloud.refused("addHost", **place, **named)
        assert failed.status == 431, (url, failed)
        assert "s3cr3t" not in failed.errortext
    assert not ran.exists()
    assert cloud.rows("listHosts") == []
