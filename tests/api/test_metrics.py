"""What Prometheus reads from an API server: the state of the whole service, and what its processes counted."""

from collections.abc import Callable, Mapping
from importlib.metadata import version

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bulkdeploy.api.app import create_monitoring_app
from bulkdeploy.queue.celery_queue import CeleryJobQueue
from bulkdeploy.services.system import System
from bulkdeploy.store.database.engine import create_engine
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving
from tests.support.zones.fleet import Fleet, fleet, fleet_simulator_url, template_database

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

Figures = Mapping[tuple[str, ...], float]


def figures_of(system: System) -> Figures:
    """Every sample by its name and the values of its labels."""
    with serving(create_monitoring_app(system)) as url:
        answer = ApiClient(url, "", "").request("GET", "/metrics")
    assert answer.status == 200
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture
def grown(system: System) -> Callable[..., float]:
    """By how much a sample has grown since the test began."""
    before = figures_of(system)

    def since(*key: str) -> float:
        return figures_of(system)[key] - before.get(key, 0.0)

    return since


def test_jobs_queues_and_outbox_are_shown(
    fleet: Fleet, system: System, client: ApiClient, grown: Callable[..., float]
) -> None:
    """Unfinished jobs by state with their age, messages by queue, the outbox, and what calls and jobs took."""
    client.call("bulkDeployVirtualMachine", **fleet.zone.bulk_parameters(3))
    fleet.zone.change("UPDATE async_jobs SET created = created - interval '90 s'")
    fleet.zone.change("INSERT INTO outbox SELECT id, 'x', kind, now() - interval '40 s' FROM async_jobs LIMIT 1")
    now = figures_of(system)
    assert now["bulkdeploy_jobs", "queued"] == 3
    assert now["bulkdeploy_jobs", "running"] == 0
    assert now["bulkdeploy_jobs_oldest_seconds", "queued"] >= 90
    assert now["bulkdeploy_queue_messages", "jobs.bulk.0"] == 3
    assert (now["bulkdeploy_outbox_messages",], now["bulkdeploy_database_up",], now["bulkdeploy_redis_up",]) == (
        1,
        1,
        1,
    )
    assert now["bulkdeploy_outbox_lag_seconds",] >= 40
    assert now["bulkdeploy_virtual_machines", "Stopped"] == 3
    memory = {name: now[f"bulkdeploy_capacity{name}", "MEMORY", "small"] for name in ("", "_used")}
    assert 0 < memory["_used"] < memory[""]
    assert grown("bulkdeploy_plan_seconds_count") == 1
    assert grown("bulkdeploy_calls_total", "bulkDeployVirtualMachine", "200") == 1
    fleet.run()
    last = figures_of(system)
    assert (last["bulkdeploy_jobs", "queued"], last["bulkdeploy_virtual_machines", "Running"]) == (0, 3)
    assert last["bulkdeploy_build_info", "api", version("bulkdeploy")] == 1
    assert not [key for key in last if key[0].startswith(("bulkdeploy_jobs_finished", "bulkdeploy_sweeper"))]


def test_unknown_commands_are_one_figure(system: System, client: ApiClient, grown: Callable[..., float]) -> None:
    """Whatever callers invent as a command's name, it makes no new label."""
    client.get("inventedByMe")
    client.get("alsoInvented")
    assert not any("inventedByMe" in key for key in figures_of(system))
    assert (
        sum(value for key, value in figures_of(system).items() if key[:2] == ("bulkdeploy_calls_total", "unknown"))
        >= 2
    )
    assert callable(grown)


def test_metrics_without_database_and_redis(system: System) -> None:
    """While both are away the page is there and says so."""
    gone = create_engine("postgresql://nobody@127.0.0.1:1/none", pool_size=1)
    unplugged = System(gone, CeleryJobQueue("redis://127.0.0.1:1/0"), system.cipher, system.data_dir)
    now = figures_of(unplugged)
    assert (now["bulkdeploy_database_up",], now["bulkdeploy_redis_up",]) == (0, 0)
    assert not any(key[0] == "bulkdeploy_jobs" for key in now)
    gone.dispose()
