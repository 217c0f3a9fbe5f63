"""Several live sweepers reconcile one managed deployment."""

from pathlib import Path

import pytest

from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.store.database.bootstrap import admin_row
from bulkdeploy.wiring.cipher import FernetCipher
from bulkdeploy.wiring.settings import Settings
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import api_process
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import Start, all_done

OTHER = "Any hypervisor"


@pytest.mark.long
def test_many_sweepers_replace_each_vm_once(
    fleet: Fleet, quick: Settings, cipher: FernetCipher, start: Start, tmp_path: Path
) -> None:
    """Four sweepers and two workers replace eight VMs: eight new ones are made, and eight old ones destroyed."""
    with fleet.engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    fleet.zone.change(
        "UPDATE templates t SET hypervisor = d.hypervisor FROM templates d"
        f" WHERE d.name = 'Debian 12' AND t.name = '{OTHER}'"
    )
    for program in (*[SWEEPER] * 4, *[WORKER] * 2):
        start(*program)
    with api_process(quick.model_copy(update={"api_processes": 1}), tmp_path / "api.log") as url:
        client = ApiClient(url, admin.api_key, cipher.decrypt(admin.secret_key_encrypted))
        call = fleet.zone.bulk_parameters(8, nameprefix="web", managed=True)
        web = str(client.call("bulkDeployVirtualMachine", **call)["asyncjobs"][0]["deploymentid"])
        running = "SELECT count(*) FROM virtual_machines WHERE state = 'Running'"
        wait_for(lambda: fleet.zone.scalar(running) == 8)
        template = fleet.zone.id_of("templates", OTHER)
        client.call("replaceBulkDeployment", id=web, templateid=template, maxsurge=3, maxunavailable=1)
        wait_for(lambda: fleet.zone.scalar("SELECT state FROM replacements") == "Completed")
        wait_for(lambda: all_done(fleet))
    assert fleet.zone.scalar("SELECT count(*) FROM virtual_machines") == 16
    assert fleet.zone.scalar(running) == 8
    fleet.assert_intact()
