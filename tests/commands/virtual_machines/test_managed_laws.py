"""Managed deployments are scaled, replaced, killed and disturbed at random, and reach what was last asked for."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.wiring.scheduled_work import due_managed_deployments
from tests.support.api.api_client import ApiClient, ApiFailure
from tests.support.processes.deaths import Died, dies_at
from tests.support.runs.properties import examples
from tests.support.zones.fleet import Fleet

REFUSALS = {431, 533, 535}
"""A replacement is under way or is not; the VM is in no state for the call; there is no room."""

TEMPLATES = ("Debian 12", "Any hypervisor")
MOST_VMS, SETTLING_ROUNDS = 6, 80
PLACES = [
    f"{point}.{when}"
    for point in (Failpoint.SWEEP_MANAGED, Failpoint.SWEEP_MANAGED_FAILED)
    for when in ("before", "after")
]


def _deploy(fleet: Fleet, client: ApiClient, count: int) -> str:
    """Deploy a managed deployment and return its id; both templates go with its hypervisor."""
    fleet.zone.change(
        "UPDATE templates t SET hypervisor = d.hypervisor FROM templates d"
        " WHERE d.name = 'Debian 12' AND t.name = 'Any hypervisor'"
    )
    call = fleet.zone.bulk_parameters(count, nameprefix="web", managed=True)
    return str(client.call("bulkDeployVirtualMachine", **call)["asyncjobs"][0]["deploymentid"])


class ManagedDeployment(RuleBasedStateMachine):
    """The model is the size and the template that were last asked for. Sweepers and workers die or run together."""

    fleet: ClassVar[Fleet]
    client: ClassVar[ApiClient]

    @initialize(count=st.integers(1, 4))
    def begin(self, count: int) -> None:
        """VMs run."""
        self.web = _deploy(self.fleet, self.client, count)
        self.fleet.run()
        self.count, self.template, self.before = count, TEMPLATES[0], TEMPLATES[0]

    @rule(count=st.integers(0, MOST_VMS))
    def scale(self, count: int) -> None:
        """Another size is asked for."""
        if self._call("updateBulkDeployment", id=self.web, virtualmachinecount=count):
            self.count = count

    @rule(
        template=st.sampled_from(TEMPLATES),
        surge=st.integers(0, 2),
        unavailable=st.integers(1, 2),
        pause=st.sampled_from(["", "50"]),
        method=st.sampled_from(["Recreate", "Restore"]),
    )
    def replace(self, template: str, surge: int, unavailable: int, pause: str, method: str) -> None:
        """A replacement is asked for."""
        more = {"pauseafter": pause} if pause else {}
        if self._call(
            "replaceBulkDeployment",
            id=self.web,
            templateid=self.fleet.zone.id_of("templates", template),
            maxsurge=surge,
            maxunavailable=unavailable,
            maxfailures=9,
            method=method,
            **more,
        ):
            self.before, self.template = self.template, template

    @rule()
    def roll_back(self) -> None:
        """The parameters before are asked for."""
        if self._call("replaceBulkDeployment", id=self.web, rollback=True):
            self.before, self.template = self.template, self.before

    @rule()
    def resume(self) -> None:
        """A replacement that waits is continued."""
        self._call("resumeBulkOperation", id=self.web)

    @rule(
        command=st.sampled_from(["stopVirtualMachine", "startVirtualMachine", "destroyVirtualMachine"]),
        turn=st.integers(0, 5),
    )
    def disturb(self, command: str, turn: int) -> None:
        """A user stops, starts or destroys a VM."""
        vms = [vm for vm in self.fleet.vms() if vm.removed is None]
        self._call(command, id=str(vms[turn % len(vms)].uuid))

    @rule()
    def work(self) -> None:
        """Workers run what there is."""
        self.fleet.run()

    @rule(place=st.none() | st.sampled_from(PLACES))
    def sweep(self, place: str | None) -> None:
        """Two sweepers look at the same time, or one dies."""
        self.fleet.zone.change("UPDATE managed_deployments SET next_check = now()")
        if place is None:
            with ThreadPoolExecutor(2) as both:
                list(both.map(lambda _: due_managed_deployments(self.fleet.system).handle(), range(2)))
            return
        with suppress(Died), dies_at(place):
            due_managed_deployments(self.fleet.system).handle()

    @invariant()
    def there_is_one_open_replacement_at_most(self) -> None:
        """And no VM beyond the limits that any replacement gives."""
        most = max(MOST_VMS, 4) + 2
        assert len(self._members()) <= most

    def teardown(self) -> None:
        """At rest, size and template are the requested ones, and no claim is left after all VMs are removed."""
        if not hasattr(self, "web"):
            return
        for _ in range(SETTLING_ROUNDS):
            self.fleet.run()
            self._call("resumeBulkOperation", id=self.web)
            self._call("bulkStartVirtualMachine", deploymentid=self.web, state="Stopped", partial=True)
            self.fleet.run()
            self.sweep(None)
            if self._is_settled():
                break
        assert self._is_settled(), (self.count, self.template, self._members(), self._rows())
        self.fleet.run()
        self.fleet.assert_intact()
        self._call("updateBulkDeployment", id=self.web, managed=False)
        for vm in self.fleet.vms():
            if vm.removed is None:
                self.fleet.make_job(DESTROY, vm.id, expunge=True)
        for _ in range(SETTLING_ROUNDS):
            self.fleet.run()
            if not self.fleet.zone.scalar("SELECT count(*) FROM async_jobs WHERE status = 0"):
                break
            self.fleet.zone.change("UPDATE async_jobs SET retry_at = now() WHERE status = 0")
        self.fleet.assert_nothing_held()

    def _is_settled(self) -> bool:
        is_open = self.fleet.zone.scalar(
            "SELECT count(*) FROM replacements r JOIN deployments d ON d.id = r.deployment_id"
            " WHERE r.completed IS NULL AND d.uuid = CAST(:web AS uuid)",
            web=self.web,
        )
        expected = [("Running", self.template)] * self.count
        return not is_open and [(vm.state, vm.template) for vm in self._members()] == expected

    def _rows(self) -> list[Any]:
        """Return what the product says of the deployment, for the text of a failure."""
        return self.fleet.zone.rows(
            "SELECT to_jsonb(m) AS managed, (SELECT jsonb_agg(to_jsonb(r) ORDER BY r.id) FROM replacements r"
            "   WHERE r.deployment_id = d.id) AS replacements FROM deployments d"
            " LEFT JOIN managed_deployments m ON m.deployment_id = d.id WHERE d.uuid = CAST(:web AS uuid)",
            web=self.web,
        )

    def _members(self) -> list[Any]:
        return self.fleet.zone.rows(
            "SELECT v.state, t.name AS template FROM virtual_machines v JOIN templates t ON t.id = v.template_id"
            " JOIN deployments d ON d.id = v.deployment_id"
            " WHERE CAST(:web AS uuid) IN (d.uuid, (SELECT g.uuid FROM deployments g WHERE g.id = d.grown_from))"
            " AND v.removed IS NULL AND v.state NOT IN ('Destroyed', 'Expunging') AND NOT EXISTS (SELECT FROM"
            "   async_jobs j WHERE j.instance_id = v.id AND j.status = 0 AND j.kind = 'destroy_virtual_machine')",
            web=self.web,
        )

    def _call(self, command: str, **parameters: object) -> bool:
        try:
            self.client.call(command, **parameters)
        except ApiFailure as error:
            if error.errorcode not in REFUSALS:
                raise
            return False
        return True


@pytest.mark.long
def test_managed_deployments_reach_what_was_asked_for(fleet: Fleet, client: ApiClient) -> None:
    """Whatever users, sweepers and workers do in between."""
    ManagedDeployment.fleet, ManagedDeployment.client = fleet, client
    run_state_machine_as_test(ManagedDeployment, settings=examples(30))
