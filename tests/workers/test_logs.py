"""What programs write: one JSON object a line where that is asked for, from their start to their end."""

import json
from pathlib import Path

from bulkdeploy.embedded.valkey import free_port
from bulkdeploy.manage.programs import SWEEPER, WORKER
from bulkdeploy.wiring.settings import Settings
from tests.support.fleet import Fleet
from tests.support.programs import BULKDEPLOY, program
from tests.support.programs import wait_for as wait_for_answer
from tests.support.progress import wait_for
from tests.workers.processes import all_done


def test_every_line_is_an_object(fleet: Fleet, quick: Settings, tmp_path: Path) -> None:
    """Also those of the programs' end, and those of the server processes that an API program supervises."""
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
        fleet.deploy(3)
        wait_for(lambda: all_done(fleet))
    for name, log in logs.items():
        for line in log.read_text().splitlines():
            assert isinstance(json.loads(line), dict), f"{name}: {line!r}"
    last = [json.loads(logs[name].read_text().splitlines()[-1]) for name in ("worker", "sweeper")]
    assert [line["event"] for line in last] == ["worker_ends", "sweeper_ends"]
