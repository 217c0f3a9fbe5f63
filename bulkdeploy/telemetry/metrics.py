"""The counters and timers of all programs, with their Prometheus names.

docs/reference/monitoring.md explains each metric. Figures from the database and Redis are not counted here but read
at each scrape (``api.state_figures``). API processes share their figures through files in the directory that the
environment variable SHARED_DIRECTORY names, so that each process can report the figures of all. The variable must
be set before this module is imported.
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
    "bulkdeploy_requests_refused", "Connections that were closed before they sent a complete call", ["reason"]
)

PLAN_SECONDS = Histogram(
    "bulkdeploy_plan_seconds",
    "Time to plan one call, or to find another host for one VM",
    buckets=SHORT_S,
)
CLAIM_CONFLICTS = Counter(
    "bulkdeploy_claim_conflicts", "Transactions repeated because of a conflict with another transaction", ["reason"]
)
SHARED_TRANSACTIONS = Histogram(
    "bulkdeploy_shared_transaction_calls",
    "Number of deploy calls in one transaction",
    buckets=(1, 2, 5, 10, 20, 50),
)
LOCK_TIMEOUTS = Counter(
    "bulkdeploy_lock_timeouts", "Transactions rolled back and repeated because a lock was not free"
)

JOBS_FINISHED = Counter("bulkdeploy_jobs_finished", "Jobs that ended", ["kind", "result"])
JOBS_PAUSED = Counter("bulkdeploy_jobs_paused", "Attempts of jobs that are repeated later", ["kind"])
JOBS_REQUEUED = Counter("bulkdeploy_jobs_requeued", "Leased jobs that a stopping worker returned to the queue")
JOBS_IN_HAND = Gauge("bulkdeploy_jobs_in_hand", "Jobs that this worker has leased", multiprocess_mode="livesum")
LEASES_LOST = Counter("bulkdeploy_leases_lost", "Leases that this worker lost before the job ended", ["noticed"])
BATCH_SECONDS = Histogram(
    "bulkdeploy_batch_seconds", "Time to write a batch of leases and results", buckets=SHORT_S
)
STEP_SECONDS = Histogram(
    "bulkdeploy_step_seconds", "Duration of a driver call", ["step", "hypervisor"], buckets=LONG_S
)
DRIVER_BATCH = Histogram(
    "bulkdeploy_driver_batch_calls", "Number of calls in one batch to a driver", buckets=(1, 2, 5, 10, 20, 50, 100)
)
DRIVER_ERRORS = Counter("bulkdeploy_driver_errors", "Driver calls that failed", ["step", "hypervisor", "kind"])

SWEPT = Counter("bulkdeploy_swept", "Objects that the sweeper repaired, sent or deleted", ["what"])
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
"""The metrics of each program.

A program does not report the metrics of others, because they would always be zero and mislead alarms.
"""


class OwnFigures(Collector):
    """The metrics of one program: its counters, its release, and the metrics of Python libraries."""

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
    """Return the metric with the release of a program."""
    info = GaugeMetricFamily(f"{PREFIX}build_info", "The release that runs", labels=["program", "version"])
    info.add_metric([program, version("bulkdeploy")], 1)
    return info
