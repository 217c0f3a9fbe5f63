"""The path ``/metrics``, with the metrics of all API processes and of the service, for Prometheus."""

import os
from collections.abc import Iterator

from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from bulkdeploy.api.state_figures import StateFigures, read_state_figures
from bulkdeploy.services.system import System
from bulkdeploy.store.jobs.state_figures import Backlog
from bulkdeploy.telemetry.metrics import SHARED_DIRECTORY, OwnFigures, Program


def add_metrics(app: Flask, system: System) -> None:
    """Add the path ``/metrics``.

    The response has status 200 even while the database or Redis cannot be reached; two metrics report whether they
    can.
    """

    def metrics() -> Response:
        state = CollectorRegistry()
        state.register(_StateCollector(system))
        counted: CollectorRegistry = REGISTRY
        if SHARED_DIRECTORY in os.environ:
            counted = CollectorRegistry()
            MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        return Response(
            generate_latest(OwnFigures(Program.API, counted)) + generate_latest(state),
            content_type=CONTENT_TYPE_LATEST,
        )

    app.add_url_rule("/metrics", "metrics", metrics)


class _StateCollector(Collector):
    """A Prometheus collector that reads the figures of ``api.state_figures`` at each collection."""

    def __init__(self, system: System) -> None:
        self._system = system

    def describe(self) -> Iterator[Metric]:
        """Yield the metric families without reading any figures."""
        return state_metrics(StateFigures(outbox=Backlog(), upstream_lag_s=0.0))

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families with the current figures."""
        return state_metrics(read_state_figures(self._system))


def state_metrics(figures: StateFigures) -> Iterator[Metric]:
    """Yield the figures as Prometheus gauges."""
    yield GaugeMetricFamily("bulkdeploy_database_up", "PostgreSQL answers", figures.database_up)
    yield GaugeMetricFamily("bulkdeploy_redis_up", "Redis answers", figures.redis_up)
    jobs = GaugeMetricFamily("bulkdeploy_jobs", "Unfinished jobs", labels=["state"])
    ages = GaugeMetricFamily("bulkdeploy_jobs_oldest_seconds", "Age of the oldest unfinished job", labels=["state"])
    for state, backlog in figures.jobs.items():
        jobs.add_metric([state], backlog.count)
        ages.add_metric([state], backlog.oldest_s)
    yield jobs
    yield ages
    if figures.outbox is not None:
        yield GaugeMetricFamily("bulkdeploy_outbox_messages", "Messages not sent yet", figures.outbox.count)
        yield GaugeMetricFamily(
            "bulkdeploy_outbox_lag_seconds", "Age of the oldest unsent message", figures.outbox.oldest_s
        )
    vms = GaugeMetricFamily("bulkdeploy_virtual_machines", "VMs by state", labels=["state"])
    for vm_state, count in figures.virtual_machines.items():
        vms.add_metric([vm_state], count)
    yield vms
    limits = GaugeMetricFamily("bulkdeploy_capacity", "Capacity of hosts and pools", labels=["zone", "type"])
    used = GaugeMetricFamily("bulkdeploy_capacity_used", "Allocated capacity", labels=["zone", "type"])
    for zone, kind, total, taken in figures.capacity:
        limits.add_metric([zone, kind], total)
        used.add_metric([zone, kind], taken)
    yield limits
    yield used
    if figures.upstream_lag_s is not None:
        yield GaugeMetricFamily(
            "bulkdeploy_upstream_lag_seconds",
            "Age of the last reading of the followed CloudStack",
            figures.upstream_lag_s,
        )
    yield from _host_metrics(figures)
    yield from _availability_metrics(figures)
    queues = GaugeMetricFamily("bulkdeploy_queue_messages", "Messages waiting in Redis", labels=["queue"])
    for queue, messages in figures.queues.items():
        queues.add_metric([queue], messages)
    yield queues


def _host_metrics(figures: StateFigures) -> Iterator[Metric]:
    cores = GaugeMetricFamily("bulkdeploy_host_cpu_used_ratio", "Share of a host's cores in use", labels=["host"])
    memory = GaugeMetricFamily("bulkdeploy_host_memory_used_bytes", "Memory of a host in use", labels=["host"])
    for host, share, used_bytes in figures.hosts:
        if share is not None:
            cores.add_metric([host], share / 10_000)
        memory.add_metric([host], used_bytes)
    yield cores
    yield memory


def _availability_metrics(figures: StateFigures) -> Iterator[Metric]:
    power = GaugeMetricFamily(
        "bulkdeploy_host_power_states", "Hosts with a management controller, by power state", labels=["state"]
    )
    for power_state, count in figures.power_states.items():
        power.add_metric([power_state], count)
    yield power
    available = GaugeMetricFamily(
        "bulkdeploy_host_ha_states", "Hosts with host HA, by state of host HA", labels=["state"]
    )
    for ha_state, count in figures.ha_states.items():
        available.add_metric([ha_state], count)
    yield available
