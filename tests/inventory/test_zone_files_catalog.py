"""Zone files: what is offered in zones, by the parameters of the calls that make it."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from bulkdeploy.manage.zone_files.exporting import export_zone
from bulkdeploy.manage.zone_files.loading import LoadReport
from bulkdeploy.store.database.engine import create_engine
from bulkdeploy.wiring.cipher import FernetCipher
from tests.inventory.support import all_rows
from tests.inventory.test_zone_files import load, refusals
from tests.support.processes.services import database_clone

CATALOG = """\
domains: [{name: customers}]
serviceofferings:
  - {name: Small, displaytext: small, cpunumber: 1, cpuspeed: 500, memory: 1 GiB, tags: [ssd, fast], hosttags: gpu}
  - name: Of customers
    displaytext: cores of your choice
    cpuspeed: 500
    mincpunumber: 1
    maxcpunumber: 8
    minmemory: 256 MiB
    maxmemory: 16 GiB
    rootdisksize: 20 GiB
    storagetype: local
    deploymentplanner: UserDispersingPlanner
    offerha: true
    domainid: [customers]
    zoneid: [small]
    serviceofferingdetails: {colour: red}
    state: Inactive
    sortkey: 3
diskofferings:
  - {name: 20 GiB, displaytext: twenty, disksize: 20 GiB, tags: ssd, provisioningtype: fat, details: {a: b}}
  - {name: Any, displaytext: any, customized: true, displayoffering: false, domainid: customers, zoneid: small}
zones:
  - {name: small, networktype: Advanced, dns1: 10.0.0.2, internaldns1: 10.0.0.3}
"""

IMAGES = """\
domains: [{name: customers}]
zones:
  - name: small
    networktype: Advanced
    dns1: 10.0.0.2
    internaldns1: 10.0.0.3
    domainid: customers
    templates:
      - name: Debian 12
        displaytext: Debian
        hypervisor: KVM
        format: QCOW2
        url: https://images.example/debian.qcow2
        ostypeid: Debian GNU/Linux 12 (64-bit)
        size: 3 GiB
        templatetype: BUILTIN
        ispublic: true
        isfeatured: true
        details: {rootDiskController: scsi}
        sortkey: 4
      - {name: Any, hypervisor: None, format: RAW, size: 1 GiB, physicalsize: 9 MiB, isready: false, accountids: []}
    isos:
      - {name: Installer, size: 600 MiB, ispublic: true, bootable: false, status: 35% Downloaded}
  - {name: other, networktype: Advanced, dns1: 10.0.0.2, internaldns1: 10.0.0.3}
"""


def test_a_catalog_is_loaded_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """What a file offers is created; a second load, and one of what was written out, finds it all there."""
    report = load(engine, cipher, tmp_path, CATALOG)
    assert report.created == {"domains": 1, "zones": 1, "serviceofferings": 2, "diskofferings": 2}
    before = all_rows(engine)
    assert load(engine, cipher, tmp_path, CATALOG) == LoadReport()
    assert load(engine, cipher, tmp_path, export_zone(engine)) == LoadReport()
    assert all_rows(engine) == before
    with engine.connect() as connection:
        small = connection.execute(
            text("SELECT memory_mib, storage_tags, host_tags, zone_ids FROM service_offerings WHERE name = 'Small'")
        ).one()
        custom = connection.execute(
            text(
                "SELECT o.root_disk_gib, o.min_memory_mib, o.details, o.state, o.sort_key, d.path, z.name"
                " FROM service_offerings o JOIN domains d ON d.id = ANY(o.domain_ids)"
                " JOIN zones z ON z.id = ANY(o.zone_ids)"
            )
        ).one()
        disks = connection.execute(
            text("SELECT disk_gib, customized, details FROM disk_offerings ORDER BY name")
        ).all()
    assert small == (1024, ["ssd", "fast"], ["gpu"], [])
    assert custom == (20, 256, {"colour": "red"}, "Inactive", 3, "ROOT/customers", "small")
    assert disks == [(20, False, {"a": "b"}), (0, True, {})]


def test_what_is_offered_is_changed(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Descriptions, tags, places and states follow the file."""
    load(engine, cipher, tmp_path, CATALOG)
    changed = (
        CATALOG.replace("tags: [ssd, fast]", "tags: []")
        .replace("domainid: [customers]\n    zoneid: [small]", "domainid: []\n    zoneid: []")
        .replace("state: Inactive", "state: Active")
        .replace("displaytext: twenty", "displaytext: 20")
    )
    report = load(engine, cipher, tmp_path, changed)
    assert (report.created, report.changed) == ({}, {"serviceofferings": 2, "diskofferings": 1})
    assert load(engine, cipher, tmp_path, changed) == LoadReport()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("memory: 1 GiB", "memory: 1 potato", "3: serviceofferings[0].memory: "),
        ("cpuspeed: 500, memory", "memory", "3: serviceofferings[0]: a fixed size needs"),
        ("hosttags: gpu", "storagetags: gpu", "3: serviceofferings[0].storagetags: is no key here"),
        ("maxmemory: 16 GiB", "maxmemory: 16 MiB", "10: serviceofferings[1].maxmemory: it must not be below"),
        ("UserDispersingPlanner", "BestPlanner", "13: serviceofferings[1].deploymentplanner: it must be one of"),
        ("domainid: [customers]", "domainid: [nobody]", "15: serviceofferings[1].domainid: must be the name of"),
        ("customized: true, ", "", "22: diskofferings[1]: give disksize for a fixed size"),
    ],
)
def test_what_cannot_be_offered_is_refused(
    engine: Engine, cipher: FernetCipher, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    """Sizes, places and words that break a rule are told by line and key, and nothing is written."""
    assert CATALOG.count(old) == 1
    found = refusals(engine, cipher, tmp_path, CATALOG.replace(old, new))
    assert [one for one in found if one.startswith(f"zone.yaml:{problem}")], found


def test_an_offering_keeps_its_size(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Sizes are what VMs were made with."""
    load(engine, cipher, tmp_path, CATALOG)
    found = refusals(engine, cipher, tmp_path, CATALOG.replace("memory: 1 GiB", "memory: 2 GiB"))
    assert found == ("zone.yaml:3: serviceofferings[0].memory: is 1024 and cannot be changed",)


def test_an_offering_of_deleted_domains_is_not_written_out(
    engine: Engine, cipher: FernetCipher, tmp_path: Path
) -> None:
    """It is for nobody; a file that names no domains would offer it to everybody."""
    load(engine, cipher, tmp_path, CATALOG)
    with engine.begin() as connection:
        connection.execute(text("UPDATE domains SET removed = now() WHERE name = 'customers'"))
    written = export_zone(engine)
    assert ("Small" in written, "Of customers" in written, "Any" in written) == (True, False, False)


def test_images_are_loaded_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """They are registered in their zone; a second load, and one of what was written out, finds them there."""
    report = load(engine, cipher, tmp_path, IMAGES)
    assert report.created == {"domains": 1, "zones": 2, "templates": 2, "isos": 1}
    before = all_rows(engine)
    assert load(engine, cipher, tmp_path, IMAGES) == LoadReport()
    assert load(engine, cipher, tmp_path, export_zone(engine, "small")) == LoadReport()
    assert all_rows(engine) == before
    query = (
        "SELECT t.name, t.hypervisor, t.format, t.size_bytes >> 20, t.physical_size_bytes >> 20,"
        " z.ready, z.status, t.is_public, o.name FROM templates t JOIN template_zones z ON z.template_id = t.id"
        " LEFT JOIN os_types o ON o.id = t.os_type_id ORDER BY t.id"
    )
    with engine.connect() as connection:
        found = connection.execute(text(query)).all()
    assert found == [
        ("Debian 12", "KVM", "QCOW2", 3072, 3072, True, "Download Complete", True, "Debian GNU/Linux 12 (64-bit)"),
        ("Any", None, "RAW", 1024, 9, False, "Not downloaded", False, None),
        ("Installer", None, "ISO", 600, 600, True, "35% Downloaded", True, None),
    ]


def test_images_are_changed_and_put_into_zones(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """What is said otherwise holds from then on; a template of another zone is the same one in both."""
    load(engine, cipher, tmp_path, IMAGES)
    changed = IMAGES.replace("isready: false, accountids: []", "isready: true, accountids: [admin]").replace(
        "dns1: 10.0.0.3}\n",
        "dns1: 10.0.0.3}\ntemplates: [{name: debian 12, zoneid: other, hypervisor: KVM, format: QCOW2}]\n",
    )
    report = load(engine, cipher, tmp_path, changed)
    assert (report.created, report.changed) == ({"templates": 1}, {"templates": 1})
    assert load(engine, cipher, tmp_path, changed.replace("debian 12", "Debian 12")).created == {}
    query = (
        "SELECT t.name, array_agg(z.zone_id ORDER BY z.zone_id), bool_and(z.ready), (SELECT array_agg(account_id)"
        " FROM template_permissions WHERE template_id = t.id) FROM templates t JOIN template_zones z"
        " ON z.template_id = t.id WHERE t.kind = 'template' GROUP BY t.id ORDER BY t.id"
    )
    with engine.connect() as connection:
        found = connection.execute(text(query)).all()
        zones = list(connection.execute(text("SELECT id FROM zones ORDER BY id")).scalars())
    assert [row[1:] for row in found] == [(zones, True, None), (zones[:1], True, [2])]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "ostypeid: Debian GNU/Linux 12 (64-bit)",
            "ostypeid: Plan 9",
            "14: zones[0].templates[0].ostypeid: must be",
        ),
        ("https://images", "gopher://images", "13: zones[0].templates[0].url: it must begin with"),
        (
            "  - {name: other",
            "templates: [{name: x, hypervisor: KVM, format: RAW}]\n#",
            "24: templates[0]: must be given",
        ),
        ("size: 1 GiB", "size: 0 GiB", "21: zones[0].templates[1].size: it must be 1 or more"),
        ("format: RAW", "format: RAR", "21: zones[0].templates[1].format: it must be one of"),
        ("size: 600 MiB", "format: ISO", "23: zones[0].isos[0].format: is no key here"),
    ],
)
def test_what_is_no_image_is_refused(
    engine: Engine, cipher: FernetCipher, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    """Told by line and key, and nothing is written."""
    assert IMAGES.count(old) == 1
    found = refusals(engine, cipher, tmp_path, IMAGES.replace(old, new))
    assert [one for one in found if one.startswith(f"zone.yaml:{problem}")], found


NETWORK_OFFERINGS = """\
serviceofferings: [{name: Router, displaytext: router, cpunumber: 1, cpuspeed: 500, memory: 256}]
networkofferings:
  - name: Plain
    guestiptype: Shared
    traffictype: Guest
    specifyvlan: true
    supportedservices: [dhcp, UserData]
    serviceproviderlist: [{service: Dhcp, provider: VirtualRouter}, {service: UserData, provider: configdrive}]
    serviceofferingid: Router
    enable: true
  - {name: Nothing, displaytext: none, guestiptype: L2, traffictype: Guest, state: Enabled, sortkey: 2}
zones:
  - {name: small, networktype: Advanced, dns1: 10.0.0.2, internaldns1: 10.0.0.3}
"""


def test_network_offerings_are_loaded_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """They are made with their services; those of the installation are not written out; changes are taken over."""
    report = load(engine, cipher, tmp_path, NETWORK_OFFERINGS)
    assert report.created == {"serviceofferings": 1, "networkofferings": 2, "zones": 1}
    before = all_rows(engine)
    assert load(engine, cipher, tmp_path, NETWORK_OFFERINGS) == LoadReport()
    written = export_zone(engine)
    assert ("name: Plain" in written, "DefaultSharedNetworkOffering" in written) == (True, False)
    assert load(engine, cipher, tmp_path, written) == LoadReport()
    assert all_rows(engine) == before
    query = (
        "SELECT services, providers, specify_ip_ranges, state, sort_key FROM network_offerings WHERE NOT is_default"
    )
    with engine.connect() as connection:
        found = connection.execute(text(f"{query} ORDER BY name DESC")).all()
    providers = {"Dhcp": ["VirtualRouter"], "UserData": ["ConfigDrive"]}
    assert found == [(["Dhcp", "UserData"], providers, True, "Enabled", 0), ([], {}, False, "Enabled", 2)]
    changed = NETWORK_OFFERINGS.replace("displaytext: none", "displaytext: no services")
    assert load(engine, cipher, tmp_path, changed).changed == {"networkofferings": 1}
    found_wrong = refusals(engine, cipher, tmp_path, changed.replace("[dhcp, UserData]", "[dhcp]"))
    assert found_wrong == (
        "zone.yaml:7: networkofferings[0].supportedservices: is ['Dhcp', 'UserData'] and cannot be changed",
    )


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDAs3LyV9oXbyyHP2K9cJ6k/+/WbwtxbYbEIsrgoCwkc alice@acme.example"
OWNED = f"""\
sshkeypairs:
  - {{name: laptop, publickey: {KEY}}}
  - {{name: Laptop, publickey: {KEY}, account: Admin, domainid: ROOT}}
userdata:
  - {{name: init, userdata: I2Nsb3VkLWNvbmZpZw, params: "a,b"}}
zones:
  - {{name: small, networktype: Advanced, dns1: 10.0.0.2, internaldns1: 10.0.0.3}}
"""


def test_keys_and_user_data_are_loaded_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """They are kept for the account that is named, or else for the admin; another key replaces what there was."""
    report = load(engine, cipher, tmp_path, OWNED)
    assert report.created == {"sshkeypairs": 2, "userdata": 1, "zones": 1}
    before = all_rows(engine)
    assert load(engine, cipher, tmp_path, OWNED) == LoadReport()
    assert load(engine, cipher, tmp_path, export_zone(engine)) == LoadReport()
    assert all_rows(engine) == before
    changed = OWNED.replace("a,b", "c").replace("alice@acme", "bob@acme", 1)
    assert load(engine, cipher, tmp_path, changed).changed == {"sshkeypairs": 1, "userdata": 1}
    with engine.connect() as connection:
        keys = connection.execute(text("SELECT name, public_key FROM ssh_key_pairs ORDER BY id")).all()
        data = connection.execute(text("SELECT content, params FROM user_data")).one()
    assert keys == [("laptop", KEY.replace("alice", "bob")), ("Laptop", KEY)]
    assert data == ("I2Nsb3VkLWNvbmZpZw==", "c")
    found = refusals(engine, cipher, tmp_path, OWNED.replace("ssh-ed25519 AAAA", "ssh-rsa AAAA", 1))
    assert found[0].startswith("zone.yaml:2: sshkeypairs[0].publickey: it must be one line such as")
    found = refusals(engine, cipher, tmp_path, OWNED.replace("I2Nsb3VkLWNvbmZpZw", "not/base-64"))
    assert found == ("zone.yaml:5: userdata[0].userdata: User data is not base64 encoded, not '(not shown)'",)


ACCOUNTS = f"""\
domains:
  - name: customers
    accounts:
      - account: acme
        roleid: User
        sshkeypairs: [{{name: laptop, publickey: {KEY}}}]
        userdata: [{{name: init, userdata: I2Nsb3VkLWNvbmZpZw==}}]
        templates: [{{name: web, zoneid: small, hypervisor: KVM, format: QCOW2, accountids: [customers/globex]}}]
      - {{account: globex, roleid: User}}
zones:
  - {{name: small, networktype: Advanced, dns1: 10.0.0.2, internaldns1: 10.0.0.3}}
"""


def test_accounts_have_what_stands_in_them(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Keys, user data and templates are of the account that they stand in, and are written out there again."""
    report = load(engine, cipher, tmp_path, ACCOUNTS)
    assert {"sshkeypairs": 1, "userdata": 1, "templates": 1}.items() <= report.created.items()
    before = all_rows(engine)
    assert load(engine, cipher, tmp_path, ACCOUNTS) == LoadReport()
    assert load(engine, cipher, tmp_path, export_zone(engine)) == LoadReport()
    assert all_rows(engine) == before
    query = (
        "SELECT a.name, k.name, u.name, t.name, (SELECT b.name FROM accounts b JOIN template_permissions p"
        " ON p.account_id = b.id) FROM accounts a JOIN ssh_key_pairs k ON k.account_id = a.id"
        " JOIN user_data u ON u.account_id = a.id JOIN templates t ON t.account_id = a.id"
    )
    with engine.connect() as connection:
        assert connection.execute(text(query)).all() == [("acme", "laptop", "init", "web", "globex")]


def test_an_export_names_of_an_offerings_zones_its_own(
    engine: Engine, cipher: FernetCipher, tmp_path: Path, postgres_url: str, bare_database: str
) -> None:
    """It loads where the other zone is not, and takes the offering from no zone where it is."""
    zone = "  - {{name: {0}, networktype: Advanced, dns1: 10.0.0.2, internaldns1: 10.0.0.3}}\n"
    offerings = "diskofferings: [{name: both, displaytext: both, disksize: 1 GiB, zoneid: [east, west]}]\n"
    load(engine, cipher, tmp_path, f"{offerings}zones:\n{zone.format('east')}{zone.format('west')}")
    before = all_rows(engine)
    east = export_zone(engine, "east")
    assert load(engine, cipher, tmp_path, east) == LoadReport()
    assert all_rows(engine) == before
    with database_clone(postgres_url, bare_database) as url:
        elsewhere = create_engine(url, pool_size=1)
        try:
            assert load(elsewhere, cipher, tmp_path, east).created == {"zones": 1, "diskofferings": 1}
        finally:
            elsewhere.dispose()
