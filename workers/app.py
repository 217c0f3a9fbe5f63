"""A worker process: ``python -m workers.app`` or ``bulkdeploy worker``.

Celery's own programs use ``app``.

A worker started by ``main`` receives messages in Celery's solo pool and runs the jobs in threads of ``JobRunner``.
``celery -A workers.app worker`` runs the same jobs in a pool of Celery, with settings from the environment; a job
then costs more CPU (ADR 9). After SIGTERM, a worker receives no more messages, gives back the jobs that it has not
begun, finishes the others, and ends. After SIGKILL, its leases expire and other workers run its jobs.
"""

import logging
import os
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import structlog
from celery import Celery, signals
from celery.apps.worker import Worker as CeleryWorker
from celery.apps.worker import install_worker_term_handler  # type: ignore[attr-defined] # not in its stubs
from celery.exceptions import SecurityWarning
from celery.worker import WorkController
from celery.worker.consumer import Consumer
from redis.exceptions import RedisError

from bulkdeploy.drivers.options import DriverSettingError
from bulkdeploy.provisioning.running.job_runner import JobRunner, RunnerOptions
from bulkdeploy.queue.celery_app import make_celery
from bulkdeploy.queue.job_queue import ALL_QUEUES
from bulkdeploy.telemetry.metrics import Program
from bulkdeploy.wiring.holding import hold_option, wait_for_end_of_input
from bulkdeploy.wiring.logs import configure_logging
from bulkdeploy.wiring.monitoring import monitored
from bulkdeploy.wiring.settings import Settings, load_settings
from bulkdeploy.wiring.tracing import start_tracing
from bulkdeploy.wiring.worker import Worker, build_worker_when_ready
from workers.tasks import RunsJobs, handing_over_to, register_tasks

log = structlog.get_logger(__name__)

RETRY_S = 1.0


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@hold_option
def main(config: Path | None, held: bool) -> None:
    """Run jobs until SIGTERM."""
    wait_for_end_of_input(held=held)
    settings = load_settings(config)
    configure_logging(settings)
    start_tracing(settings, Program.WORKER)
    try:
        run(settings)
    except DriverSettingError as error:
        raise click.ClickException(str(error)) from error


def run(settings: Settings) -> None:
    """Receive and run jobs until a signal. Returns when all begun jobs are finished."""
    worker = build_worker_when_ready(settings)
    runner = _make_runner(worker, threads=settings.worker_threads)
    own = make_celery(settings.require_redis_url)
    register_tasks(own, runner.run)
    try:
        log.info("worker_starts", threads=settings.worker_threads)
        with monitored(settings, Program.WORKER, live=runner.trouble, ready=worker.trouble):
            consume(own, handing_over_to(runner.accept), runner.drain)
    finally:
        runner.close()
        worker.close()
        log.info("worker_ends")


def _make_runner(worker: Worker, threads: int) -> JobRunner:
    settings = worker.settings
    options = RunnerOptions(threads, settings.lease_seconds, settings.driver_timeout_seconds)
    return JobRunner(worker.engine, worker.job_queue, worker.drivers, options, worker.decrypt, worker.power)


def _make_runner_of_a_pool() -> JobRunner:
    return _make_runner(build_worker_when_ready(load_settings()), threads=0)


def _settings_in_the_environment() -> Settings:
    """Read the settings from the environment, and configure logging and tracing.

    Celery's own programs call this function, because they have no settings file.
    """
    settings = load_settings()
    configure_logging(settings)
    start_tracing(settings, Program.WORKER)
    return settings


app = make_celery(lambda: _settings_in_the_environment().require_redis_url())
"""The application that ``celery -A workers.app`` uses."""

register_tasks(app, RunsJobs(_make_runner_of_a_pool).run)


@signals.setup_logging.connect
def _keep_logging(**_: Any) -> None:
    """Do nothing. Celery does not configure logging if this signal has a receiver."""


def consume(app: Celery, consumer: type[Consumer], drain: Callable[[], None]) -> None:
    """Run Celery's worker in this thread until a signal ends it.

    The signal's handler calls ``drain``.

    If Celery's worker fails, it is started again after RETRY_S.
    """

    def ending(**_: Any) -> None:
        drain()

    signals.worker_shutting_down.connect(ending)
    for name in ("celery.worker", "kombu.transport.redis"):
        logging.getLogger(name).addFilter(_without_traceback)
    # Celery warns root because messages may be pickles; these are JSON and contain a number.
    warnings.simplefilter("ignore", SecurityWarning)
    while True:
        worker = _QuietWorker(
            app=app,
            hostname=f"bulkdeploy-{os.getpid()}@{socket.gethostname()}",
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
        # Celery waits while the message broker cannot be reached, but ends if the broker's memory is full.
        log.warning("consuming_failed", next_try_s=RETRY_S)
        time.sleep(RETRY_S)


class _QuietWorker(CeleryWorker):
    """Celery's worker, without the text that Celery prints when a signal ends a worker."""

    def install_platform_tweaks(self, worker: WorkController) -> None:
        """Install handlers of SIGTERM and SIGINT that let begun work finish, and no other handlers."""
        for number in ("SIGTERM", "SIGINT"):
            install_worker_term_handler(worker, sig=number, verbose=False)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback of a Redis error from a log record. Returns True, so the record is logged."""
    if record.exc_info and isinstance(record.exc_info[1], RedisError):
        record.exc_info = None
    return True


if __name__ == "__main__":
    main()
