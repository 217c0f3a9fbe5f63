"""The counters and timers of every process, by their Prometheus names.

Each process has one registry, as Prometheus requires. docs/reference/monitoring.md explains each figure and when to
act on it. Figures of rows or of Redis are not counted here but read at each scrape: ``api.state_figures``.

API processes keep their figures in files that they share (``SHARED_DIRECTORY`` in the environment, set before
this module is imported), so that whichever of them is asked answers for all.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.metadata import version

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

PREFIX = "bulkdeploy_"
SHARED_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LONG_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

CALLS = Counter("bulkdeploy_calls", "API calls answered", ["command", "status"])
CALL_SECONDS = Histogram("bulkdeploy_call_seconds", "Time to answer an API call", buckets=SHORT_S)

REQUESTS_REFUSED = Counter(
    "bulkdeploy_requests_refused", "Connections that were ended before they sent a call", ["reason"]
)

PLAN_SECONDS = Histogram(
    "bulkdeploy_plan_seconds",
    "Time to read a zone and plan one call, or one VM that looks for another host",
    buckets=SHORT_S,
)
CLAIM_CONFLICTS = Counter(
    "bulkdeploy_claim_conflicts", "Transactions repeated because another one was faster", ["reason"]
)
SHARED_TRANSACTIONS = Histogram(
    "bulkdeploy_shared_transaction_calls", "Deploy calls committed together", buckets=(1, 2, 5, 10, 20, 50)
)
LOCK_TIMEOUTS = Counter(
    "bulkdeploy_lock_timeouts", "Transactions begun anew, everything given back, because a lock was not free"
)

JOBS_FINISHED = Counter("bulkdeploy_jobs_finished", "Jobs that reached their end", ["kind", "result"])
JOBS_PAUSED = Counter("bulkdeploy_jobs_paused", "Tries of jobs that are to be repeated later", ["kind"])
JOBS_REQUEUED = Counter("bulkdeploy_jobs_requeued", "Leased jobs that a stopping worker gave back to the queue")
JOBS_IN_HAND = Gauge("bulkdeploy_jobs_in_hand", "Leases that this worker holds", multiprocess_mode="livesum")
LEASES_LOST = Counter("bulkdeploy_leases_lost", "Leases that this worker lost before its job was over", ["noticed"])
BATCH_SECONDS = Histogram(
    "bulkdeploy_batch_seconds", "Time to write a batch of leases and results", buckets=SHORT_S
)
STEP_SECONDS = Histogram("bulkdeploy_step_seconds", "Time of a driver call", ["step", "hypervisor"], buckets=LONG_S)
DRIVER_BATCH = Histogram(
    "bulkdeploy_driver_batch_calls", "Calls sent to a driver together", buckets=(1, 2, 5, 10, 20, 50, 100)
)
DRIVER_ERRORS = Counter("bulkdeploy_driver_errors", "Driver calls that failed", ["step", "hypervisor", "kind"])

SWEPT = Counter("bulkdeploy_swept", "What the sweeper had to see to", ["what"])
SWEEPER_ROUNDS = Counter("bulkdeploy_sweeper_rounds", "Rounds of the sweeper")
SWEEPS_FAILED = Counter("bulkdeploy_sweeps_failed", "Passes of the sweeper that failed", ["what"])


class Program(StrEnum):
    """A program that reports metrics of its own."""

    API = "api"
    WORKER = "worker"
    SWEEPER = "sweeper"


OWN: Mapping[Program, tuple[Counter | Gauge | Histogram, ...]] = {
    Program.API: (
        *(CALLS, CALL_SECONDS, REQUESTS_REFUSED, PLAN_SECONDS),
        *(SHARED_TRANSACTIONS, CLAIM_CONFLICTS, LOCK_TIMEOUTS),
    ),
    Program.WORKER: (
        *(JOBS_FINISHED, JOBS_PAUSED, JOBS_REQUEUED, JOBS_IN_HAND, LEASES_LOST, BATCH_SECONDS),
        *(STEP_SECONDS, DRIVER_BATCH, DRIVER_ERRORS, PLAN_SECONDS, CLAIM_CONFLICTS, LOCK_TIMEOUTS),
    ),
    Program.SWEEPER: (SWEPT, SWEEPER_ROUNDS, SWEEPS_FAILED, STEP_SECONDS, DRIVER_ERRORS),
}
"""What each program counts. Others' figures would be zeros that never move, and alarms would take them for true."""


class OwnFigures(Collector):
    """The metrics of one program: its counters, its release, and the libraries' metrics of the process."""

    def __init__(self, program: Program, counted: Collector = REGISTRY) -> None:
        self._program, self._counted = program, counted
        self._names = {family.name for meter in OWN[program] for family in meter.describe()}

    def collect(self) -> Iterator[Metric]:
        """Yield the present values of all metric families."""
        yield build_info(self._program)
        for family in self._counted.collect():
            if family.name in self._names or not family.name.startswith(PREFIX):
                yield family


def build_info(program: Program) -> Metric:
    """Return the metric that names the release of a program."""
    info = GaugeMetricFamily(f"{PREFIX}build_info", "The release that runs", labels=["program", "version"])
    info.add_metric([program, version("bulkdeploy")], 1)
    return info
