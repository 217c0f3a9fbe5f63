"""Leases of VMs: a VM is stopped or destroyed once when its lease expires, whichever sweeper dies."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from bulkdeploy.processes import failpoints
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.wiring.scheduled_work import due_vm_leases
from tests.commands.virtual_machines.test_devices import Owned, owned
from tests.commands.virtual_machines.test_vm_schedules import event_texts, states
from tests.support.api.api_client import ApiClient
from tests.support.api.callers import refused
from tests.support.processes.deaths import Died, dies_at

__all__ = ["owned"]

FIELDS = ("leaseduration", "leaseexpiryaction")


@pytest.fixture(autouse=True)
def leases(owned: Owned) -> Iterator[None]:
    """Enable leases, and disarm failpoints after the test."""
    owned.fleet.set_value("instance.lease.enabled", "true")
    yield
    failpoints.arm(None)


def lease_of(client: ApiClient, vm: str) -> tuple[Any, ...]:
    """Return the duration and the action of a VM's lease as lists show them."""
    (row,) = client.call("listVirtualMachines", id=vm)["virtualmachine"]
    assert ("leaseexpirydate" in row) == ("leaseduration" in row)
    return tuple(row.get(field) for field in FIELDS)


def deploy(owned: Owned, **parameters: object) -> str:
    """Deploy a stopped VM, and return its id."""
    zone = owned.fleet.zone
    sent = {
        "zoneid": zone.id_of("zones", "small"),
        "serviceofferingid": zone.id_of("service_offerings", "Small"),
        "templateid": zone.id_of("templates", "Debian 12"),
        "startvm": "false",
        **parameters,
    }
    return str(owned.client.call("deployVirtualMachine", **sent)["id"])


def lease(owned: Owned, action: str, *, expired: bool = True) -> None:
    """Give all VMs a lease, which has expired."""
    when = "now() - interval '1 second'" if expired else "now() + interval '2 days'"
    owned.fleet.zone.change(
        f"UPDATE virtual_machines SET lease_expires = {when}, lease_due = {when}, lease_action = '{action}'"
    )


def sweep(owned: Owned) -> None:
    """Do what a sweeper process does."""
    due_vm_leases(owned.fleet.system).handle()


def test_a_lease_is_given_by_the_call_or_the_offering(owned: Owned, client: ApiClient) -> None:
    """The call's lease wins, -1 means none, and while leases are disabled the parameters are ignored."""
    leased = client.call(
        "createServiceOffering", name="leased", cpunumber=1, cpuspeed=500, memory=128, leaseduration=7,
        leaseexpiryaction="destroy",
    )["serviceoffering"]  # fmt: skip
    assert [leased[field] for field in FIELDS] == [7, "DESTROY"]
    offering = {"serviceofferingid": leased["id"]}
    assert lease_of(owned.client, deploy(owned, **offering)) == (7, "DESTROY")
    assert lease_of(owned.client, deploy(owned, leaseduration=3, leaseexpiryaction="STOP")) == (3, "STOP")
    assert lease_of(owned.client, deploy(owned, **offering, leaseduration=-1)) == (None, None)
    account = {"account": "acme", "domainid": owned.fleet.zone.id_of("domains", "acme")}
    bulk = client.call(
        "bulkDeployVirtualMachine", zoneid=owned.fleet.zone.id_of("zones", "small"), virtualmachinecount=2,
        templateid=owned.fleet.zone.id_of("templates", "Debian 12"), **offering, **account,
    )  # fmt: skip
    owned.run()
    assert len(bulk["asyncjobs"]) == 2
    listed = owned.client.call("listVirtualMachines", leased="true")["virtualmachine"]
    assert sorted((row["leaseduration"], row["leaseexpiryaction"]) for row in listed) == [
        (3, "STOP"), (7, "DESTROY"), (7, "DESTROY"), (7, "DESTROY"),
    ]  # fmt: skip
    owned.fleet.set_value("instance.lease.enabled", "false")
    assert lease_of(owned.client, deploy(owned, **offering)) == (None, None)
    unleased = client.call(
        "createServiceOffering", name="not leased", cpunumber=1, cpuspeed=500, memory=128, leaseduration=7,
        leaseexpiryaction="stop",
    )["serviceoffering"]  # fmt: skip
    assert "leaseduration" not in unleased


def test_values_of_leases_are_checked(owned: Owned, client: ApiClient) -> None:
    """Each rejected value is named, and nothing is made."""
    size = {"name": "x", "cpunumber": 1, "cpuspeed": 500, "memory": 128}
    for sent in (
        {"leaseduration": 0, "leaseexpiryaction": "STOP"},
        {"leaseduration": -2, "leaseexpiryaction": "STOP"},
        {"leaseduration": 36_501, "leaseexpiryaction": "STOP"},
        {"leaseduration": 1},
        {"leaseexpiryaction": "STOP"},
        {"leaseduration": 1, "leaseexpiryaction": "EXPLODE"},
    ):
        failures = (
            refused(client, "createServiceOffering", **size, **sent),
            refused(owned.client, "updateVirtualMachine", id=owned.vm, **sent),
        )
        for failure in failures:
            assert (failure.errorcode, "lease" in failure.errortext) == (431, True), failure
    assert len(owned.fleet.vms()) == 2


def test_a_lease_is_extended_or_ended_before_it_expires(owned: Owned) -> None:
    """Only a VM with a lease that has not expired can get another one."""
    given = {"id": owned.vm, "leaseduration": 5, "leaseexpiryaction": "DESTROY"}
    assert "without a lease" in refused(owned.client, "updateVirtualMachine", **given).errortext
    lease(owned, "STOP", expired=False)
    changed = owned.client.call("updateVirtualMachine", **given)["virtualmachine"]
    assert [changed[field] for field in FIELDS] == [5, "DESTROY"]
    days = (datetime.fromisoformat(changed["leaseexpirydate"]) - datetime.now(UTC)).days
    assert days in (4, 5)
    owned.client.call("updateVirtualMachine", id=owned.vm, leaseduration=-1)
    assert lease_of(owned.client, owned.vm) == (None, None)
    lease(owned, "STOP")
    assert "has expired" in refused(owned.client, "updateVirtualMachine", **given).errortext
    sweep(owned)
    owned.run()
    assert states(owned) == ["Stopped", "Stopped"]


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_lease_can_always_be_ended(owned: Owned, enabled: str) -> None:
    """The duration -1 ends an expired lease, also while leases are disabled; other durations are ignored then."""
    lease(owned, "DESTROY")
    owned.fleet.set_value("instance.lease.enabled", enabled)
    if enabled == "false":
        owned.client.call("updateVirtualMachine", id=owned.vm, leaseduration=9, leaseexpiryaction="STOP")
        assert lease_of(owned.client, owned.vm)[1] == "DESTROY"
    for _ in range(2):
        owned.client.call("updateVirtualMachine", id=owned.vm, leaseduration=-1)
        assert lease_of(owned.client, owned.vm) == (None, None)
    owned.fleet.set_value("instance.lease.enabled", "true")
    sweep(owned)
    owned.run()
    assert states(owned) == ["Running", "Destroyed"]


def test_a_pass_stops_when_leases_are_disabled(owned: Owned) -> None:
    """A sweeper that has read two expired leases acts on none after an operator disables leases.

    The action of the other lease follows once leases are enabled again.
    """
    lease(owned, "STOP")

    def disable(at: str) -> None:
        if at == f"{Failpoint.SWEEP_LEASES}.after":
            owned.fleet.set_value("instance.lease.enabled", "false")

    failpoints.arm(disable)
    sweep(owned)
    failpoints.arm(None)
    owned.run()
    assert sorted(states(owned)) == ["Running", "Stopped"]
    owned.fleet.set_value("instance.lease.enabled", "true")
    sweep(owned)
    owned.run()
    assert states(owned) == ["Stopped", "Stopped"]


@pytest.mark.parametrize(("action", "state"), [("STOP", "Stopped"), ("DESTROY", "Destroyed")])
def test_any_number_of_sweepers_ends_a_lease_once(owned: Owned, action: str, state: str) -> None:
    """Sweepers that find a lease expired at the same moment make one job; its VM has no lease any more."""
    lease(owned, action, expired=False)
    sweep(owned)
    assert states(owned) == ["Running", "Running"]
    lease(owned, action)
    owned.fleet.set_value("instance.lease.enabled", "false")
    sweep(owned)
    owned.fleet.set_value("instance.lease.enabled", "true")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: sweep(owned), range(8)))
    owned.run()
    sweep(owned)
    assert states(owned) == [state, state]
    assert owned.fleet.zone.scalar("SELECT count(*) FROM virtual_machines WHERE lease_due IS NOT NULL") == 0
    texts = event_texts(owned, "VM.LEASE.EXPIRED")
    assert (len(texts), {text.endswith(f"expired: {action}") for text in texts}) == (2, {True})
    jobs = "SELECT count(*) FROM async_jobs WHERE kind = :kind"
    kind = {"STOP": "stop_virtual_machine", "DESTROY": "destroy_virtual_machine"}[action]
    assert owned.fleet.zone.scalar(jobs, kind=kind) == 2
    owned.fleet.assert_intact()


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_sweeper_dies(owned: Owned, place: str) -> None:
    """Before or after each commit: a VM is destroyed once; one that is protected stays, and is told of once."""
    points = (Failpoint.SWEEP_LEASES, Failpoint.SWEEP_LEASE_FAILED)
    owned.client.call("updateVirtualMachine", id=owned.vm, deleteprotection="true")
    lease(owned, "DESTROY")
    with dies_at(*(f"{point}.{place}" for point in points)) as died:
        for _ in range(3):
            with suppress(Died):
                sweep(owned)
    owned.run()
    assert len(died) == len(points)
    assert states(owned) == ["Running", "Destroyed"]
    ended = sorted("rejected" in text for text in event_texts(owned, "VM.LEASE.EXPIRED"))
    assert ended == [False, True]
    owned.client.call("updateVirtualMachine", id=owned.vm, deleteprotection="false")
    sweep(owned)
    assert states(owned) == ["Running", "Destroyed"]
    owned.fleet.zone.change("UPDATE virtual_machines SET lease_due = now() WHERE lease_due IS NOT NULL")
    sweep(owned)
    owned.run()
    assert states(owned) == ["Destroyed", "Destroyed"]
    owned.fleet.assert_intact()
