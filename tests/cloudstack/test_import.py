"""Importing another cloud: what it has is here under its ids, and what changes there changes here.

The other cloud is bulkdeploy itself, behind a real server, with things of every kind and owner.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from bulkdeploy.api.app import create_app
from bulkdeploy.cloudstack.client import Access
from bulkdeploy.domain.errors import InvalidParameter
from bulkdeploy.manage.upstream.importing import ImportReport, import_cloudstack
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.services.system import System
from bulkdeploy.store.ledger.addresses import format_mac, take_mac_addresses
from tests.cloudstack.described_client import DescribedClient
from tests.inventory.support import all_rows
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.api.api_server import serving
from tests.support.hypervisors.drivers import SIMULATED
from tests.support.zones.vms import deployed_vm
from tests.support.zones.world import World, open_world

pytestmark = pytest.mark.long

SAME: dict[str, tuple[str, ...]] = {
    "listDomains": ("id", "name", "path", "parentdomainid"),
    "listAccounts": ("id", "name", "domainid", "roleid", "state"),
    "listUsers": ("id", "username", "accountid", "email", "state"),
    "listProjects": ("id", "name", "domainid"),
    "listZones": ("id", "name", "networktype", "allocationstate", "dns1", "localstorageenabled"),
    "listPods": ("id", "name", "zoneid", "gateway", "allocationstate"),
    "listClusters": ("id", "name", "podid", "hypervisortype", "allocationstate", "cpuovercommitratio"),
    "listHosts": (
        *("id", "name", "clusterid", "cpunumber", "cpuspeed", "memorytotal", "state", "resourcestate"),
        *("hosttags", "ipaddress"),
    ),
    "listServiceOfferings": ("id", "name", "cpunumber", "cpuspeed", "memory", "hosttags", "storagetags"),
    "listDiskOfferings": ("id", "name", "disksize", "iscustomized", "tags"),
    "listVirtualMachines": (
        *("id", "name", "displayname", "account", "domainid", "projectid", "zoneid", "hostid", "state"),
        *("serviceofferingid", "templateid", "cpunumber", "memory"),
    ),
    "listVolumes": ("id", "name", "type", "size", "virtualmachineid", "storageid", "deviceid", "state"),
}
"""What must be the same on both sides, by list call."""


SETTLED = (None, *("Active", "enabled", "disabled", "locked"), *("Up", "Down", "Disconnected"), "Running", "Ready")
"""States that are no way to another one; what is on such a way is taken as it will be."""


@pytest.fixture
def upstream(request: pytest.FixtureRequest, populated_database: str) -> Iterator[World]:
    """The other cloud, for this test to change."""
    with open_world(request, populated_database) as made:
        made.change("UPDATE networks SET vlan = '300' WHERE guest_type = 'Isolated' AND vlan IS NULL")
        yield made


def imported(system: System, upstream: World, *zones: str, dry_run: bool = False) -> ImportReport:
    """What an import did."""
    keys = upstream.client()
    client = DescribedClient(
        Access(f"{upstream.url}/client/api", keys.api_key, keys.secret_key, calls_per_second=1000)
    )
    try:
        return import_cloudstack(system, client, zones, dry_run=dry_run)
    finally:
        client.close()


def said(client: ApiClient, command: str) -> dict[str, dict[str, Any]]:
    """What a list says of each thing that both sides must agree on."""
    found: dict[str, dict[str, Any]] = {}
    for more in ({}, {"projectid": "-1"}) if command in ("listVirtualMachines", "listVolumes") else ({},):
        owned = {} if command in ("listPods", "listClusters", "listHosts", "listZones") else {"listall": "true"}
        body = client.call(command, **owned, **more)
        rows: list[dict[str, Any]] = next((value for name, value in body.items() if name != "count"), [])
        found |= {row["id"]: {name: row.get(name) for name in SAME[command]} for row in rows}
    return found


def audit_breaches(system: System) -> list[str]:
    """What the audit finds in the database; there are no hypervisors behind it."""
    findings = audit(system.engine, [])
    return [breach for one in findings if one.name not in ("guests", "pools") for breach in one.breaches]


def test_both_sides_say_the_same(system: System, upstream: World, client: ApiClient) -> None:
    """Everything is here under its own id, with capacity booked as used there, and the audit finds nothing."""
    report = imported(system, upstream)
    left_out = {line.split("(")[1][:36] for line in report.left_out if "(" in line}
    for command in SAME:
        theirs = {
            one: row
            for one, row in said(upstream.client(), command).items()
            if not {one, row.get("virtualmachineid")} & left_out and row.get("state") in SETTLED
        }
        ours = {one: row for one, row in said(client, command).items() if one in theirs}
        differing = {one: (ours.get(one), row) for one, row in theirs.items() if ours.get(one) != row}
        assert differing == {}, command
    assert report.created["virtualmachines"] == len(said(client, "listVirtualMachines"))
    assert audit_breaches(system) == []


def test_importing_twice_changes_nothing(system: System, upstream: World) -> None:
    """Not a row of the database. A dry run says beforehand what an import would do, and keeps nothing."""
    bare = all_rows(system.engine)
    shown = imported(system, upstream, dry_run=True)
    assert all_rows(system.engine) == bare
    assert imported(system, upstream).created == shown.created
    before = all_rows(system.engine)
    again = imported(system, upstream)
    assert (again.created, again.changed, again.removed) == ({}, {}, {})
    assert all_rows(system.engine) == before


def test_what_changed_there_changes_here(system: System, upstream: World, client: ApiClient) -> None:
    """A host goes into maintenance, a VM is made, one is stopped, one is gone; but one has a job of ours."""
    busy = deployed_vm(upstream, "busy")
    moved = deployed_vm(upstream, "moved")
    gone = deployed_vm(upstream, "gone")
    imported(system, upstream)
    client.call("stopVirtualMachine", id=busy)
    new = deployed_vm(upstream, "new")
    upstream.change("UPDATE hosts SET resource_state = 'Maintenance' WHERE name = 'a-2-1'")
    upstream.change("UPDATE hosts SET memory_mib = memory_mib * 2 WHERE name = 'b-1-1'")
    upstream.change(
        "UPDATE host_capacity SET memory_mib_limit = memory_mib_limit * 2 WHERE host_id ="
        " (SELECT id FROM hosts WHERE name = 'b-1-1')"
    )
    upstream.change("UPDATE virtual_machines SET state = 'Stopped', host_id = NULL WHERE name = 'moved'")
    upstream.change(
        "UPDATE virtual_machines SET state = 'Expunging', removed = now() WHERE name IN ('gone', 'busy')"
    )
    report = imported(system, upstream)
    vms = said(client, "listVirtualMachines")
    assert (vms[moved]["state"], vms[moved]["hostid"]) == ("Stopped", None)
    assert vms[new] == said(upstream.client(), "listVirtualMachines")[new]
    assert gone not in vms
    assert busy in vms
    assert report.created == {"virtualmachines": 1}
    assert report.removed == {"virtualmachines": 1}
    assert report.changed["virtualmachines"] == 1
    assert report.changed["hosts"] == 2
    theirs = said(upstream.client(), "listHosts")
    ours = said(client, "listHosts")
    for name in ("resourcestate", "memorytotal"):
        assert {one: row[name] for one, row in ours.items()} == {one: theirs[one][name] for one in ours}
    assert audit_breaches(system) == []


def test_only_the_zones_that_are_named(system: System, upstream: World, client: ApiClient) -> None:
    """With what is of no zone. Neither passwords nor keys are taken over."""
    query = "SELECT (SELECT count(*) FROM api_keys), (SELECT count(password_hash) FROM users)"
    with system.engine.connect() as connection:
        before = connection.execute(text(query)).one()
    imported(system, upstream, "small")
    with system.engine.connect() as connection:
        assert connection.execute(text(query)).one() == before
    assert {row["name"] for row in said(client, "listZones").values()} == {"small"}


def test_the_zones_that_were_named_before_stay(system: System, upstream: World, client: ApiClient) -> None:
    """Naming another zone adds it; a misspelt one is refused with the names that there are."""
    imported(system, upstream, "small")
    hosts, vms = said(client, "listHosts"), said(client, "listVirtualMachines")
    with pytest.raises(
        InvalidParameter,
        match=r"'smal' for parameter zone: must be the name or id of a zone of the CloudStack: .*small",
    ):
        imported(system, upstream, "smal")
    other = next(name for name in upstream.names("listZones") if name != "small")
    assert imported(system, upstream, other).removed == {}
    assert {row["name"] for row in said(client, "listZones").values()} == {"small", other}
    assert said(client, "listHosts").items() >= hosts.items()
    assert said(client, "listVirtualMachines").items() >= vms.items()
    assert hosts != {}
    assert vms != {}


def test_an_address_that_is_promised_here_is_of_the_vm_that_has_it_there(
    system: System, upstream: World, client: ApiClient
) -> None:
    """The import ends, the VM there has the address, and the VM here waits for another one."""
    there = deployed_vm(upstream, "there")
    imported(system, upstream)
    network = nics_of(client, there)[0]["networkid"]
    deployed = deploy_here(client, "promised", networkids=network)
    promised = nics_of(client, deployed)[0]
    late = deployed_vm(upstream, "late", ipaddress=promised["ipaddress"])
    imported(system, upstream)
    assert nics_of(client, late)[0]["ipaddress"] == promised["ipaddress"]
    (waiting,) = nics_of(client, deployed)
    assert waiting.get("ipaddress") is None
    before = all_rows(system.engine)
    imported(system, upstream)
    assert all_rows(system.engine) == before
    assert audit_breaches(system) == []


def test_limits_are_those_of_the_cloud_behind(system: System, upstream: World, client: ApiClient) -> None:
    """A limit that is unlimited there is not the default limit here, whoever has it; a number is that number."""
    client.call("updateConfiguration", name="max.account.user.vms", value=1)
    accounts = upstream.client().call("listAccounts", listall="true")["account"]
    account = next(row for row in accounts if row["name"] == "acme")
    named = {"account": "acme", "domainid": account["domainid"]}
    upstream.client().call("updateResourceLimit", resourcetype=0, max=-1, **named)
    upstream.client().call("updateResourceLimit", resourcetype=2, max=7, **named)
    imported(system, upstream)
    limits = {
        row["resourcetypename"]: row["max"] for row in client.call("listResourceLimits", **named)["resourcelimit"]
    }
    assert (limits["user_vm"], limits["volume"]) == (-1, 7)
    assert limits == {
        row["resourcetypename"]: row["max"]
        for row in upstream.client().call("listResourceLimits", **named)["resourcelimit"]
    }


def test_a_driver_that_is_missing_is_an_error_that_contains_the_setting(
    system: System, upstream: World, client: ApiClient
) -> None:
    """Before anything is imported; and at a deployment, where the settings lost the driver later."""
    bare = all_rows(system.engine)
    with pytest.raises(InvalidParameter, match=r'in \[drivers\] KVM = "cloudstack".*\[driver\.cloudstack\]'):
        imported(replace(system, drivers=SIMULATED), upstream)
    assert all_rows(system.engine) == bare
    there = deployed_vm(upstream, "there")
    imported(system, upstream)
    network = nics_of(client, there)[0]["networkid"]
    with serving(create_app(replace(system, drivers=SIMULATED))) as url:
        without = ApiClient(url, client.api_key, client.secret_key)
        with pytest.raises(ApiFailure, match=r'add KVM = \\?"cloudstack\\?" to \[drivers\]'):
            deploy_here(without, "hanging", networkids=network)


def deploy_here(client: ApiClient, name: str, **more: object) -> str:
    """Deploy a VM of acme by a call to the installation in front, whose jobs nobody runs; its id."""
    zone = next(row for row in client.call("listZones")["zone"] if row["name"] == "small")
    offering = next(
        row for row in client.call("listServiceOfferings")["serviceoffering"] if not row.get("iscustomized")
    )
    template = client.call("listTemplates", templatefilter="all")["template"][0]
    account = next(row for row in client.call("listAccounts", listall="true")["account"] if row["name"] == "acme")
    answer = client.call(
        "deployVirtualMachine",
        name=name,
        zoneid=zone["id"],
        serviceofferingid=offering["id"],
        templateid=template["id"],
        account="acme",
        domainid=account["domainid"],
        **more,
    )
    return str(answer["id"])


def nics_of(client: ApiClient, vm: str) -> list[dict[str, Any]]:
    """The nics of a VM."""
    (row,) = client.call("listVirtualMachines", id=vm)["virtualmachine"]
    nics: list[dict[str, Any]] = row["nic"]
    return nics


def test_mac_addresses_that_imported_nics_have_are_passed_over(system: System, upstream: World) -> None:
    """The next MAC addresses of this installation are in use in the other cloud, which makes them alike."""
    with system.engine.connect() as connection:
        first = connection.execute(text("SELECT last_value FROM mac_address_numbers")).scalar_one()
    upstream.change(
        "UPDATE nics SET mac_address = n.mac FROM (SELECT id, :prefix || lpad(to_hex("
        "CAST(:first AS bigint) + row_number() OVER (ORDER BY id)), 10, '0') AS digits FROM nics) d,"
        " LATERAL (SELECT regexp_replace(d.digits, '(..)(?!$)', '\\1:', 'g') AS mac) n WHERE d.id = nics.id",
        prefix="1e",
        first=first,
    )
    imported(system, upstream)
    with system.engine.begin() as connection:
        used = connection.execute(text("SELECT mac_address FROM nics WHERE removed IS NULL")).scalars().all()
        assert format_mac(first + 1) in used
        assert set(take_mac_addresses(connection, 3)).isdisjoint(used)
