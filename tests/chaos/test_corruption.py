"""What ``make chaos`` breaks on purpose: every promise of the audit that heal mends, and no other."""

import pytest
from sqlalchemy import text

from bulkdeploy.provisioning.kinds.virtual_machines.destroy_virtual_machine import DESTROY
from bulkdeploy.services.auditing.heal import Healing, heal_connection
from bulkdeploy.store.auditing.audit import check_connection, read_invariants
from tests.chaos.corruption import CHOOSING, ROWS
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database

pytestmark = pytest.mark.long

__all__ = ["fleet", "fleet_simulator_url", "template_database"]


def test_every_promise_that_heal_mends_is_broken_and_mended(fleet: Fleet) -> None:
    """Each statement breaks its promise wherever rows for it are there; heal leaves nothing broken."""
    assert ROWS.keys() == {invariant.name for invariant in read_invariants() if invariant.heal is not None}
    fleet.deploy(5)
    fleet.run()
    gone, lost, *_ = fleet.vms()
    fleet.run(fleet.make_job(DESTROY, gone.id, expunge=True))
    fleet.zone.change(CHOOSING)
    wrong = []
    for promise, statements in ROWS.items():
        for statement in statements:
            with fleet.engine.connect() as connection:
                if promise == "nothing_is_stuck":
                    volume = "UPDATE volumes SET state = 'Destroy', removed = now() WHERE vm_id = :vm"
                    connection.execute(text(volume), {"vm": lost.id})
                connection.execute(text(statement), {"dice": "7"})
                broken = {finding.name for finding in check_connection(connection) if finding.breaches}
                heal_connection(connection, Healing())
                left = {finding.name for finding in check_connection(connection) if finding.breaches}
                connection.rollback()
            if promise not in broken or left:
                wrong.append((promise, statement, left))
    assert wrong == []
