"""The audit sees what it promises to see: each thing it checks is broken by hand, and it names it."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.services.auditing.audit import audit
from bulkdeploy.services.auditing.heal import Healing, heal_connection
from bulkdeploy.store.auditing.audit import check_connection, read_invariants
from tests.support.zones.fleet import Fleet

pytestmark = pytest.mark.long

FIRST_VM = "(SELECT min(id) FROM virtual_machines)"
OTHER_HOST = (
    f"(SELECT min(id) FROM hosts WHERE id NOT IN (SELECT host_id FROM virtual_machines WHERE id = {FIRST_VM}))"
)
GROUP_OF_TWO = (
    "INSERT INTO vm_affinity_groups SELECT v.id, g.id FROM affinity_groups g, (SELECT id FROM virtual_machines"
    " WHERE state = 'Running' ORDER BY id LIMIT 2) v WHERE g.name = '{group}'"
)
SNAPSHOTS = (
    "INSERT INTO vm_snapshots (name, display_name, vm_id, account_id, snapshot_type, state, is_current)"
    " SELECT n, n, id, account_id, 'Disk', '{state}', true FROM virtual_machines, unnest(ARRAY[{names}]) n"
    " WHERE id = (SELECT min(id) FROM virtual_machines)"
)

COPY = (
    "INSERT INTO template_copies (template_uuid, pool_uuid, file_bytes, {columns})"
    " SELECT t.uuid, p.uuid, 8, {values} FROM templates t, storage_pools p LIMIT 1"
)
CLAIM_OF_COPY = (
    "INSERT INTO storage_claims SELECT c.uuid, p.id, 8 FROM template_copies c"
    " JOIN storage_pools p ON p.uuid = c.pool_uuid"
)
ALLOCATION_OF_COPY = (
    "UPDATE storage_pools p SET allocated_bytes = allocated_bytes + 8 FROM template_copies c"
    " WHERE p.uuid = c.pool_uuid"
)

BREAKS: Sequence[tuple[str, str, Sequence[str]]] = [
    ("host_usage", "counts", ["UPDATE host_capacity SET cpu_mhz_used = cpu_mhz_used + 1"]),
    (
        "host_usage",
        "counts",
        [f"DELETE FROM host_claims WHERE host_id = (SELECT host_id FROM virtual_machines WHERE id = {FIRST_VM})"],
    ),
    ("host_limits", "VMs", ["UPDATE host_capacity SET vms_limit = 0 WHERE vms_used > 0"]),
    ("claims_have_consumers", "no such VM", ["UPDATE host_claims SET consumer = gen_random_uuid()"]),
    (
        "claims_have_consumers",
        "VM is Error",
        [f"UPDATE virtual_machines SET state = 'Error' WHERE id = {FIRST_VM}"],
    ),
    (
        "claims_have_consumers",
        "VM is Stopped",
        [f"UPDATE virtual_machines SET state = 'Stopped' WHERE id = {FIRST_VM}"],
    ),
    ("account_clusters", "counted", ["UPDATE account_clusters SET vms = vms + 1"]),
    (
        "migrations_have_vms",
        "no such job",
        ["UPDATE host_claims SET consumer_kind = 1, consumer = gen_random_uuid()"],
    ),
    (
        "reservations_have_jobs",
        "there is no such job",
        ["UPDATE host_claims SET consumer_kind = 2, consumer = gen_random_uuid()"],
    ),
    *(
        (
            "nothing_is_stuck",
            f"is {state} since",
            [
                f"UPDATE virtual_machines SET state = '{state}' WHERE id = {FIRST_VM}",
                "UPDATE virtual_machines SET updated = now() - interval '2 h'",
                "UPDATE async_jobs SET completed = now() - interval '2 h'",
            ],
        )
        for state in ("Expunging", "Unknown")
    ),
    (
        "nothing_is_stuck",
        "is Destroy since",
        ["UPDATE volumes SET state = 'Destroy', removed = now(), removal_due = now() - interval '2 h'"],
    ),
    ("vm_snapshots", "is Creating and no job works on its VM", [SNAPSHOTS.format(names="'x'", state="Creating")]),
    (
        "vm_snapshots",
        "which its VM does not have",
        [
            SNAPSHOTS.format(names="'x'", state="Ready"),
            "UPDATE vm_snapshots SET volume_id = (SELECT max(id) FROM volumes WHERE vm_id <> vm_snapshots.vm_id)",
        ],
    ),
    ("vm_snapshots", "has 2 current snapshots", [SNAPSHOTS.format(names="'x', 'y'", state="Ready")]),
    (
        "vms_have_claims",
        "no claim",
        [f"DELETE FROM host_claims WHERE consumer = (SELECT uuid FROM virtual_machines WHERE id = {FIRST_VM})"],
    ),
    (
        "vms_have_claims",
        "claims",
        [f"UPDATE virtual_machines SET memory_mib = memory_mib + 1 WHERE id = {FIRST_VM}"],
    ),
    ("vms_have_claims", "on host", [f"UPDATE virtual_machines SET host_id = {OTHER_HOST} WHERE id = {FIRST_VM}"]),
    ("vms_fit_hosts", "cores of", ["UPDATE hosts SET cpu_mhz = 1"]),
    ("pool_usage", "counts", ["UPDATE storage_pools SET allocated_bytes = allocated_bytes + 1"]),
    ("volumes_have_claims", "claim says pool", ["UPDATE storage_claims SET size_bytes = size_bytes + 1"]),
    ("volumes_have_claims", "claim says pool ,", ["DELETE FROM storage_claims"]),
    (
        "volumes_have_claims",
        "claim says pool ,",
        [
            COPY.format(columns="ready", values="true"),
        ],
    ),
    (
        "copies_are_made",
        "attempt 1 at a copy is silent",
        [
            COPY.format(columns="renewed", values="now() - interval '2 hours'"),
            CLAIM_OF_COPY,
            ALLOCATION_OF_COPY,
        ],
    ),
    ("volumes_have_claims", "row says pool ,", ["UPDATE volumes SET removed = now()"]),
    (
        "what_is_over_holds_nothing",
        "still holds volume",
        [f"UPDATE virtual_machines SET removed = now() WHERE id = {FIRST_VM}"],
    ),
    (
        "what_is_over_holds_nothing",
        "still holds its counts",
        [f"UPDATE virtual_machines SET state = 'Error' WHERE id = {FIRST_VM}"],
    ),
    ("running_vms_have_their_volumes", "is Allocated", ["UPDATE volumes SET state = 'Allocated'"]),
    ("running_vms_have_their_volumes", "is Attaching", ["UPDATE volumes SET state = 'Attaching'"]),
    (
        "unique_addresses",
        "2 live nics",
        [
            "DROP INDEX uq_nics_live_address",
            f"UPDATE nics SET ip_address = (SELECT min(ip_address) FROM nics) WHERE vm_id <= {FIRST_VM} + 1",
        ],
    ),
    (
        "unique_addresses",
        "MAC address",
        ["DROP INDEX uq_nics_live_mac", "UPDATE nics SET mac_address = (SELECT min(mac_address) FROM nics)"],
    ),
    ("names_in_networks", "VMs are called", ["UPDATE virtual_machines SET name = 'twin'"]),
    (
        "names_in_networks",
        "holds the name",
        [f"UPDATE nics SET vm_name = 'another' WHERE vm_id = {FIRST_VM}"],
    ),
    ("address_books", "handed out", [f"UPDATE nics SET removed = now() WHERE vm_id = {FIRST_VM}"]),
    ("address_books", "handed out", ["UPDATE ip_ranges SET next_ip = next_ip + 3"]),
    (
        "addresses",
        "also listed as free",
        ["INSERT INTO released_addresses SELECT ip_range_id, ip_address FROM nics"],
    ),
    ("addresses", "its VM is gone", [f"UPDATE virtual_machines SET removed = now() WHERE id = {FIRST_VM}"]),
    ("addresses", "outside its range", ["UPDATE ip_ranges SET end_ip = start_ip"]),
    ("account_counts", "counted", ["UPDATE resource_counts SET amount = amount + 1 WHERE owner_kind = 'account'"]),
    ("account_counts", "counted", ["UPDATE volumes SET size_bytes = size_bytes + 1"]),
    ("domain_counts", "add up", ["UPDATE resource_counts SET amount = amount + 1 WHERE owner_kind = 'domain'"]),
    (
        "resource_limits",
        "limit 1",
        [
            "INSERT INTO resource_limits SELECT 'domain', id, 0, 1 FROM domains WHERE parent_id IS NULL",
            "UPDATE roles SET role_type = 'User'",
        ],
    ),
    (
        "affinity",
        "VMs on 2 hosts",
        [
            GROUP_OF_TWO.format(group="together"),
            f"UPDATE virtual_machines SET host_id = {OTHER_HOST} WHERE id = {FIRST_VM}",
        ],
    ),
    (
        "anti_affinity",
        "2 VMs on host",
        [GROUP_OF_TWO.format(group="apart"), f"UPDATE virtual_machines SET host_id = {OTHER_HOST}"],
    ),
    ("jobs", "status 1, phase done", ["UPDATE async_jobs SET result = NULL"]),
    ("jobs", "result", ["UPDATE async_jobs SET status = 0, phase = 'queued'"]),
    ("jobs", "phase queued", ["UPDATE async_jobs SET phase = 'queued'"]),
    ("jobs", "code 530", ["UPDATE async_jobs SET result_code = 530"]),
    ("jobs", "is Starting and no job", [f"UPDATE virtual_machines SET state = 'Starting' WHERE id = {FIRST_VM}"]),
    (
        "jobs_end_once",
        "2 Completed events",
        [
            """INSERT INTO events (event_type, state, description, account_id, parent_uuid)
               SELECT event_type, state, description, account_id, parent_uuid FROM events
               WHERE state = 'Completed'"""
        ],
    ),
    ("jobs_end_once", "is over and leased", ["UPDATE async_jobs SET lease_until = now()"]),
    ("deployments_are_whole", "answered 5 VMs, has 4", [f"DELETE FROM virtual_machines WHERE id = {FIRST_VM}"]),
    *(
        ("no_orphans", "VM ", [f"UPDATE virtual_machines SET {column} = -1"])
        for column in ("account_id", "zone_id", "service_offering_id", "template_id", "deployment_id", "cluster_id")
    ),
    ("no_orphans", "host", ["UPDATE virtual_machines SET host_id = -1"]),
    *(
        ("no_orphans", "volume ", [f"UPDATE volumes SET {column} = -1"])
        for column in ("account_id", "vm_id", "pool_id")
    ),
    *(("no_orphans", "nic ", [f"UPDATE nics SET {column} = -id"]) for column in ("vm_id", "ip_range_id")),
    ("no_orphans", "nic ", ["DROP INDEX uq_nics_live_address", "UPDATE nics SET network_id = -1"]),
    ("no_orphans", "host claim", ["UPDATE host_claims SET host_id = -1"]),
    ("no_orphans", "storage claim", ["UPDATE storage_claims SET pool_id = -1"]),
    *(
        ("no_orphans", "job ", [f"UPDATE async_jobs SET {column} = -1"])
        for column in ("account_id", "instance_id", "deployment_id")
    ),
    ("no_orphans", "outbox", ["INSERT INTO outbox VALUES (-1, 'jobs.interactive', 'x', now() - interval '1 h')"]),
    ("no_orphans", "affinity group", ["INSERT INTO vm_affinity_groups VALUES (-1, 1)"]),
]
"""The invariant that is broken, words that the audit says of it, and the statements that break it."""


def test_every_breach_is_named(fleet: Fleet) -> None:
    """Every break by hand is found under its name and told in its words; before it the system is intact."""
    fleet.deploy(5)
    fleet.run()
    fleet.assert_intact()
    missed = []
    for name, words, statements in BREAKS:
        with fleet.engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
            breaches = {finding.name: finding.breaches for finding in check_connection(connection)}
            connection.rollback()
        if not any(words in breach for breach in breaches[name]):
            missed.append((name, statements, breaches[name]))
    assert missed == []
    fleet.assert_intact()


def test_every_breach_is_healed_or_said_why_not(fleet: Fleet) -> None:
    """Every break is mended until the audit finds nothing, or what is left says what people can do about it."""
    fleet.deploy(5)
    fleet.run()
    invariants = {invariant.name: invariant for invariant in read_invariants()}
    healing = Healing(batch=3)
    wrong = []
    for name, _, statements in BREAKS:
        with fleet.engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
            healed = heal_connection(connection, healing)
            left = [finding for finding in check_connection(connection) if finding.breaches]
            connection.rollback()
        unsaid = [finding for finding in left if invariants[finding.name].by_hand is None]
        if unsaid or (invariants[name].by_hand is None and not healed):
            wrong.append((statements, unsaid))
    assert wrong == []
    fleet.assert_intact()


def test_every_invariant_is_broken_by_some_test() -> None:
    """No check of the audit goes untested."""
    assert {invariant.name for invariant in read_invariants()} == {name for name, _, _ in BREAKS}


def _breaches(fleet: Fleet) -> dict[str, tuple[str, ...]]:
    findings = audit(fleet.engine, [fleet.driver])
    return {finding.name: finding.breaches for finding in findings if finding.breaches}


def test_what_the_hypervisors_have_is_compared(fleet: Fleet) -> None:
    """A guest that nobody owns, one that is gone, one with other devices; volumes that nobody owns or has."""
    fleet.deploy(4)
    fleet.run()
    orphan, gone, short, _ = fleet.vms()
    lost, extra = _volume_of(fleet, short), uuid4()
    changed = "UPDATE simulator.guests SET volume_uuids = '{}', nic_uuids = nic_uuids || %s WHERE uuid = %s"
    fleet.control.execute(changed, [[extra], short.uuid])
    fleet.forget(orphan)
    fleet.control.execute("DELETE FROM simulator.guests WHERE uuid = %s", [gone.uuid])
    fleet.control.execute("DELETE FROM simulator.volumes WHERE uuid = %s", [_volume_of(fleet, gone)])
    found = _breaches(fleet)
    assert set(found) == {"guests", "pools", "devices"}
    assert found["devices"] == (
        f"the guest of VM {short.uuid} has nic {extra} beyond its rows, lacks volume {lost}",
    )
    assert any(f"guest {orphan.uuid} is on host" in breach for breach in found["guests"])
    assert any(f"VM {gone.uuid} is Running by its row and runs 0 times" in breach for breach in found["guests"])
    assert any("no row owns it" in breach for breach in found["pools"])
    assert any("really nowhere" in breach for breach in found["pools"])


def _volume_of(fleet: Fleet, vm: Any) -> Any:
    return fleet.zone.scalar("SELECT uuid FROM volumes WHERE vm_id = :vm", vm=vm.id)


def test_work_in_flight_is_no_breach(fleet: Fleet) -> None:
    """Jobs at any point, and a VM left behind for the sweeper to remove, are not reported."""
    fleet.deploy(2)
    fleet.assert_intact()
    fleet.fault(Step.BOOT, remaining=1)
    fleet.fault(Step.DELETE)
    fleet.run(fleet.jobs()[0].id)
    assert fleet.jobs()[0].phase == "waiting"
    fleet.assert_intact()
    fleet.zone.change(
        "UPDATE async_jobs SET retry_at = now(), progress = progress || '{\"overdue\": true}' WHERE attempts > 0"
    )
    fleet.run(fleet.jobs()[0].id)
    assert fleet.vms()[0].state == "Expunging"
    fleet.assert_intact()


def test_a_limit_set_below_what_is_used_is_no_breach(fleet: Fleet) -> None:
    """Lowering a limit takes nothing away: only what is added above it is a breach."""
    fleet.zone.change("UPDATE roles SET role_type = 'User'")
    fleet.deploy(5)
    fleet.zone.change(
        "INSERT INTO resource_limits SELECT 'domain', id, 0, 1, 5 FROM domains WHERE parent_id IS NULL"
    )
    fleet.assert_intact()


def test_an_unknown_state_is_no_breach_while_something_is_done(fleet: Fleet) -> None:
    """A VM that may or may not run keeps its claim; its guest is in nobody's way, and a stop finds out."""
    fleet.deploy(1)
    fleet.run()
    fleet.zone.change("UPDATE virtual_machines SET state = 'Unknown', updated = now() - interval '2 h'")
    fleet.assert_intact()
    fleet.zone.change("UPDATE async_jobs SET completed = now() - interval '2 h'")
    assert set(_breaches(fleet)) == {"nothing_is_stuck"}
    job = fleet.make_job(STOP, fleet.vms()[0].id)
    fleet.assert_intact()
    fleet.run(job)
    assert (fleet.vms()[0].state, fleet.guests()) == ("Stopped", {})
    fleet.assert_intact()
