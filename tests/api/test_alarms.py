"""config/monitoring: the rules and the dashboard ask for what programs really show, and alarm when they should."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.core import Sample
from prometheus_client.parser import text_string_to_metric_families

from bulkdeploy.api.app import create_monitoring_app
from bulkdeploy.services.system import System
from bulkdeploy.telemetry.metrics import OwnFigures, Program
from tests.api.test_metrics import fleet, fleet_simulator_url, template_database
from tests.architecture.test_imports import ROOT
from tests.support.api.api_client import ApiClient
from tests.support.api.api_server import serving
from tests.support.zones.fleet import Fleet

__all__ = ["fleet", "fleet_simulator_url", "template_database"]

PLACE = ROOT / "config" / "monitoring"
RULES = PLACE / "rules.yaml"
GUIDE = (ROOT / "docs" / "reference" / "monitoring.md").read_text()
WORDS = re.compile(r"\b(bulkdeploy_\w+)(?:\{([^}]*)\})?")

COUNTED = ("_total", "_bucket", "_count", "_sum")

MINUTES = 6 * 60 + 20
"""Longer than the longest ``for`` of the rules and the window that it looks at."""
EVALUATED_EVERY_MINUTES = 20
"""A divisor of MINUTES: the rules are evaluated at its end, too, and as few times as possible until then."""

RAISED_BY: list[tuple[dict[str, float], set[str]]] = [
    ({}, set()),
    ({"bulkdeploy_database_up": 0}, {"BulkdeployDatabaseDown"}),
    ({"bulkdeploy_redis_up": 0}, {"BulkdeployRedisDown"}),
    ({'bulkdeploy_jobs{instance="api",job="api",state="dropped"': 1}, {"BulkdeployNoSweeper"}),
    ({'bulkdeploy_jobs_oldest_seconds{instance="api",job="api",state="queued"': 90}, {"BulkdeployNoWorker"}),
    ({"bulkdeploy_outbox_lag_seconds": 90}, {"BulkdeployOutboxLags"}),
    ({"bulkdeploy_sweeper_rounds_total": 0}, {"BulkdeploySweeperStuck"}),
    ({'bulkdeploy_virtual_machines{instance="api",job="api",state="Unknown"': 1}, {"BulkdeployVmsUnknown"}),
]
"""Figures, by the beginning of their series, and the alarms that they raise."""
READ_BY_RULES = {name for name, _ in WORDS.findall(RULES.read_text())}


def expressions() -> Iterator[str]:
    """Every query of the rules and the dashboard."""
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        yield str(rule["expr"])
    for panel in json.loads((PLACE / "dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


@pytest.fixture
def samples(fleet: Fleet, system: System) -> list[tuple[str, Sample]]:
    """What each program shows after a batch was deployed, and which program it is."""
    with serving(create_monitoring_app(system)) as url:
        before = {_series(program, sample): sample.value for program, sample in _shown(url)}
        fleet.deploy(3)
        fleet.run()
        shown = list(_shown(url))
    # Counters of this process are those of earlier tests, too.
    return [
        (program, sample._replace(value=sample.value - before.get(_series(program, sample), 0)))
        if sample.name.endswith(COUNTED)
        else (program, sample)
        for program, sample in shown
    ]


def _shown(url: str) -> Iterator[tuple[str, Sample]]:
    texts = {Program.API: ApiClient(url, "", "").request("GET", "/metrics").text}
    for program in (Program.WORKER, Program.SWEEPER):
        texts[program] = generate_latest(OwnFigures(program)).decode()
    for program, text in texts.items():
        for family in text_string_to_metric_families(text):
            yield from ((program, sample) for sample in family.samples)


def _series(program: str, sample: Sample) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    return program, sample.name, tuple(sorted(sample.labels.items()))


def test_every_metric_in_a_query_is_explained() -> None:
    """Names in queries are those of the guide, where an operator finds what they mean."""
    explained = set(re.findall(r"^\| `(bulkdeploy_\w+)`", GUIDE, re.MULTILINE))
    requested = {
        re.sub("_(bucket|count|sum)$", "", name) for text in expressions() for name, _ in WORDS.findall(text)
    }
    assert requested <= explained, requested - explained
    assert len(requested) > 20


def promtool(*arguments: str | Path) -> str:
    """What Prometheus' own tool says, with success."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not here (Debian has it in the package prometheus)")
    ended = subprocess.run([tool, *arguments], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def day(samples: list[tuple[str, Sample]], changed: dict[str, float], expected: set[str]) -> dict[str, Any]:
    """One of promtool's tests: these figures for the time after which every rule has decided, with some changed.

    Exactly the ``expected`` alarms are on then. Counters grow by their value every minute: rates of what was
    counted once would be nothing. Figures that no rule reads are left out.
    """
    series = []
    for program, sample in samples:
        if sample.name not in READ_BY_RULES:
            continue
        labels = {**sample.labels, "instance": program, "job": program}
        name = sample.name + "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"
        value = next((to for start, to in changed.items() if name.startswith(start)), sample.value)
        step = value if sample.name.endswith(COUNTED) else 0
        series.append({"series": name, "values": f"{value}+{step}x{MINUTES}"})
    alarms = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)]
    return {
        "name": f"{changed} -> {expected}",
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": alarms,
            }
        ],
    }


def test_each_figure_raises_its_own_alarm(samples: list[tuple[str, Sample]], tmp_path: Path) -> None:
    """With what programs really show no alarm is on; with one figure changed exactly the alarm that is for it."""
    promtool("check", "rules", RULES)
    moving = {"bulkdeploy_sweeper_rounds_total": 30.0}
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{EVALUATED_EVERY_MINUTES}m",
        "tests": [day(samples, {**moving, **changed}, expected) for changed, expected in RAISED_BY],
    }
    file = tmp_path / "alarms.yaml"
    file.write_text(yaml.safe_dump(document))
    promtool("test", "rules", file)


def test_labels_of_queries_are_shown(samples: list[tuple[str, Sample]]) -> None:
    """Labels that a query picks by or sums by are labels of one of its metrics."""
    labels: dict[str, set[str]] = {}
    for _, sample in samples:
        labels.setdefault(sample.name, set()).update(sample.labels)
    for text in expressions():
        names = [name for name, _ in WORDS.findall(text)]
        known = set(chain.from_iterable(labels.get(name, set()) for name in names))
        if not any(name in labels for name in names):
            continue  # counted by labels, and nothing was
        picked = {key for _, inner in WORDS.findall(text) for key in re.findall(r"(\w+)[=!]", inner)}
        summed = {key.strip() for inner in re.findall(r"by \(([^)]*)\)", text) for key in inner.split(",")}
        assert (picked | summed) - {"instance"} <= known, text
