"""``bulkdeploy unmanaged``: what a restore of an older backup leaves on hypervisors is adopted or removed."""

import json
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from bulkdeploy.domain.entities import Entity, EntityRef
from bulkdeploy.manage.hypervisors.unmanaged import DONE, FOUND, LEFT, NOTHING
from bulkdeploy.manage.main import main
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.provisioning.kinds.virtual_machines.stop_virtual_machine import STOP
from bulkdeploy.services.virtual_machines.unmanaged.adoption import Adoption, adopt
from bulkdeploy.services.virtual_machines.unmanaged.letting_go import unmanage_vm
from bulkdeploy.services.virtual_machines.unmanaged.unmanaged_instances import find_unmanaged
from bulkdeploy.store.database.engine import read_only
from tests.support.hypervisors.drivers import always
from tests.support.processes.backups import dump, restore
from tests.support.processes.deaths import Died, dies_at
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database

pytestmark = pytest.mark.long

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

ALL = ("--all", "--yes")


def run(fleet: Fleet, *arguments: str) -> Result:
    """The program with these arguments, on the fleet's database and hypervisors."""
    environment = {
        "BULKDEPLOY_DATABASE_URL": fleet.settings.require_database_url(),
        "BULKDEPLOY_DATA_DIR": str(fleet.settings.data_dir),
        "BULKDEPLOY_DRIVERS": json.dumps(fleet.settings.drivers),
        "BULKDEPLOY_DRIVER": json.dumps(fleet.settings.driver),
    }
    return CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)


def unmanaged(fleet: Fleet) -> Any:
    """What the program lists."""
    return json.loads(run(fleet, "unmanaged", "list", "--json").stdout)


@pytest.fixture
def restored(fleet: Fleet, tmp_path: Path) -> list[UUID]:
    """Two VMs, a backup, three VMs more; then the backup is restored: the ids of those that no row knows."""
    fleet.deploy(2)
    fleet.run()
    dump(fleet.engine, tmp_path / "backup")
    fleet.deploy(3)
    fleet.run()
    newer = [vm.uuid for vm in fleet.vms()][2:]
    restore(fleet.engine, tmp_path / "backup")
    assert run(fleet, "db", "restored").exit_code == 0
    return newer


def test_guests_that_are_newer_than_the_database_are_adopted(fleet: Fleet, restored: list[UUID]) -> None:
    """They become VMs as they were: id, host, sizes, volumes, addresses; jobs work on them; the audit is clean."""
    real = fleet.guests()
    listed = unmanaged(fleet)
    assert {guest["id"] for guest in listed["guests"]} == {str(uuid) for uuid in restored}
    addresses = {address for guest in listed["guests"] for address in guest["ipaddresses"]}
    assert len(addresses) == len(restored)
    assert run(fleet, "audit").exit_code == 1
    tried = run(fleet, "unmanaged", "adopt", "--all", "--dry-run")
    assert (tried.exit_code, len(unmanaged(fleet)["guests"])) == (FOUND, 3)
    assert run(fleet, "unmanaged", "adopt", "--all", "--batch", "2").exit_code == DONE
    fleet.assert_intact()
    assert run(fleet, "audit").exit_code == 0
    vms = {vm.uuid: vm for vm in fleet.vms()}
    for uuid in restored:
        assert vms[uuid].state == "Running"
        host = fleet.zone.scalar("SELECT uuid FROM hosts WHERE id = :id", id=vms[uuid].host_id)
        assert host == real[uuid].host_uuid
    held = fleet.zone.rows("SELECT host(ip_address) AS ip FROM nics WHERE removed IS NULL AND vm_id = ANY(:vms)",
                           vms=[vms[uuid].id for uuid in restored])  # fmt: skip
    assert {row.ip for row in held} == addresses
    assert run(fleet, "unmanaged", "list").exit_code == NOTHING
    assert run(fleet, "unmanaged", "adopt", "--all").exit_code == NOTHING
    fleet.deploy(3)
    fleet.run()
    fleet.run(*(fleet.make_job(STOP, vms[uuid].id) for uuid in restored[:1]))
    fleet.run(*(fleet.make_job(DESTROY, vm.id, expunge=True) for vm in fleet.vms()))
    fleet.assert_nothing_held()


def test_jobs_that_a_backup_caught_unfinished_are_run_again(fleet: Fleet, tmp_path: Path) -> None:
    """Hypervisors that have seen later jobs refuse nothing: VMs run, stop and go, and the audit is clean."""
    fleet.deploy(3)
    dump(fleet.engine, tmp_path / "backup")
    fleet.run()
    stopped, destroyed, _ = fleet.vms()
    fleet.run(fleet.make_job(STOP, stopped.id), fleet.make_job(DESTROY, destroyed.id, expunge=True))
    restore(fleet.engine, tmp_path / "backup")
    assert run(fleet, "db", "restored").exit_code == 0
    assert run(fleet, "unmanaged", "list").exit_code == NOTHING
    fleet.run()
    assert {vm.state for vm in fleet.vms()} == {"Running"}
    assert run(fleet, "audit").exit_code == 0
    fleet.run(*(fleet.make_job(DESTROY, vm.id, expunge=True) for vm in fleet.vms()))
    fleet.assert_nothing_held()


def test_guests_that_nobody_wants_are_removed(fleet: Fleet, restored: list[UUID]) -> None:
    """With their volumes, and volumes of guests that had been stopped, too; what rows know stays."""
    kept = set(fleet.guests()) - set(restored)
    fleet.driver.ensure_stopped(
        fleet.addresses()[fleet.guests()[restored[0]].host_uuid],
        restored[0],
        forced=True,
        fence=1 << 61,
        timeout_s=9,
    )
    listed = unmanaged(fleet)
    assert (len(listed["guests"]), len(listed["volumes"])) == (2, 1)
    assert run(fleet, "unmanaged", "remove", "--all", "--dry-run").exit_code == FOUND
    assert run(fleet, "unmanaged", "remove", str(restored[1]), "--yes").exit_code == DONE
    assert set(fleet.guests()) == kept | {restored[2]}
    assert run(fleet, "unmanaged", "remove", *ALL).exit_code == DONE
    assert set(fleet.guests()) == kept
    assert run(fleet, "audit").exit_code == 0
    assert run(fleet, "unmanaged", "remove", *ALL).exit_code == NOTHING


def test_what_does_not_fit_is_left_out(fleet: Fleet, restored: list[UUID]) -> None:
    """No room in the books, an address that another has, no offering: each is said, and none is taken."""
    first, second, third = restored
    host = fleet.guests()[first].host_uuid
    fleet.zone.change("UPDATE hosts SET resource_state = 'Maintenance' WHERE uuid = :host", host=host)
    found = {guest["id"]: guest for guest in unmanaged(fleet)["guests"]}
    address = found[str(second)]["ipaddresses"][0]
    fleet.zone.change(
        "UPDATE nics SET ip_address = CAST(:ip AS inet), ip_range_id = NULL"
        " WHERE id = (SELECT min(id) FROM nics WHERE removed IS NULL)",
        ip=address,
    )
    answer = run(fleet, "unmanaged", "adopt", "--all")
    assert answer.exit_code == LEFT
    assert "it must be Up and Enabled" in answer.stdout
    assert f"its address {address} in network" in answer.stdout
    assert {vm.uuid for vm in fleet.vms()} & set(restored) <= {third}
    fleet.zone.change("UPDATE hosts SET resource_state = 'Enabled'")
    fleet.zone.change(
        "UPDATE host_capacity SET vms_limit = vms_used WHERE host_id = (SELECT id FROM hosts WHERE uuid = :host)",
        host=host,
    )
    answer = run(fleet, "unmanaged", "adopt", str(first))
    assert (answer.exit_code, "0 VMs unclaimed" in answer.stdout) == (LEFT, True)
    fleet.zone.change("UPDATE service_offerings SET memory_mib = 1024 WHERE name = 'Small'")
    answer = run(fleet, "unmanaged", "adopt", str(first))
    assert "no service offering has its sizes (1 x 500 MHz, 512 MiB)" in answer.stdout


def test_limits_of_the_owner_hold(fleet: Fleet, restored: list[UUID]) -> None:
    """What would pass a limit of the account is refused as a whole, and nothing is changed."""
    fleet.zone.change(
        "INSERT INTO accounts (name, domain_id, account_type, role_id, state)"
        " SELECT 'tenant', domain_id, 0, role_id, 'enabled' FROM accounts WHERE name = 'admin'"
    )
    fleet.zone.change(
        "INSERT INTO resource_limits (owner_kind, owner_id, resource_type, max)"
        " SELECT 'account', id, 0, 2 FROM accounts WHERE name = 'tenant'"
    )
    refused = run(fleet, "unmanaged", "adopt", "--all", "--account", "tenant")
    assert (refused.exit_code, "user_vm" in refused.output) == (1, True)
    assert len(unmanaged(fleet)["guests"]) == len(restored)
    assert run(fleet, "unmanaged", "adopt", *map(str, restored[:2]), "--account", "tenant").exit_code == DONE
    owners = fleet.zone.rows(
        "SELECT a.name FROM virtual_machines v JOIN accounts a ON a.id = v.account_id WHERE v.uuid = ANY(:vms)",
        vms=restored,
    )
    assert [row.name for row in owners] == ["tenant", "tenant"]
    assert run(fleet, "unmanaged", "remove", *ALL).exit_code == DONE
    fleet.assert_intact()


NO_NICS = "UPDATE simulator.guests SET nics = NULL WHERE uuid = %s"
SAME_NIC = (
    "UPDATE simulator.guests g SET nics = jsonb_set(g.nics, '{0,uuid}', other.nics -> 0 -> 'uuid')"
    " FROM simulator.guests other WHERE g.uuid = %s AND other.uuid = %s"
)
SAME_VOLUMES = (
    "UPDATE simulator.guests g SET volume_uuids = other.volume_uuids"
    " FROM simulator.guests other WHERE g.uuid = %s AND other.uuid = %s"
)
TWICE = (
    "INSERT INTO simulator.stray_guests SELECT g.uuid, max(h.uuid::text)::uuid FROM simulator.hosts h"
    " JOIN simulator.guests g ON g.host_uuid <> h.uuid WHERE g.uuid = %s GROUP BY g.uuid"
)


def test_what_hypervisors_tell_must_be_whole_and_of_one_guest(fleet: Fleet, restored: list[UUID]) -> None:
    """No nics told, a nic or a volume of a guest beside it, two hosts: left out, in whatever batches."""
    first, second, third = restored
    fleet.control.execute(NO_NICS, [first])
    answer = run(fleet, "unmanaged", "adopt", str(first))
    assert (answer.exit_code, "does not report its volumes and NICs" in answer.stdout) == (LEFT, True)
    for same, what in ((SAME_NIC, "its nic "), (SAME_VOLUMES, "its volume ")):
        fleet.control.execute(same, [third, second])
        answer = run(fleet, "unmanaged", "adopt", str(second), str(third), "--dry-run")
        assert (answer.stdout.count("would adopt"), answer.stdout.count("left out")) == (1, 1)
        assert what in answer.stdout
    fleet.control.execute(TWICE, [second])
    answer = run(fleet, "unmanaged", "adopt", str(second), "--batch", "1")
    assert (answer.exit_code, "the guest runs on more than one host" in answer.stdout) == (LEFT, True)
    assert not {vm.uuid for vm in fleet.vms()} & set(restored)


def test_an_offering_may_be_deleted_meanwhile(fleet: Fleet, restored: list[UUID]) -> None:
    """Guests for which it was named are left out."""
    wanted = Adoption(offering_id=fleet.id_of("service_offerings", "Small"))
    guests = find_unmanaged(partial(read_only, fleet.engine), [fleet.driver]).guests
    fleet.zone.change("UPDATE service_offerings SET removed = now() WHERE name = 'Small'")
    adopted = fleet.change(adopt, fleet.caller, guests, wanted)
    assert not adopted.vm_ids
    assert {uuid: "was deleted" in why for uuid, why in adopted.left_out.items()} == dict.fromkeys(restored, True)


def test_a_hypervisor_that_cannot_be_asked_is_reported(fleet: Fleet) -> None:
    """In its own words, without a traceback, and nothing is done: it is unknown what it has."""
    fleet.control.execute("ALTER TABLE simulator.volumes RENAME COLUMN size_bytes TO away")
    try:
        answer = run(fleet, "unmanaged", "adopt", "--all")
    finally:
        fleet.control.execute("ALTER TABLE simulator.volumes RENAME COLUMN away TO size_bytes")
    assert (answer.exit_code, answer.output.startswith("Error: ")) == (1, True)


def test_a_guest_that_was_let_go_is_left_alone(fleet: Fleet) -> None:
    """It is listed as such; --all neither adopts nor removes it, its id does."""
    fleet.deploy(2)
    fleet.run()
    vm, other = fleet.vms()
    fleet.change(
        unmanage_vm, fleet.caller, always(fleet.driver), EntityRef(Entity.VIRTUAL_MACHINE, vm.id, vm.uuid, vm.name)
    )
    assert run(fleet, "audit").exit_code == 0
    assert [(guest["id"], guest["letgo"]) for guest in unmanaged(fleet)["guests"]] == [(str(vm.uuid), True)]
    assert "released by unmanageVirtualMachine" in run(fleet, "unmanaged", "list").stdout
    for action in ("adopt", "remove"):
        run(fleet, "unmanaged", action, "--all", *(["--yes"] if action == "remove" else []))
        assert set(fleet.guests()) == {vm.uuid, other.uuid}
        assert vm.uuid not in {one.uuid for one in fleet.vms()}
    assert run(fleet, "unmanaged", "remove", str(vm.uuid), "--yes").exit_code == DONE
    assert set(fleet.guests()) == {other.uuid}
    fleet.assert_intact()


def test_adopting_may_end_at_any_moment(fleet: Fleet, restored: list[UUID]) -> None:
    """Killed before or after a commit, nothing is lost, and running it again adopts the rest, none twice."""
    for place, left in (("before", 3), ("after", 2)):
        with dies_at(f"{Failpoint.ADOPT_COMMIT}.{place}"), pytest.raises(Died):
            run(fleet, "unmanaged", "adopt", "--all", "--batch", "1")
        assert len(unmanaged(fleet)["guests"]) == left
    assert run(fleet, "unmanaged", "adopt", "--all").exit_code == DONE
    fleet.assert_intact()
    assert len(fleet.vms()) == 2 + len(restored)


def test_removing_may_end_at_any_moment(fleet: Fleet, restored: list[UUID]) -> None:
    """Killed before or after a driver call, what is left is found again, and removed; it cannot be adopted."""
    with dies_at(f"{Failpoint.REMOVE_UNMANAGED}.before"), pytest.raises(Died):
        run(fleet, "unmanaged", "remove", str(restored[0]), "--yes")
    refused = run(fleet, "unmanaged", "adopt", str(restored[0]))
    assert (refused.exit_code, "the guest is being removed" in refused.stdout) == (LEFT, True)
    with dies_at(f"{Failpoint.REMOVE_UNMANAGED}.after"), pytest.raises(Died):
        run(fleet, "unmanaged", "remove", *ALL, "--batch", "1")
    assert run(fleet, "unmanaged", "remove", *ALL).exit_code == DONE
    assert not set(restored) & set(fleet.guests())
    fleet.assert_intact()
