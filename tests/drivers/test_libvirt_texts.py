"""What the libvirt driver writes and reads, as far as no libvirt is needed: domains, images, options."""

from dataclasses import replace
from typing import TypeAlias
from uuid import UUID, uuid4
from xml.etree import ElementTree as Tree

import pytest

from bulkdeploy.domain.networks.security_group_rules import Direction, Protocol, Rule, Traffic
from bulkdeploy.domain.virtual_machines.firmware import BootMode
from bulkdeploy.drivers.abilities.details import GuestNic
from bulkdeploy.drivers.libvirt.disk_sources import DiskSource, FileSource, RbdSource
from bulkdeploy.drivers.libvirt.domain import (
    Disk,
    Domain,
    Interface,
    cpu_shares,
    read_domain,
    target_name,
    write_domain,
    write_drive,
)
from bulkdeploy.drivers.libvirt.networks.filters import FIRST, is_guarded, write_filter
from bulkdeploy.drivers.libvirt.options import LibvirtOptions
from bulkdeploy.drivers.libvirt.probe_guest import boot_image
from bulkdeploy.drivers.options import WrongDriverOptions, read_options

Filtered: TypeAlias = tuple[str | None, str, dict[str, str]]
"""A rule of a filter: its way, protocol, and what it matches."""

VOLUMES = [uuid4() for _ in range(3)]
NIC, NETWORK = uuid4(), uuid4()
DOMAIN = Domain(
    uuid=uuid4(),
    name="i-2-3-VM",
    fence=65537,
    kind="kvm",
    machine="pc",
    cpu='<cpu mode="host-model"/>',
    cpu_number=4,
    cpu_mhz=2000,
    memory_mib=4096,
    shares=cpu_shares(4, 2000),
    disks=[Disk(volume, FileSource(f"/pool/{volume}.qcow2")) for volume in VOLUMES],
    interfaces=[
        Interface(
            NIC,
            "02:00:00:00:00:01",
            "bridge",
            "cloudbr0",
            mtu=9000,
            address="10.0.0.5",
            filter_name="web",
            network_uuid=NETWORK,
            ip_address="10.0.0.5",
        )
    ],
    template_uuid=uuid4(),
    seed=FileSource("/pool/seed.iso"),
    console_log="/log/i-2-3-VM",
)


def test_what_is_written_is_read_again() -> None:
    """Sizes, volumes with their targets in order, and nics, by our uuids."""
    seen = read_domain(write_domain(DOMAIN))
    assert seen is not None
    assert (seen.uuid, seen.cpu_number, seen.cpu_mhz) == (DOMAIN.uuid, 4, 2000)
    assert seen.disks == dict(zip(VOLUMES, ("vda", "vdb", "vdc"), strict=True))
    assert seen.nics == (GuestNic(NIC, "02:00:00:00:00:01", NETWORK, "10.0.0.5"),)
    assert (seen.name, seen.template_uuid) == (DOMAIN.name, DOMAIN.template_uuid)
    assert set(seen.devices) == {*VOLUMES, NIC}
    assert seen.targets == {"vda", "vdb", "vdc", "sda", "sdb"}


IMAGE = RbdSource("vms/an.iso", [("10.0.0.1", 3300), ("[2001:db8::1]", 6789)], "bulkdeploy", uuid4())


@pytest.mark.parametrize("iso", [FileSource("/pool/an.iso"), IMAGE])
@pytest.mark.parametrize(("machine", "bus"), [("pc", "ide"), ("q35", "sata")])
def test_a_drive_has_what_was_put_into_it_last(machine: str, bus: str, iso: DiskSource) -> None:
    """On a bus that the machine has; the guest boots from there after its root volume."""
    empty = read_domain(write_domain(replace(DOMAIN, machine=machine)))
    assert empty is not None
    assert (empty.iso_place, empty.drive is None) == (None, False)
    loaded = read_domain(write_domain(replace(DOMAIN, machine=machine, iso=iso)))
    assert loaded is not None
    assert loaded.iso_place == iso.place
    assert loaded.drive is not None
    changed = Tree.fromstring(write_drive(loaded.drive, FileSource("/pool/other.iso")))  # noqa: S314
    assert [source.get("file") for source in changed.findall("source")] == ["/pool/other.iso"]
    assert changed.get("type") == "file"
    assert Tree.fromstring(write_drive(loaded.drive, None)).find("source") is None  # noqa: S314
    assert [child.get("bus") for child in changed.findall("target")] == [bus]
    root = Tree.fromstring(write_domain(DOMAIN))  # noqa: S314
    order = {disk.find("target").get("dev"): disk.find("boot") for disk in root.findall("devices/disk")}  # type: ignore[union-attr]
    assert {name: boot.get("order") for name, boot in order.items() if boot is not None} == {"vda": "1", "sdb": "2"}


def test_a_guest_has_what_it_was_given_and_may_grow_to_more() -> None:
    """VCPUs are those of now; memory is plugged into a node, which is there only where it may grow."""
    growing = write_domain(replace(DOMAIN, growth=4))
    seen = read_domain(growing)
    assert seen is not None
    assert (seen.cpu_number, seen.most_cpus) == (4, 16)
    written = Tree.fromstring(growing)  # noqa: S314
    assert (written.findtext("memory"), written.findtext("maxMemory")) == ("4096", str(4 * 4096))
    assert [cell.get("memory") for cell in written.findall("cpu/numa/cell")] == ["4096"]
    assert "numa" not in write_domain(DOMAIN)


def test_growth_ends_where_hosts_have_no_more() -> None:
    """A large guest starts all the same; one that is larger than the bounds does not grow."""
    large = write_domain(replace(DOMAIN, growth=4, cpu_number=64, memory_mib=512 * 1024))
    seen = read_domain(large)
    assert seen is not None
    assert (seen.cpu_number, seen.most_cpus) == (64, 255)
    root = Tree.fromstring(large)  # noqa: S314
    assert (root.findtext("memory"), root.findtext("maxMemory")) == (str(512 * 1024), str(1024 * 1024))
    assert [cell.get("cpus") for cell in root.findall("cpu/numa/cell")] == ["0-254"]
    largest = write_domain(replace(DOMAIN, growth=4, cpu_number=300, memory_mib=2048 * 1024))
    seen = read_domain(largest)
    assert seen is not None
    assert (seen.cpu_number, seen.most_cpus, "maxMemory" in largest) == (300, 300, False)


@pytest.mark.parametrize(
    ("mode", "machine", "secure"), [(BootMode.LEGACY, "pc", "no"), (BootMode.SECURE, "q35", "yes")]
)
def test_libvirt_chooses_the_firmware(mode: BootMode, machine: str, secure: str) -> None:
    """Secure boot only on a machine that can do it; without a mode nothing is said of firmware."""
    os = Tree.fromstring(write_domain(replace(DOMAIN, uefi=mode))).find("os")  # noqa: S314 - written a moment ago
    assert os is not None
    assert (os.get("firmware"), [one.get("machine") for one in os.findall("type")]) == ("efi", [machine])
    assert [one.get("enabled") for one in os.findall("firmware/feature[@name='secure-boot']")] == [secure]
    assert "firmware" not in write_domain(DOMAIN)


def test_other_peoples_domains_are_left_alone() -> None:
    """A domain without our metadata is none of ours, whatever it is called."""
    root = Tree.fromstring(write_domain(DOMAIN))  # noqa: S314 - written a moment ago
    metadata = root.find("metadata")
    assert metadata is not None
    root.remove(metadata)
    assert read_domain(Tree.tostring(root, encoding="unicode")) is None


def test_texts_of_others_stay_texts() -> None:
    """A name or path with markup in it is written as it is, and changes nothing else."""
    strange = "a<b>&'\"</name>"
    written = Tree.fromstring(write_domain(replace(DOMAIN, name=strange, console_log=strange)))  # noqa: S314
    assert written.findtext("name") == strange
    assert [log.get("file") for log in written.findall("devices/serial/log")] == [strange]


def test_a_guest_has_the_cpu_that_its_cluster_can_give() -> None:
    """Word for word, and the node that memory is plugged into."""
    baseline = '<cpu mode="custom" match="exact"><model>Haswell</model><feature policy="disable" name="rtm"/></cpu>'
    cpu = Tree.fromstring(write_domain(replace(DOMAIN, cpu=baseline, growth=2))).find("cpu")  # noqa: S314
    assert cpu is not None
    assert [node.get("memory") for node in cpu.findall("numa/cell")] == [str(DOMAIN.memory_mib)]
    cpu.remove(cpu.findall("numa")[0])
    assert Tree.tostring(cpu, encoding="unicode") == Tree.tostring(Tree.fromstring(baseline), encoding="unicode")  # noqa: S314


def test_addresses_are_guarded_and_networks_tagged() -> None:
    """A nic sends with its own address; one of Open vSwitch has its VLAN's tag."""
    tagged = Interface(uuid4(), "02:00:00:00:00:02", "bridge", "ovs0", vlan="101")
    written = Tree.fromstring(write_domain(replace(DOMAIN, interfaces=[*DOMAIN.interfaces, tagged])))  # noqa: S314
    first, last = written.findall("devices/interface")
    guard = first.find("filterref/parameter")
    assert guard is not None
    assert (guard.get("name"), guard.get("value")) == ("IP", "10.0.0.5")
    assert [one.get("filter") for one in first.findall("filterref")] == ["web"]
    assert last.find("filterref") is None
    tag = last.find("vlan/tag")
    assert tag is not None
    assert tag.get("id") == "101"


def test_a_filter_lets_through_what_rules_say_and_refuses_the_rest() -> None:
    """What goes out is refused only where there is a rule for it; numbers that say everything are left out."""

    def filtered(*rules: Rule) -> dict[str, list[Filtered]]:
        root = Tree.fromstring(write_filter(NIC, rules, guarded=True))  # noqa: S314
        assert (root.findtext("uuid"), is_guarded(write_filter(NIC, rules, guarded=True))) == (str(NIC), True)
        found = [(one, one[0]) for one in root.findall("rule") if one.get("priority") != FIRST]
        return {
            action: [
                (one.get("direction"), what.tag, what.attrib) for one, what in found if one.get("action") == action
            ]
            for action in ("accept", "drop")
        }

    web = Rule(Direction.INGRESS, Traffic(Protocol.TCP, 80, 90), "10.1.2.3/8")
    ping = Rule(Direction.INGRESS, Traffic(Protocol.ICMP, icmp_type=-1, icmp_code=-1), "2001:db8::/32")
    out = Rule(Direction.EGRESS, Traffic(Protocol.ALL), "192.0.2.0/24")
    refused: list[Filtered] = [("in", "all", {}), ("in", "all-ipv6", {})]
    free: list[Filtered] = [("out", "all", {}), ("out", "all-ipv6", {})]
    ports = {"srcipaddr": "10.0.0.0", "srcipmask": "8", "dstportstart": "80", "dstportend": "90"}
    pinged = {"srcipaddr": "2001:db8::", "srcipmask": "32"}
    let_in = [("in", "icmpv6", pinged), ("in", "tcp", ports)]
    assert filtered(web, ping) == {"accept": [*let_in, *free], "drop": refused}
    sent = ("out", "all", {"dstipaddr": "192.0.2.0", "dstipmask": "24"})
    assert filtered(out) == {"accept": [sent], "drop": [free[0], refused[0], free[1], refused[1]]}


def test_targets_go_on_after_the_alphabet() -> None:
    """As the kernel names disks."""
    assert [target_name(number) for number in (0, 25, 26, 27, 701, 702)] == [
        "vda", "vdz", "vdaa", "vdab", "vdzz", "vdaaa",
    ]  # fmt: skip


def test_shares_stay_within_what_control_groups_know() -> None:
    """In proportion to the CPU promised, from 2 to 10,000."""
    assert [cpu_shares(*sizes) for sizes in ((1, 10), (2, 2000), (64, 4000))] == [2, 400, 10_000]


def test_the_smallest_guest_is_a_boot_sector() -> None:
    """A disk of 1 MiB whose first sector firmware boots."""
    image = boot_image()
    assert (len(image), image[510:512]) == (1024**2, b"\x55\xaa")
    assert b"guest " in image[:510]
    assert not any(image[512:])


def test_options_name_what_is_wrong() -> None:
    """With the option's name; all that is not given has a default that runs on Debian and Rocky."""
    assert read_options("libvirt", LibvirtOptions, {}).virtualization == "kvm"
    with pytest.raises(WrongDriverOptions, match="network"):
        read_options("libvirt", LibvirtOptions, {"network": "token ring"})


def test_a_seed_tells_a_guest_who_it_is() -> None:
    """Host name, keys, password and addresses stand in a volume that cloud-init looks for."""
    pycdlib = pytest.importorskip("pycdlib", reason="seeds need pip install 'bulkdeploy[libvirt]'")
    from io import BytesIO

    from bulkdeploy.drivers.guests import GuestSpec, NicSpec
    from bulkdeploy.drivers.libvirt.seed import make_seed

    nic = NicSpec(
        uuid4(), "02:00:00:00:00:01", "10.0.0.5", UUID(int=1), None,
        netmask="255.255.255.0", gateway="10.0.0.1", dns=("192.0.2.53",), is_default=True,
    )  # fmt: skip
    guest = GuestSpec(
        uuid4(), "i-2-3-VM", 1, 1000, 512, (), (nic,), "I2Nsb3VkLWNvbmZpZwo=", {"role": "web"},
        ("ssh-ed25519 AAAA",), "s3cret", "web-1",
    )  # fmt: skip
    iso = pycdlib.PyCdlib()
    iso.open_fp(BytesIO(make_seed(guest)))
    files = {}
    for child in iso.list_children(joliet_path="/"):
        name = child.file_identifier().decode("utf-16-be", "replace")
        if child.is_file():
            content = BytesIO()
            iso.get_file_from_iso_fp(content, joliet_path=f"/{name}")
            files[name] = content.getvalue().decode()
    assert iso.pvd.volume_identifier.decode().strip() == "cidata"
    assert files["user-data"] == "#cloud-config\n"
    assert all(part in files["meta-data"] for part in ("web-1", "ssh-ed25519 AAAA", '"role": "web"'))
    assert "s3cret" in files["vendor-data"]
    assert all(part in files["network-config"] for part in ("10.0.0.5/24", "10.0.0.1", "192.0.2.53"))
