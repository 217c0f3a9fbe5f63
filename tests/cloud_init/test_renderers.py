"""Every renderer of cloud-init understands the network configuration of guests: ``make test-cloud-init``."""

import json
import os
import re
import subprocess
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from bulkdeploy.drivers.cloud_init import network_config
from bulkdeploy.drivers.guests import NicSpec

RELEASES = os.environ.get("CLOUD_INIT_RELEASES")
if RELEASES is None:
    pytest.skip("make test-cloud-init downloads cloud-init's packages", allow_module_level=True)

NICS = (
    NicSpec(
        uuid4(), "02:00:00:00:00:01", "10.0.0.5", UUID(int=1), None, netmask="255.255.255.0", gateway="10.0.0.1",
        dns=("192.0.2.53",), mtu=1450, is_default=True,
    ),
    NicSpec(
        uuid4(), "02:00:00:00:00:02", "172.16.0.5", UUID(int=2), None, netmask="255.255.0.0", gateway="172.16.0.1",
    ),
    NicSpec(uuid4(), "02:00:00:00:00:03", None, UUID(int=3), None),
)  # fmt: skip
"""The default network with all that a network can have, a second network, and one whose addresses come by DHCP."""

RENDERERS = {
    ("eni", "debian"): r"gateway 10\.0\.0\.1",
    ("netplan", "ubuntu"): r"to: default\s+via: 10\.0\.0\.1|gateway4: 10\.0\.0\.1",
    ("networkd", "debian"): r"Gateway=10\.0\.0\.1",
    ("network-manager", "rhel"): r"gateway=10\.0\.0\.1",
    ("sysconfig", "rhel"): r"DEFROUTE=yes[^#]*GATEWAY=10\.0\.0\.1",
}
"""How each renderer writes the default route, by its name and a distribution that uses it."""

SINCE = {"networkd": "bookworm", "network-manager": "bookworm"}
"""The first release of Debian whose cloud-init has these renderers."""

BSD = """
import json, sys
from pathlib import Path
import cloudinit.distros.freebsd
from cloudinit import net
from cloudinit.net import freebsd, network_state
guest = Path(sys.argv[1])
(guest / "etc").mkdir()
for name in ("rc.conf", "resolv.conf"):
    (guest / "etc" / name).touch()
net.get_interfaces_by_mac = lambda: {f"02:00:00:00:00:0{number}": f"vtnet{number - 1}" for number in (1, 2, 3)}
state = network_state.parse_net_config_data(json.load(open(sys.argv[2])))
freebsd.Renderer.start_services = lambda self, run: None  # they are those of this machine
freebsd.Renderer({}).render_network_state(state, target=str(guest))
print((guest / "etc" / "rc.conf").read_text())
"""
"""Runs FreeBSD's renderer as a guest with interfaces vtnet0 to vtnet2 does; prints its rc.conf."""


def run_cloud_init(suite: str, *arguments: str) -> str:
    """Run a release's cloud-init; returns its output."""
    done = subprocess.run(
        [os.environ["CLOUD_INIT_PYTHON"], *arguments],
        env={"PYTHONPATH": f"{RELEASES}/{suite}/usr/lib/python3/dist-packages", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def render(suite: str, renderer: str, distribution: str, configuration: Path, guest: Path) -> dict[Path, str]:
    """Render a network configuration into a folder; returns the files there with their contents."""
    run_cloud_init(
        suite,
        *("-m", "cloudinit.cmd.main", "devel", "net-convert", "-p", str(configuration), "-k", "yaml"),
        *("-d", str(guest), "-D", distribution, "-O", renderer),
    )
    return {path: path.read_text() for path in guest.rglob("*") if path.is_file()}


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """The file with the network configuration of a guest with NICS."""
    path = tmp_path / "network-config"
    path.write_text(json.dumps(network_config(NICS)))
    return path


@pytest.mark.parametrize("suite", ["bullseye", "bookworm", "trixie"])
@pytest.mark.parametrize(("renderer", "distribution"), RENDERERS, ids=lambda value: value)
def test_every_renderer_writes_each_interface(
    suite: str, renderer: str, distribution: str, configuration: Path, tmp_path: Path
) -> None:
    """Each interface has its address, and only the default network has a default route, in each release."""
    if suite < SINCE.get(renderer, "") or (suite == "bullseye" and renderer in SINCE):
        pytest.skip(f"cloud-init of {suite} has no renderer {renderer}")
    written = render(suite, renderer, distribution, configuration, tmp_path / "guest")
    text = "\n".join(written.values())
    for expected in ("10.0.0.5", "172.16.0.5", "192.0.2.53", "1450", *(nic.mac_address for nic in NICS)):
        assert expected in text, text
    assert len(re.findall(RENDERERS[renderer, distribution], text)) == 1, text
    assert "172.16.0.1\n" not in text, text
    for name in ("eth0", "eth1", "eth2"):
        assert name in text or any(name in path.name for path in written), text
    assert re.search(r"dhcp4: true|inet dhcp|DHCP=(ipv4|yes)|method=auto|BOOTPROTO=dhcp", text), text


@pytest.mark.parametrize("suite", ["bullseye", "bookworm", "trixie"])
def test_containers_are_matched_by_name(suite: str, tmp_path: Path) -> None:
    """Netplan gets no MAC address to match: a container's interface has no permanent one."""
    configuration = tmp_path / "network-config"
    names = {nic.uuid: f"eth{number}" for number, nic in enumerate(NICS)}
    configuration.write_text(json.dumps(network_config(NICS, names)))
    written = render(suite, "netplan", "ubuntu", configuration, tmp_path / "guest")
    text = "\n".join(written.values())
    assert all(f"{name}:" in text for name in names.values()), text
    assert "match" not in text, text


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_bsd_has_address_and_route(suite: str, tmp_path: Path) -> None:
    """FreeBSD's renderer writes the address and the default route.

    It would start dhclient on this machine, so no nic has DHCP; that of bullseye writes to this machine's /etc.
    """
    script, configuration = tmp_path / "render.py", tmp_path / "network-config"
    script.write_text(BSD)
    configuration.write_text(json.dumps(network_config(NICS[:2])))
    shown = run_cloud_init(suite, str(script), str(tmp_path), str(configuration))
    assert re.search(r"ifconfig_\w+='(inet )?10\.0\.0\.5 netmask 255\.255\.255\.0", shown), shown
    assert "defaultrouter=10.0.0.1" in shown.replace("'", ""), shown
