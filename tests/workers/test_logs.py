"""What programs write: one JSON object a line where that is answered for, from their start to their end."""

import json
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from bulkdeploy.drivers.simulator.control import Step
from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.wiring.settings import Settings
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import BULKDEPLOY, program
from tests.support.processes.programs import wait_for as wait_for_answer
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import all_done


@pytest.mark.long
def test_every_line_is_an_object(fleet: Fleet, client: ApiClient, quick: Settings, tmp_path: Path) -> None:
    """Also those of the programs' end, and those of the server processes that an API program supervises.

    Those of a call, and of what a worker then does for it, name its request.
    """
    logs = {name: tmp_path / f"{name}.log" for name in ("api", "worker", "sweeper")}
    settings = {
        name: quick.model_copy(
            update={
                "log_format": "json",
                "listen": f"127.0.0.1:{free_port()}",
                "monitoring_listen": f"127.0.0.1:{free_port()}",
            }
        )
        for name in logs
    }
    with (
        program(settings["api"], logs["api"], *BULKDEPLOY, "api") as api,
        program(settings["worker"], logs["worker"], *WORKER) as worker,
        program(settings["sweeper"], logs["sweeper"], *SWEEPER) as sweeper,
    ):
        for name, process in {"api": api, "worker": worker, "sweeper": sweeper}.items():
            wait_for_answer(f"{settings[name].api_monitoring_url}/health/ready", process, logs[name])
        fleet.fault(Step.BOOT, remaining=1)
        sent = client.signed("bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(3))
        answered = ApiClient(f"http://{settings['api'].listen}", "", "").request(
            "GET", f"/client/api?{urlencode(sent, quote_via=quote)}", headers={"X-Request-Id": "from-the-proxy"}
        )
        assert answered.status == 200, answered.text
        assert {name.lower(): value for name, value in answered.headers.items()}["x-request-id"] == "from-the-proxy"
        wait_for(lambda: all_done(fleet))
    for name, log in logs.items():
        for line in log.read_text().splitlines():
            assert isinstance(json.loads(line), dict), f"{name}: {line!r}"
    for name, event in {"api": "deployed", "worker": "driver_call_failed"}.items():
        lines = [json.loads(line) for line in logs[name].read_text().splitlines()]
        assert [line["request"] for line in lines if line["event"] == event] == ["from-the-proxy"]
    last = [json.loads(logs[name].read_text().splitlines()[-1]) for name in ("worker", "sweeper")]
    assert [line["event"] for line in last] == ["worker_ends", "sweeper_ends"]
