"""Redis and the database going away under the hands of workers: time is lost, and nothing else."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import text
from sqlalchemy.engine import make_url

from bulkdeploy.embedded.postgres import PORT
from bulkdeploy.embedded.valkey import ValkeyServer, free_port
from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.store.locks import Lock
from bulkdeploy.wiring.drivers import simulator_url
from bulkdeploy.wiring.settings import Settings
from tests.chaos.proxy import Network, Proxy
from tests.support.api.api_client import ApiClient
from tests.support.processes.programs import program
from tests.support.runs.waiting import wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import Start, all_done, assert_all_run, kill, proxied, slow_boots, under_way

pytestmark = pytest.mark.long

WAITING = (
    "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'"
    " AND datname = current_database()"
)


def test_redis_may_lose_everything(fleet: Fleet, redis_database_url: str, start: Start) -> None:
    """Messages wiped out of Redis before and while workers run delay their jobs and lose none."""
    slow_boots(fleet, 100)
    redis = Redis.from_url(redis_database_url)
    fleet.deploy(50)
    redis.flushdb()
    start(*SWEEPER)
    start(*WORKER)
    wait_for(lambda: under_way(fleet) > 0)
    redis.flushdb()
    wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 50)


def test_redis_may_be_killed_and_come_back(
    fleet: Fleet, quick: Settings, own_redis: ValkeyServer, tmp_path: Path
) -> None:
    """A message broker killed under load and started again, empty: workers consume again; every VM runs once."""
    slow_boots(fleet, 100)
    settings = quick.model_copy(update={"redis_url": own_redis.url()})
    fleet.system = replace(fleet.system, job_queue=CeleryJobQueue(own_redis.url()))
    with program(settings, tmp_path / "log", *SWEEPER), program(settings, tmp_path / "log", *WORKER):
        fleet.deploy(40)
        for _ in range(2):
            wait_for(lambda: under_way(fleet) > 0 or all_done(fleet))
            kill(own_redis)
            time.sleep(1)
            own_redis.start()
        fleet.deploy(20)
        wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 60)


def test_redis_may_be_full_cut_off_and_failed_over(
    fleet: Fleet, quick: Settings, own_redis: ValkeyServer, tmp_path: Path
) -> None:
    """Calls are answered while Redis takes nothing; it takes again, is cut off, and an empty one is promoted."""
    slow_boots(fleet, 100)
    heir = ValkeyServer(tmp_path / "heir.log", password=own_redis.password)
    heir.start()
    network, port = Network(), free_port()
    line = Proxy(network, port, own_redis.port)
    url = own_redis.url().replace(f":{own_redis.port}/", f":{port}/")
    settings = quick.model_copy(update={"redis_url": url})
    fleet.system = replace(fleet.system, job_queue=CeleryJobQueue(url))
    limits = Redis.from_url(own_redis.url())
    with program(settings, tmp_path / "log", *SWEEPER), program(settings, tmp_path / "log", *WORKER):
        fleet.deploy(20)
        wait_for(lambda: under_way(fleet) > 0)
        limits.config_set("maxmemory", "1")
        fleet.deploy(20)
        assert fleet.zone.scalar("SELECT count(*) FROM outbox") >= 20
        limits.config_set("maxmemory", "0")
        line.close()
        fleet.deploy(20)
        assert fleet.zone.scalar("SELECT count(*) FROM outbox") >= 20
        line = Proxy(network, port, own_redis.port)
        wait_for(lambda: fleet.zone.scalar("SELECT count(*) FROM outbox") == 0)
        line.close()
        line = Proxy(network, port, heir.port)
        fleet.deploy(20)
        wait_for(lambda: all_done(fleet))
    line.close()
    network.close()
    heir.stop()
    assert "Traceback" not in (tmp_path / "log").read_text()
    assert_all_run(fleet, 80)


def test_a_call_whose_connection_to_the_database_breaks_changed_nothing(fleet: Fleet, client: ApiClient) -> None:
    """Cut in the middle of its transaction a call is answered 503; made again with its token it is done once."""
    zone = fleet.id_of("zones", "small")
    parameters = fleet.zone.bulk_parameters(5, requesttoken="once")
    with fleet.engine.connect() as rival, ThreadPoolExecutor(1) as calls:
        rival.execute(
            text("SELECT pg_advisory_lock(:space, :zone)"), {"space": Lock.ZONE_PLANS.value, "zone": zone}
        )
        call = calls.submit(client.post, "bulkDeployVirtualMachine", **parameters)
        wait_for(lambda: fleet.zone.scalar(f"SELECT count(*) {WAITING}") == 1)
        fleet.zone.change(f"SELECT pg_terminate_backend(pid) {WAITING}")
        answer = call.result()
    assert (answer.status, answer.body["errorcode"]) == (503, 503)
    assert "try again later" in answer.body["errortext"]
    assert (fleet.vms(), fleet.jobs()) == ([], [])
    fleet.assert_nothing_held()
    again = [client.call("bulkDeployVirtualMachine", **parameters)["asyncjobs"] for _ in range(2)]
    assert again[0] == again[1]
    assert len(fleet.jobs()) == 5
    fleet.run()
    assert_all_run(fleet, 5)


def test_the_database_may_go_away_for_a_while(fleet: Fleet, start: Start) -> None:
    """Connections cut under a worker's hands cost time and nothing else."""
    slow_boots(fleet, 100)
    start(*SWEEPER)
    start(*WORKER)
    fleet.deploy(60)
    for _ in range(3):
        wait_for(lambda: under_way(fleet) > 0 or all_done(fleet))
        fleet.zone.change(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'bulkdeploy worker' AND datname = current_database()"
        )
        time.sleep(0.3)
    wait_for(lambda: all_done(fleet))
    assert_all_run(fleet, 60)


def test_a_worker_starts_while_redis_is_full(
    fleet: Fleet, quick: Settings, own_redis: ValkeyServer, tmp_path: Path
) -> None:
    """A message broker without memory refuses what a worker says at its start; with memory the worker consumes."""
    settings = quick.model_copy(update={"redis_url": own_redis.url()})
    redis = Redis.from_url(own_redis.url())
    redis.config_set("maxmemory", 1)
    log = tmp_path / "log"
    with program(settings, log, *WORKER):
        wait_for(lambda: "consuming_failed" in log.read_text())
        redis.config_set("maxmemory", 0)
        fleet.system = replace(fleet.system, job_queue=CeleryJobQueue(own_redis.url()))
        fleet.deploy(10)
        wait_for(lambda: all_done(fleet))
    assert "Traceback" not in log.read_text()
    assert_all_run(fleet, 10)


def test_a_worker_waits_for_its_database(
    fleet: Fleet, quick: Settings, server_folder: Path, tmp_path: Path
) -> None:
    """Started before the database can be reached, it says so and begins when it can."""
    url = make_url(quick.require_database_url())
    settings = quick.model_copy(update={"database_url": proxied(url, server_folder)})
    settings = settings.model_copy(
        update={"driver": {"simulator": {"url": proxied(make_url(simulator_url(quick)), server_folder)}}}
    )
    log = tmp_path / "log"
    fleet.deploy(5)
    network = Network()
    with program(settings, log, *WORKER), program(quick, log, *SWEEPER):
        wait_for(lambda: "database_away" in log.read_text())
        socket = f".s.PGSQL.{PORT}"
        proxy = Proxy(network, server_folder / socket, Path(str(url.query["host"])) / socket)
        wait_for(lambda: all_done(fleet))
    proxy.close()
    network.close()
    assert "Traceback" not in log.read_text()
    assert_all_run(fleet, 5)
