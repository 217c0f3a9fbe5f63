"""``make test-front``: unmodified clients call a stack whose hypervisors are another stack as any other.

CloudMonkey 6 is a program in Go that neither PyPI nor Debian has: whoever has ``cmk`` in the path runs it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bulkdeploy.store.database.bootstrap import admin_row
from tests.acceptance.conftest import Cloud
from tests.acceptance.test_clients import (
    strict,
    test_cs_deploys_in_bulk_polls_lists_and_destroys,
    test_cs_deploys_one_and_waits_for_its_result,
    test_libcloud_deploys_lists_stops_and_destroys,
)
from tests.cloudstack.stacks import front_settings
from tests.cloudstack.test_two_stacks import between, front, upstream
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import BULKDEPLOY, api_process, program
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database

__all__ = [
    "between",
    "fleet",
    "fleet_simulator_url",
    "front",
    "strict",
    "template_database",
    "test_cs_deploys_in_bulk_polls_lists_and_destroys",
    "test_cs_deploys_one_and_waits_for_its_result",
    "test_libcloud_deploys_lists_stops_and_destroys",
    "upstream",
]

PLAYBOOK = Path(__file__).parent / "playbook.yaml"


@pytest.fixture
def cloud(front: Fleet, tmp_path: Path) -> Iterator[Cloud]:
    """The front's programs."""
    settings = front_settings(front)
    with front.engine.connect() as connection:
        admin = admin_row(connection)
    assert admin is not None
    secret = front.system.cipher.decrypt(admin.secret_key_encrypted)
    with (
        program(settings, tmp_path / "worker.log", *BULKDEPLOY, "worker"),
        program(settings, tmp_path / "sweeper.log", *BULKDEPLOY, "sweeper"),
        api_process(settings, tmp_path / "api.log") as url,
    ):
        client = ApiClient(url, admin.api_key, secret)
        made = Cloud(front, client, client)
        yield made
        made.empty()


def test_cmk_deploys_in_bulk_follows_the_jobs_and_expunges(cloud: Cloud, tmp_path: Path) -> None:
    """CloudMonkey: it learns the calls, deploys in bulk, asks for jobs, waits for others by itself, lists."""
    command = shutil.which("cmk")
    if command is None:
        pytest.skip("cmk is not installed: github.com/apache/cloudstack-cloudmonkey has it")

    def cmk(*arguments: str) -> dict[str, Any]:
        keys = ("-u", f"{cloud.client.url}/client/api", "-k", cloud.client.api_key, "-s", cloud.client.secret_key)
        ran = subprocess.run(
            [command, *keys, *arguments],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return json.loads(ran.stdout) if ran.stdout.startswith("{") else {"text": ran.stdout}

    assert cmk("sync")["text"].startswith("Discovered ")
    (zone,) = cmk("list", "zones", "filter=id,name")["zone"]
    (template,) = cmk("list", "templates", "templatefilter=executable", "name=Debian 12")["template"]
    (offering,) = cmk("list", "serviceofferings", "name=Small")["serviceoffering"]
    wanted = {"zoneid": zone, "templateid": template, "serviceofferingid": offering}
    given = [f"{name}={row['id']}" for name, row in wanted.items()]
    jobs = cmk("bulkdeploy", "virtualmachine", *given, "virtualmachinecount=3")["asyncjobs"]
    wait_for(lambda: all(cmk("query", "asyncjobresult", f"jobid={job['jobid']}")["jobstatus"] for job in jobs))
    one = cmk("deploy", "virtualmachine", *given, "name=web-1")["virtualmachine"]
    assert (one["name"], one["state"]) == ("web-1", "Running")
    vms = cmk("list", "virtualmachines", "filter=id,state")["virtualmachine"]
    assert [vm["state"] for vm in vms] == ["Running"] * 4
    for vm in vms:
        cmk("destroy", "virtualmachine", f"id={vm['id']}", "expunge=true")
    assert cmk("list", "virtualmachines") == {"text": ""}


def test_ansible_deploys_stops_starts_and_expunges(cloud: Cloud, tmp_path: Path) -> None:
    """A playbook with the modules of ngine_io.cloudstack; what is so already is not changed."""
    playbook = shutil.which("ansible-playbook")
    if playbook is None:
        pytest.skip("ansible-playbook is not installed: make test-front gets it")
    access = {"ENDPOINT": f"{cloud.client.url}/client/api", "KEY": cloud.client.api_key}
    access |= {"SECRET": cloud.client.secret_key, "TIMEOUT": "60"}
    environment = {f"CLOUDSTACK_{name}": value for name, value in access.items()}
    ran = subprocess.run(
        [playbook, str(PLAYBOOK)],
        env={**os.environ, **environment, "ANSIBLE_HOME": str(tmp_path), "ANSIBLE_LOCALHOST_WARNING": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
