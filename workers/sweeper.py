"""A sweeper process: ``python -m workers.sweeper`` or ``bulkdeploy sweeper``.

One sweeper is enough; several do no harm.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import FrameType

import click
import structlog

from bulkdeploy.drivers.options import DriverSettingError
from bulkdeploy.provisioning.running.sweeping import Sweeper
from bulkdeploy.provisioning.volume_removal import VolumeRemoval
from bulkdeploy.provisioning.watches.filter_updates import FilterUpdates
from bulkdeploy.provisioning.watches.guest_health import GuestHealthWatch
from bulkdeploy.provisioning.watches.host_watch import HostWatch
from bulkdeploy.provisioning.watches.unmanaged_guests import UnmanagedGuests
from bulkdeploy.provisioning.watches.usage_watch import UsageWatch
from bulkdeploy.queue.job_queue import QueueUnavailable
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import Plans
from bulkdeploy.telemetry import metrics
from bulkdeploy.wiring.holding import hold_option, wait_for_end_of_input
from bulkdeploy.wiring.logs import configure_logging
from bulkdeploy.wiring.monitoring import monitored
from bulkdeploy.wiring.settings import Settings, load_settings
from bulkdeploy.wiring.tracing import start_tracing
from bulkdeploy.wiring.worker import build_worker_when_ready

log = structlog.get_logger(__name__)

LOOK_FOR_LOST_EVERY_S = 5.0
LOOK_AT_HOSTS_EVERY_S = 5.0
UPDATE_FILTERS_EVERY_S = 2.0
TIDY_EVERY_S = 30.0
LOOK_FOR_UNMANAGED_EVERY_S = 600.0
MEASURE_USAGE_EVERY_S = 1.0
READ_POWER_EVERY_S = 1.0
CHECK_GUESTS_EVERY_S = 2.0
FOLLOW_HOST_HA_EVERY_S = 1.0
DELETE_SNAPSHOTS_EVERY_S = 10.0
BALANCE_EVERY_S = 60.0

LATE_S = 300.0
"""The seconds after which a round counts as stuck. Without the database, one pass can take 30 s."""


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@hold_option
def main(config: Path | None, held: bool) -> None:
    """Run the sweeper until SIGTERM."""
    wait_for_end_of_input(held=held)
    settings = load_settings(config)
    configure_logging(settings)
    start_tracing(settings, metrics.Program.SWEEPER)
    ended = Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        ended.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        run(settings, ended)
    except DriverSettingError as error:
        raise click.ClickException(str(error)) from error


def run(settings: Settings, ended: Event) -> None:
    """Run all due passes, round after round, until ``ended`` is set. Errors in a pass are logged."""
    worker = build_worker_when_ready(settings, plans=Plans.ANEW)
    sweeper = Sweeper(worker.engine, worker.job_queue)
    watch = HostWatch(worker.engine, worker.drivers, settings.driver_timeout_seconds)
    filters = FilterUpdates(worker.engine, worker.drivers, settings.driver_timeout_seconds)
    unmanaged = UnmanagedGuests(worker.engine, worker.drivers)
    usage = UsageWatch(worker.engine, worker.drivers, settings.driver_timeout_seconds)
    health = GuestHealthWatch(
        worker.engine, worker.drivers, settings.driver_timeout_seconds, settings.guest_networks
    )
    volumes = VolumeRemoval(worker.engine, worker.drivers, settings.driver_timeout_seconds)
    power = worker.power_watch()
    passes = [
        _Pass(sweeper.end_late, TIDY_EVERY_S),
        _Pass(sweeper.expunge_destroyed, TIDY_EVERY_S),
        _Pass(volumes.destroy_ownerless, TIDY_EVERY_S),
        _Pass(sweeper.expire, TIDY_EVERY_S),
        *(_Pass(rows.handle, rows.every_s, rows.name) for rows in worker.due_rows()),
        _Pass(worker.snapshot_retention().delete_surplus, DELETE_SNAPSHOTS_EVERY_S),
        _Pass(worker.cluster_drs().balance_clusters, BALANCE_EVERY_S),
        _Pass(sweeper.end_removals, 0.0),
        _Pass(sweeper.requeue_dropped, 0.0),
        _Pass(sweeper.requeue_throttled, 0.0),
        _Pass(sweeper.requeue_lost, LOOK_FOR_LOST_EVERY_S),
        _Pass(sweeper.send_unsent, 0.0),
        _Pass(volumes.remove_volumes, 0.0),
        _Pass(watch.watch_hosts, LOOK_AT_HOSTS_EVERY_S),
        _Pass(watch.look_after_ends, 0.0),
        _Pass(filters.update_filters, UPDATE_FILTERS_EVERY_S),
        _PassBeside(worker.host_ha().follow_hosts, FOLLOW_HOST_HA_EVERY_S),
        _PassBeside(power.read_power_states, READ_POWER_EVERY_S),
        _PassBeside(usage.measure_usage, MEASURE_USAGE_EVERY_S),
        _PassBeside(health.check_guests, CHECK_GUESTS_EVERY_S),
        _PassBeside(unmanaged.note_unmanaged, LOOK_FOR_UNMANAGED_EVERY_S),
    ]
    rounds = _Rounds(settings.sweep_interval_seconds)
    log.info("sweeper_starts", every_s=settings.sweep_interval_seconds)
    try:
        with monitored(settings, metrics.Program.SWEEPER, live=rounds.trouble, ready=worker.trouble):
            while not ended.is_set():
                for sweep in passes:
                    sweep.run_when_due()
                rounds.count()
                ended.wait(settings.sweep_interval_seconds)
    finally:
        worker.close()
        log.info("sweeper_ends")


class _Rounds:
    """The time at which the sweeper last finished a round of its passes."""

    def __init__(self, every_s: float) -> None:
        self._late_s = LATE_S + every_s
        self._last = time.monotonic()

    def count(self) -> None:
        """Record that a round has ended."""
        metrics.SWEEPER_ROUNDS.inc()
        self._last = time.monotonic()

    def trouble(self) -> str | None:
        """Return why this process must be restarted, or None if its rounds end in time."""
        idle_s = time.monotonic() - self._last
        return f"no round ended for {idle_s:.0f} s" if idle_s > self._late_s else None


class _Pass:
    """One regular piece of work of the sweeper, and the time at which it is due.

    Args:
        work: the function that does the work.
        every_s: the least number of seconds between two runs.
        name: the name in logs and metrics; empty: the name of ``work``.
    """

    def __init__(self, work: Callable[[], None], every_s: float, name: str = "") -> None:
        self._work, self._every_s, self._due = work, every_s, 0.0
        self._name = name or work.__name__

    def run_when_due(self) -> None:
        """Run the work if it is due."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._every_s
            self.run()

    def run(self) -> None:
        """Run the work now. Errors are logged and counted; no exception is raised."""
        name = self._name
        try:
            self._work()
        except QueueUnavailable as error:
            log.warning("queue_unavailable", sweep=name, why=str(error))
        except Exception as error:
            if is_unreachable(error):
                log.warning("database_away", sweep=name, why=str(error).splitlines()[0])
            else:
                log.exception("sweep_failed", sweep=name)
        else:
            return
        metrics.SWEEPS_FAILED.labels(name).inc()


class _PassBeside(_Pass):
    """A pass that runs in its own thread, because it waits for hypervisors, which may be slow."""

    _thread: Thread | None = None

    def run(self) -> None:
        """Run the work in a thread, unless the last run has not ended."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=super().run, name=self._name, daemon=True)
            self._thread.start()


if __name__ == "__main__":
    main()
