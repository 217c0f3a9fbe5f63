"""Workers and sweepers under watch: their metrics, and an honest answer to whether they live and can work."""

import json
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

from bulkdeploy.embedded.valkey import ValkeyServer, free_port
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.programs import program
from tests.support.processes.programs import wait_for as wait_for_answer
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import all_done, kill


def get(url: str) -> tuple[int, str]:
    """Status and body of an answer."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 - our own http URL
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_workers_and_sweepers_show_what_they_do(
    fleet: Fleet, quick: Settings, own_redis: ValkeyServer, tmp_path: Path
) -> None:
    """Both are ready, count what they did, and are no longer ready, but alive, while Redis is away."""
    fleet.system = replace(fleet.system, job_queue=CeleryJobQueue(own_redis.url()))
    log = tmp_path / "log"
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    worker, sweeper = (
        quick.model_copy(update={"redis_url": own_redis.url(), "monitoring_listen": address})
        for address in addresses
    )
    with program(worker, log, *WORKER) as consuming, program(sweeper, log, *SWEEPER) as sweeping:
        for address, process in zip(addresses, (consuming, sweeping), strict=True):
            wait_for_answer(f"http://{address}/health/ready", process, log)
        fleet.deploy(3)
        wait_for(lambda: all_done(fleet))
        finished = 'bulkdeploy_jobs_finished_total{kind="deploy_virtual_machine",result="succeeded"} 3.0'
        wait_for(lambda: finished in get(f"http://{addresses[0]}/metrics")[1])
        shown = [get(f"http://{address}/metrics")[1] for address in addresses]
        assert 'bulkdeploy_step_seconds_count{hypervisor="KVM",step="boot"} 3.0' in shown[0]
        assert "bulkdeploy_sweeper_rounds_total" in shown[1]
        assert "bulkdeploy_sweeper_rounds_total" not in shown[0]
        for program_name, figures in zip(("worker", "sweeper"), shown, strict=True):
            assert f'bulkdeploy_build_info{{program="{program_name}"' in figures
            assert "bulkdeploy_call_seconds" not in figures
        kill(own_redis)
        for address in addresses:
            status, body = get(f"http://{address}/health/ready")
            assert (status, json.loads(body)) == (503, {"status": "Redis cannot be reached"})
            assert get(f"http://{address}/health/live") == (200, '{"status": "live"}')
            assert get(f"http://{address}/anything")[0] == 404
        own_redis.start()
    assert "Traceback" not in log.read_text()
