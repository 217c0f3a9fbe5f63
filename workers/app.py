"""A worker process: ``python -m workers.app``, or ``bulkdeploy worker``.

Celery's solo pool consumes; the runner's threads work. Measured on two cores with drivers that take 50 ms: a
task in Celery's own thread pool costs 280 to 360 us of CPU, one handed to the runner 180 to 230 us, because
no thread waits for a lease or a result.

SIGTERM: consumes no more, hands back what waits for a thread, finishes what it has begun, ends. SIGKILL: its
leases run out and others take over.
"""

import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import structlog
from celery import Celery, signals
from celery.apps.worker import Worker, install_worker_term_handler  # type: ignore[attr-defined] # its stubs lack it
from celery.exceptions import SecurityWarning
from celery.worker import WorkController
from celery.worker.consumer import Consumer
from redis.exceptions import RedisError

from bulkdeploy.drivers.options import DriverSettingError
from bulkdeploy.meters import Program
from bulkdeploy.provisioning.job_runner import JobRunner, RunnerOptions
from bulkdeploy.queue.celery_app import make_celery
from bulkdeploy.queue.job_queue import ALL_QUEUES
from bulkdeploy.wiring.holding import hold, until_let_go
from bulkdeploy.wiring.logs import configure_logging
from bulkdeploy.wiring.monitoring import monitored
from bulkdeploy.wiring.settings import Settings, load_settings
from bulkdeploy.wiring.worker import build_worker_when_ready
from workers.tasks import handing_over_to

log = structlog.get_logger(__name__)

RETRY_S = 1.0


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@hold
def main(config: Path | None, held: bool) -> None:
    """Run jobs until SIGTERM."""
    until_let_go(held=held)
    settings = load_settings(config)
    configure_logging(settings)
    try:
        run(settings)
    except DriverSettingError as error:
        raise click.ClickException(str(error)) from error


def run(settings: Settings) -> None:
    """Consume and run jobs until a signal says to end; returns when all jobs in hand are finished."""
    worker = build_worker_when_ready(settings)
    options = RunnerOptions(
        threads=settings.worker_threads,
        lease_seconds=settings.lease_seconds,
        driver_timeout_s=settings.driver_timeout_seconds,
    )
    runner = JobRunner(worker.engine, worker.job_queue, worker.drivers, options, worker.decrypt)
    app = make_celery(settings.require_redis_url())
    try:
        log.info("worker_starts", threads=options.threads)
        with monitored(settings, Program.WORKER, live=runner.trouble, ready=worker.trouble):
            consume(app, handing_over_to(runner.accept), runner.drain)
    finally:
        runner.close()
        worker.close()
        log.info("worker_ends")


def consume(app: Celery, consumer: type[Consumer], drain: Callable[[], None]) -> None:
    """Celery's worker, in this thread, until a signal ends it; in the signal's handler ``drain`` is called."""

    def ending(**_: Any) -> None:
        drain()

    def keep_logging(**_: Any) -> None:
        """Celery asks who configures logging; connected, nobody else does."""

    signals.setup_logging.connect(keep_logging)
    signals.worker_shutting_down.connect(ending)
    logging.getLogger("celery.worker").addFilter(_without_traceback)
    # Celery fears for root where messages may be pickles; ours are JSON and carry a number.
    warnings.simplefilter("ignore", SecurityWarning)
    while True:
        worker = _QuietWorker(
            app=app,
            pool="solo",
            concurrency=1,
            consumer_cls=consumer,
            queues=list(ALL_QUEUES),
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
        )
        worker.start()
        if not worker.exitcode:
            return
        # Celery waits for a courier that is away, and ends quietly where its memory is full.
        log.warning("consuming_failed", next_try_s=RETRY_S)
        time.sleep(RETRY_S)


class _QuietWorker(Worker):
    """Celery's worker; told to end it writes no line of its own past the log."""

    def install_platform_tweaks(self, worker: WorkController) -> None:
        """Finish what is in hand on SIGTERM and SIGINT; every other signal does what it does to any process."""
        for number in ("SIGTERM", "SIGINT"):
            install_worker_term_handler(worker, sig=number, verbose=False)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Of a courier's refusal its words are enough."""
    if record.exc_info and isinstance(record.exc_info[1], RedisError):
        record.exc_info = None
    return True


if __name__ == "__main__":
    main()
