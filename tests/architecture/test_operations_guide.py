"""docs/reference/monitoring.md lists every metric, and the guides of operators name settings that exist."""

import re

from prometheus_client import REGISTRY

from bulkdeploy.api.metrics import state_metrics
from bulkdeploy.api.state_figures import StateFigures
from bulkdeploy.domain.configuration import BY_NAME
from bulkdeploy.store.jobs.state_figures import Backlog
from bulkdeploy.telemetry import metrics
from bulkdeploy.wiring.settings import Settings
from tests.architecture.test_imports import ROOT

GUIDE = (ROOT / "docs" / "reference" / "monitoring.md").read_text()
OPERATORS_PAGES = "\n".join(
    (ROOT / "docs" / page).read_text()
    for page in ("reference/monitoring.md", "how-to/operations.md", "explanation/failures.md")
)
PREFIX = "bulkdeploy_"


def _shown_name(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def test_every_metric_is_explained_and_every_explained_one_exists() -> None:
    """What stands first in a row of a table is a metric, and each metric stands in one row."""
    explained = re.findall(r"^\| `(bulkdeploy_\w+)`", GUIDE, re.MULTILINE)
    counted = {
        _shown_name(family.name, family.type) for family in REGISTRY.collect() if family.name.startswith(PREFIX)
    }
    looked_up = {family.name for family in state_metrics(StateFigures(outbox=Backlog(), upstream_lag_s=0.0))}
    assert sorted(explained) == sorted(counted | looked_up | {metrics.build_info(metrics.Program.API).name})


def test_every_meter_is_some_programs_own() -> None:
    """What nobody owns nobody shows."""
    declared = {meter for meter in vars(metrics).values() if hasattr(meter, "describe") and hasattr(meter, "_name")}
    assert declared == {meter for own in metrics.OWN.values() for meter in own}


def test_labels_are_those_of_the_metrics() -> None:
    """Labels in braces are the metric's own."""
    for name, labels in re.findall(r"^\| `(bulkdeploy_\w+)`(?: \{([a-z, ]+)\})? \|", GUIDE, re.MULTILINE):
        declared = {
            metric._name: metric._labelnames for metric in vars(metrics).values() if hasattr(metric, "_labelnames")
        }
        own = declared.get(name.removesuffix("_total"))
        if own is not None:
            assert ", ".join(own) == labels, name


def test_every_setting_that_is_mentioned_exists() -> None:
    """Names with dots are global settings, names with underscores settings of a process."""
    dotted = set(re.findall(r"`(?:updateConfiguration name=)?([a-z]+(?:\.[a-z]+){2,})", OPERATORS_PAGES))
    assert dotted <= set(BY_NAME), dotted - set(BY_NAME)
    mentioned = {
        "monitoring_listen",
        "log_format",
        "lease_seconds",
        "sweep_interval_seconds",
        "driver_timeout_seconds",
    }
    assert mentioned <= set(Settings.model_fields)
    assert all(f"`{name}" in OPERATORS_PAGES for name in mentioned)
