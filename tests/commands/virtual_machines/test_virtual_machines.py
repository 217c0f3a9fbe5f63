"""listVirtualMachines: parts, states, jobs, user data; and the rows that jobs answer."""

from typing import Any

import pytest
from sqlalchemy import text

from bulkdeploy.commands.virtual_machines.responses import VIRTUAL_MACHINE
from bulkdeploy.declare.response_fields import HAS_ANNOTATIONS
from bulkdeploy.store.virtual_machines.virtual_machine_details import Detail
from bulkdeploy.store.virtual_machines.virtual_machines import virtual_machine_rows
from tests.support.zones.world import ADMIN, DOMAIN_ADMIN, USER, World

FIELDS_OF = {
    "group": {"group", "groupid"},
    "nics": {"nic", "ipaddress"},
    "secgrp": {"securitygroup"},
    "affgrp": {"affinitygroup"},
    "tmpl": {"templateid", "templatename", "templatedisplaytext", "ostypeid", "guestosid", "passwordenabled"},
    "servoff": {"serviceofferingid", "serviceofferingname", "cpunumber", "cpuspeed", "memory"},
    "volume": {"rootdeviceid", "rootdevicetype", "pooltype"},
}
"""What only one part of a row has."""

EVERY_PART = set().union(*FIELDS_OF.values())


def vm(world: World, name: str, **parameters: Any) -> dict[str, Any]:
    """One VM as the root admin sees it."""
    (row,) = world.rows("listVirtualMachines", name=name, listall="true", **parameters)
    return row


@pytest.mark.parametrize("detail", sorted(FIELDS_OF))
def test_details_name_the_parts_of_a_row(world: World, detail: str) -> None:
    """One word brings its fields and leaves out those of all others."""
    row = vm(world, "acme-1", details=detail)
    assert FIELDS_OF[detail] <= set(row)
    assert (EVERY_PART - FIELDS_OF[detail]) & set(row) == set()


def test_a_minimal_row_still_says_who_and_where(world: World) -> None:
    """``min`` keeps what clients cannot do without, and several words add up."""
    row = vm(world, "acme-1", details="MIN")
    assert EVERY_PART & set(row) == set()
    assert {"id", "name", "displayname", "state", "account", "domainid", "zoneid", "zonename", "created"} <= set(
        row
    )
    assert FIELDS_OF["nics"] | FIELDS_OF["servoff"] <= set(vm(world, "acme-1", details="nics,servoff"))


def test_everything_is_the_default(world: World) -> None:
    """Without ``details`` a row has all its parts, as with ``all``."""
    assert vm(world, "acme-1") == vm(world, "acme-1", details="all")
    assert set(vm(world, "acme-1")) >= EVERY_PART


def test_unknown_details_are_refused(world: World) -> None:
    """A word that is no part is a parameter error that names the words there are."""
    answer = world.client().get("listVirtualMachines", details="nics,everything")
    assert answer.status == 431
    assert all(word in answer.body["errortext"] for word in ("details", "'everything'", "nics", "affgrp"))


def test_a_row_says_what_was_deployed(world: World) -> None:
    """The fields of a VM are those of the call that made it."""
    row = vm(world, "acme-1")
    assert (row["account"], row["domainpath"], row["username"]) == ("acme", "ROOT/customers/acme", "admin")
    assert (row["cpunumber"], row["cpuspeed"], row["memory"]) == (1, 500, 512)
    assert (row["keypairs"], row["group"], row["hypervisor"]) == ("laptop", "web", "KVM")
    (nic,) = row["nic"]
    assert (nic["networkname"], nic["type"], nic["isdefault"], nic["deviceid"]) == ("guests", "Shared", True, "0")
    assert nic["ipaddress"] == row["ipaddress"]
    assert [group["name"] for group in row["affinitygroup"]] == ["apart"]
    assert row["hostid"] == world.id_of("hosts", str(row["hostname"]))


def test_user_data_is_listed_only_on_request(world: World) -> None:
    """User data may hold secrets: it is in a row only with ``userdata=true``."""
    assert "userdata" not in vm(world, "acme-1")
    shown = vm(world, "acme-1", userdata="true")
    assert (shown["userdata"], shown["userdatadetails"]) == ("aGVsbG8=", '{"role": "web"}')
    assert "userdata" not in vm(world, "rival-1", userdata="true")


def test_a_running_job_is_named(world: World) -> None:
    """A VM that a job works on carries the job; one whose job is finished does not."""
    assert "jobid" not in vm(world, "acme-1")
    row = vm(world, "acme-2")
    job = world.scalar(
        "SELECT j.uuid FROM async_jobs j JOIN virtual_machines v ON v.id = j.instance_id WHERE v.name = 'acme-2'"
    )
    assert (row["jobid"], row["jobstatus"]) == (str(job), 0)


def test_destroyed_vms_are_for_admins(world: World) -> None:
    """Admins see destroyed VMs, users do not; expunging ones only appear where asked for, gone ones never."""
    everybodys = {"acme-1", "acme-2", "acme-destroyed"}
    mine = {"account": "acme", "domainid": world.id_of("domains", "acme")}
    for caller in (ADMIN, DOMAIN_ADMIN):
        assert set(world.names("listVirtualMachines", caller, **mine)) == everybodys
    assert set(world.names("listVirtualMachines", USER)) == {"acme-1", "acme-2"}
    assert world.names("listVirtualMachines", ADMIN, state="expunging", **mine) == ["acme-expunging"]
    assert world.names("listVirtualMachines", USER, state="Expunging") == []
    gone = world.id_of("virtual_machines", "acme-gone")
    assert world.rows("listVirtualMachines", id=gone) == []


def test_present_is_every_state_but_destroyed(world: World) -> None:
    """``state=present`` leaves destroyed and expunging VMs out, and keeps failed and stopped ones."""
    names = world.names("listVirtualMachines", listall="true", state="present")
    assert set(names) == {"acme-1", "acme-2", "neighbour-1", "rival-1", "admin-1"}


def test_an_unknown_state_is_refused(world: World) -> None:
    """A state that no VM can be in is a parameter error."""
    assert world.client().get("listVirtualMachines", state="Sleeping").status == 431


def test_an_operator_may_show_users_their_destroyed_vms(fresh_world: World) -> None:
    """``allow.user.view.destroyed.vm`` lets users see them."""
    fresh_world.deploy("doomed", "acme", "acme")
    fresh_world.change("UPDATE virtual_machines SET state = 'Destroyed'")
    assert fresh_world.rows("listVirtualMachines", USER) == []
    fresh_world.client().call("updateConfiguration", name="allow.user.view.destroyed.vm", value="True")
    assert fresh_world.names("listVirtualMachines", USER) == ["doomed"]


CONSTANT = {field.name for field in VIRTUAL_MACHINE.fields if field.value is not None}
"""Fields with the same value in all answers, which no row has."""


def test_job_results_are_the_rows_of_the_list(world: World) -> None:
    """What a job answers of its VM is what the list answers, but for the job itself."""
    with world.engine.connect() as connection:
        ids = {row.name: row.id for row in connection.execute(text("SELECT name, id FROM virtual_machines"))}
        rows = virtual_machine_rows(connection, [ids["acme-1"], ids["acme-2"], -1])
        assert set(rows) == {ids["acme-1"], ids["acme-2"]}
        assert virtual_machine_rows(connection, []) == {}
        small = virtual_machine_rows(connection, [ids["acme-1"]], frozenset({Detail.MINIMUM}))
    for name in ("acme-1", "acme-2"):
        listed = {key for key in vm(world, name) if key not in ("jobid", "jobstatus")} - CONSTANT
        listed.add(HAS_ANNOTATIONS.public_column)  # the value of the field for callers other than root admins
        assert {key for key, value in rows[ids[name]].items() if value is not None} == listed
    assert "nic" not in small[ids["acme-1"]]


def test_a_root_admin_sees_only_its_own_without_listall(world: World) -> None:
    """As in CloudStack, and as Ansible expects."""
    assert world.names("listVirtualMachines") == ["admin-1"]
