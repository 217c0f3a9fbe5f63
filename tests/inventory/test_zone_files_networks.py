"""Zone files: physical networks, guest networks with their addresses, security groups and affinity groups."""

from pathlib import Path

from sqlalchemy import Engine

from bulkdeploy.manage.zone_files.exporting import export_zone
from bulkdeploy.manage.zone_files.loading import LoadReport
from bulkdeploy.wiring.cipher import FernetCipher
from tests.inventory.support import all_rows, rows
from tests.inventory.test_zone_files import load, refusals

NETWORKS = """\
zones:
  - {name: basic, networktype: Basic, dns1: 10.0.0.2, internaldns1: 10.0.0.3, pods: [{name: pod-1}], networks:
      [{name: flat, networkofferingid: DefaultSharedNetworkOfferingWithSGService, vlanipranges:
        [{podid: pod-1, startip: 10.6.1.10, endip: 10.6.1.20, gateway: 10.6.1.1, netmask: 255.255.255.0}]}]}
  - name: advanced
    networktype: Advanced
    dns1: 10.0.0.2
    internaldns1: 10.0.0.3
    physicalnetworks: [{name: guests, state: Enabled, vlan: 100-199, tags: [ssd]}]
    networks:
      - name: shared
        networkofferingid: DefaultSharedNetworkOffering
        physicalnetworkid: guests
        isdefault: true
        gateway: 10.1.0.1
        netmask: 255.255.0.0
        startip: 10.1.0.10
        endip: 10.1.0.99
        vlan: "100"
        vlanipranges: [{startip: 10.1.2.1, endip: 10.1.2.9}]
      - {name: own, networkofferingid: DefaultSharedNetworkOffering, account: admin, domainid: ROOT,
         acltype: Account, gateway: 10.2.0.1, netmask: 255.255.0.0, startip: 10.2.0.10, endip: 10.2.0.99,
         vlan: "101"}
securitygroups:
  - name: web
    account: admin
    domainid: ROOT
    description: Web servers
    ingressrules:
      - {protocol: tcp, startport: 80, endport: 443, cidrlist: [10.0.0.0/8, 192.168.0.0/16]}
    egressrules:
      - {protocol: all, usersecuritygrouplist: [{account: admin, group: web}]}
affinitygroups: [{name: apart, type: host anti-affinity, account: admin, domainid: ROOT}]
"""


def test_networks_are_loaded_once(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Addresses, VLANs, owners and rules as calls would have made them; the second load changes nothing."""
    report = load(engine, cipher, tmp_path, NETWORKS)
    assert report.created == {
        "zones": 2, "pods": 1, "physicalnetworks": 1, "networks": 3, "vlanipranges": 2, "securitygroups": 1,
        "ingressrules": 1, "egressrules": 1, "affinitygroups": 1,
    }  # fmt: skip
    found = rows(engine, "SELECT name, acl_type, is_default, vlan, cidr FROM networks ORDER BY name")
    assert found == [
        ("flat", "Domain", True, None, None),
        ("own", "Account", False, "101", "10.2.0.0/16"),
        ("shared", "Domain", True, "100", "10.1.0.0/16"),
    ]
    assert rows(engine, "SELECT host(start_ip) FROM ip_ranges WHERE pod_id IS NULL ORDER BY id") == [
        ("10.1.0.10",), ("10.2.0.10",), ("10.1.2.1",),
    ]  # fmt: skip
    assert rows(engine, "SELECT cidr FROM security_group_rules WHERE direction = 'ingress' ORDER BY id") == [
        ("10.0.0.0/8",), ("192.168.0.0/16",),
    ]  # fmt: skip
    before = all_rows(engine)
    assert load(engine, cipher, tmp_path, NETWORKS) == LoadReport()
    assert all_rows(engine) == before


def test_an_export_of_networks_loads_back(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Loading what was written out changes nothing."""
    load(engine, cipher, tmp_path, NETWORKS)
    for zone in ("basic", "advanced"):
        assert load(engine, cipher, tmp_path, export_zone(engine, zone)) == LoadReport()


def test_networks_keep_the_rules_of_calls(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """A VLAN of another network and ranges that overlap are told with their lines."""
    bad = NETWORKS.replace('vlan: "101"', 'vlan: "100"').replace("10.1.2.1, endip", "10.1.0.50, endip")
    assert [problem.split(" ")[0] for problem in refusals(engine, cipher, tmp_path, bad)] == [
        "zone.yaml:20:",
        "zone.yaml:23:",
    ]


def test_a_rule_is_added_to_those_there_are(engine: Engine, cipher: FernetCipher, tmp_path: Path) -> None:
    """Another network at the other end is one more rule."""
    load(engine, cipher, tmp_path, NETWORKS)
    report = load(engine, cipher, tmp_path, NETWORKS.replace("192.168.0.0/16", "192.168.0.0/16, 172.16.0.0/12"))
    assert report == LoadReport(changed={"ingressrules": 1})
    assert rows(engine, "SELECT count(*) FROM security_group_rules WHERE direction = 'ingress'") == [(3,)]
