"""Jobs are Celery tasks: any Celery worker runs them, and dies as harmlessly as ours."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from bulkdeploy.manage.programs.programs import SWEEPER, WORKER
from bulkdeploy.processes.failpoints import Failpoint
from bulkdeploy.provisioning.kinds.registry import job_kinds
from bulkdeploy.provisioning.kinds.virtual_machines.deploy_virtual_machine import DEPLOY
from bulkdeploy.queue.celery_app import make_celery
from bulkdeploy.queue.celery_queue import task_name
from bulkdeploy.queue.job_queue import INTERACTIVE, JobMessage
from bulkdeploy.wiring.settings import Settings
from tests.support.processes.programs import run_to_its_end
from tests.support.runs.waiting import PATIENCE_S, wait_for
from tests.support.zones.fleet import Fleet
from tests.workers.processes import (
    Start,
    all_done,
    assert_all_run,
    consumers,
    owners,
    slow_boots,
    under_way,
    unfinished,
)
from tests.workers.test_failpoints import places, quick, start_reborn, walk
from tests.workers.walk import Walk

pytestmark = pytest.mark.long

__all__ = ["quick", "walk"]

CELERY = ("-m", "celery", "-A", "workers.app")
STOCK_WORKER = (*CELERY, "worker")
THREADS, PREFORK = ("--pool=threads", "--concurrency=8"), ("--pool=prefork", "--concurrency=3")
"""Each process of a pool loads what a worker needs: three do."""
ON_THE_WAY = [
    Failpoint.MESSAGE_ACCEPT,
    Failpoint.LEASE_COMMIT,
    Failpoint.DRIVER_BOOT,
    Failpoint.COMPLETION_COMMIT,
    Failpoint.RELEASE_COMMIT,
]


def inspect(settings: Settings, *arguments: str) -> dict[str, list[str]]:
    """What ``celery inspect`` prints of each worker."""
    requested = run_to_its_end(settings, *CELERY, "inspect", "--json", "--timeout=10", *arguments)
    assert requested.returncode == 0, requested.stderr
    return dict(json.loads(requested.stdout))


@pytest.mark.long
@pytest.mark.parametrize("pool", [PREFORK, THREADS], ids=["prefork", "threads"])
def test_a_stock_worker_runs_the_jobs_of_a_call(walk: Walk, start: Start, pool: tuple[str, ...]) -> None:
    """``celery -A workers.app worker``, as Celery ships it, runs what HTTP calls deploy, and names its tasks."""
    start(*STOCK_WORKER, *pool)
    jobs = walk.bulk(str(uuid4()))
    wait_for(lambda: all(walk.client.call("queryAsyncJobResult", jobid=job)["jobstatus"] == 1 for job in jobs))
    assert {job.attempts for job in walk.fleet.jobs()} == {1}
    assert_all_run(walk.fleet, len(jobs))
    (registered,) = inspect(walk.fleet.settings, "registered").values()
    assert registered == sorted(task_name(kind) for kind in job_kinds())


def test_our_worker_names_the_same_tasks(fleet: Fleet, redis_database_url: str, start: Start) -> None:
    """``celery inspect registered`` shows the tasks of the workers that take no part in Celery's handling, too."""
    for _ in range(2):
        start(*WORKER)
    wait_for(lambda: consumers(redis_database_url) == 2)
    shown = inspect(fleet.settings, "registered")
    assert len(shown) == 2
    assert all(tasks == sorted(task_name(kind) for kind in job_kinds()) for tasks in shown.values())


def test_monitors_see_each_job_as_a_task(fleet: Fleet, redis_database_url: str, start: Start) -> None:
    """A stock worker tells, as monitors such as Flower read it, which task it began and ended, by kind and job."""
    start(*STOCK_WORKER, *THREADS, "--task-events")
    wait_for(lambda: consumers(redis_database_url) == 1)
    with watched(redis_database_url) as seen:
        fleet.deploy(2)
        wait_for(lambda: sum(kind == "task-succeeded" for kind, *_ in seen) == 2)
    for job in fleet.jobs():
        assert ("task-received", task_name(DEPLOY.name), f"job-{job.id}") in seen
        assert ("task-started", None, f"job-{job.id}") in seen


@contextmanager
def watched(redis_url: str) -> Iterator[list[tuple[str, str | None, str | None]]]:
    """Events of workers and tasks, as they come: type, task and id; begins when the first has come."""
    seen: list[tuple[str, str | None, str | None]] = []

    def note(event: dict[str, str]) -> None:
        seen.append((event["type"], event.get("name"), event.get("uuid")))

    app = make_celery(lambda: redis_url)
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": note})
        thread = threading.Thread(target=receiver.capture)
        thread.start()
        try:
            wait_for(lambda: bool(seen))
            yield seen
        finally:
            receiver.should_stop = True
            thread.join()
    app.close()


def test_a_killed_stock_worker_loses_nothing(fleet: Fleet, start: Start) -> None:
    """Killed with -9 in the middle of its jobs: another one takes over, and every VM runs once."""
    slow_boots(fleet, 300)
    start(*SWEEPER)
    first = start(*STOCK_WORKER, *THREADS)
    fleet.deploy(60)
    wait_for(lambda: under_way(fleet) == 8)
    first.kill()
    first.wait()
    assert unfinished(fleet) > 8
    start(*STOCK_WORKER, *THREADS)
    wait_for(lambda: all_done(fleet))
    assert max(job.attempts for job in fleet.jobs()) > 1
    assert_all_run(fleet, 60)


def test_killed_processes_of_a_pool_lose_nothing(fleet: Fleet, tmp_path: Path, start: Start) -> None:
    """A pool's processes are killed with -9: Celery makes others, and what the first had in hand is taken over."""
    slow_boots(fleet, 300)
    start(*SWEEPER)
    worker = start(*STOCK_WORKER, *PREFORK)
    fleet.deploy(20)
    wait_for(lambda: under_way(fleet) > 1)
    for process in psutil.Process(worker.pid).children():
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: all_done(fleet))
    assert max(job.attempts for job in fleet.jobs()) > 1
    assert_all_run(fleet, 20)
    forgive_tracebacks(tmp_path)


def forgive_tracebacks(tmp_path: Path) -> None:
    """Celery tells of a process that was killed with the place where it noticed."""
    log = tmp_path / "programs.log"
    text = log.read_text()
    assert text.count("Traceback") == 3 * text.count("WorkerLostError: ") > 0, text
    log.write_text("")


def test_a_stopped_stock_worker_gives_back_the_rest(fleet: Fleet, start: Start) -> None:
    """SIGTERM: what was begun is finished, the rest stays for others, and none is begun twice."""
    slow_boots(fleet, 300)
    first = start(*STOCK_WORKER, *THREADS)
    fleet.deploy(60)
    wait_for(lambda: under_way(fleet) == 8)
    first.terminate()
    assert first.wait(PATIENCE_S) == 0
    assert (under_way(fleet), unfinished(fleet) > 0) == (0, True)
    start(*WORKER)
    wait_for(lambda: all_done(fleet))
    assert {job.attempts for job in fleet.jobs()} == {1}
    assert_all_run(fleet, 60)


@pytest.mark.long
def test_stock_workers_die_at_every_point(walk: Walk, start: Start) -> None:
    """A stock worker that dies before or after any commit or driver call on a deployment's way loses nothing."""
    walk.fleet.set_value("job.lost.worker.max", 1000)
    start_reborn(start, "celery", "sweeper")
    for point, place in places(ON_THE_WAY):
        walk.arm(place)
        jobs = walk.bulk(str(uuid4()))
        if point is Failpoint.RELEASE_COMMIT:
            vm = walk.vm_ids(jobs)[0]
            wait_for(lambda: all_done(walk.fleet))
            walk.client.call("destroyVirtualMachine", id=vm, expunge=True)
        assert walk.worker_died(place), f"nobody passed {place}"
    walk.assert_once_and_for_all()


def test_stock_and_our_workers_share_and_duplicates_do_no_harm(
    fleet: Fleet, redis_database_url: str, start: Start
) -> None:
    """One sort alone, both side by side, the other alone, each message sent three times: every job runs once."""
    slow_boots(fleet, 100)
    stock = start(*STOCK_WORKER, *THREADS)
    deploy_with_duplicates(fleet)
    start(*WORKER)
    wait_for(lambda: consumers(redis_database_url) == 2)
    for _ in range(3):
        deploy_with_duplicates(fleet)
    stock.terminate()
    assert stock.wait(PATIENCE_S) == 0
    deploy_with_duplicates(fleet)
    assert len(owners(fleet)) == 2
    assert {job.attempts for job in fleet.jobs()} == {1}
    assert_all_run(fleet, 20)


def deploy_with_duplicates(fleet: Fleet) -> None:
    """Deploy four VMs; messages of all jobs there are come twice more, and one for no job; wait for the end."""
    fleet.deploy(4)
    messages = [JobMessage(job.id, DEPLOY.name, INTERACTIVE) for job in fleet.jobs()]
    fleet.system.job_queue.send([*messages, JobMessage(123456789, DEPLOY.name, INTERACTIVE), *messages])
    wait_for(lambda: all_done(fleet))
