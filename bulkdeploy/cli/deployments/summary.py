"""The summary at the end of a batch: its result, the spread of its VMs, failures and slow jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from bulkdeploy.cli.deployments.batch_report import (
    cluster_table,
    failure_table,
    grouped,
    pod_table,
    skew_of,
    slow_table,
    slowest,
)
from bulkdeploy.cli.deployments.jobs import Failure, Progress, failure_of
from bulkdeploy.cli.output.formats import duration


def summary_parts(
    progress: Progress,
    jobs: Sequence[Mapping[str, Any]],
    deployment: Mapping[str, Any],
    clusters: Sequence[Mapping[str, Any]],
    seconds: float,
) -> list[RenderableType]:
    """Return the report that is printed at the end of a batch.

    ``deployment`` is the row in listBulkDeployments (empty if the API has none), ``clusters`` the spread, and
    ``seconds`` the time for which the batch was followed.
    """
    failures = all_failures(jobs, deployment)
    cancelled = sum(failure.cancelled for failure in failures)
    parts: list[RenderableType] = [_headline(progress, cancelled, deployment, clusters, seconds)]
    if clusters:
        parts += cluster_parts(clusters, planned=bool(deployment))
    if failures:
        parts.append(failure_table([group.as_row() for group in grouped(failures)]))
    slow = slowest(jobs)
    if slow:
        parts.append(slow_table(slow))
    return parts


def cluster_parts(clusters: Sequence[Mapping[str, Any]], *, planned: bool) -> list[RenderableType]:
    """Return tables of the VMs per pod, if pods have several clusters, and per cluster.

    ``planned`` is true if the counts are those of the plan.
    """
    pods = pod_table(clusters)
    title = "VMs per cluster, as planned" if planned else "VMs per cluster"
    return [*([pods] if pods is not None else []), cluster_table(clusters, title)]


def all_failures(jobs: Sequence[Mapping[str, Any]], deployment: Mapping[str, Any]) -> list[Failure]:
    """Return the failures of the deployment and its jobs without duplicates."""
    listed = [Failure.of_row(row) for row in deployment.get("failures") or ()]
    read = [failure for job in jobs if (failure := failure_of(job)) is not None]
    return list({failure.job_id: failure for failure in (*listed, *read)}.values())


def outcome(failed: int, cancelled: int) -> str:
    """Return the numbers of failed and cancelled jobs as text.

    ``failed`` includes the cancelled jobs, as in the API.
    """
    parts = [f"{failed - cancelled} failed"] if failed > cancelled or not failed else []
    return ", ".join([*parts, f"{cancelled} cancelled"] if cancelled else parts)


def _headline(
    progress: Progress,
    cancelled: int,
    deployment: Mapping[str, Any],
    clusters: Sequence[Mapping[str, Any]],
    seconds: float,
) -> Text:
    text = Text().append(f"{progress.succeeded} of {progress.total} jobs succeeded", "bold")
    if progress.failed:
        text.append(f", {outcome(progress.failed, cancelled)}", "bold red")
    if seconds >= 1 and progress.done:
        text.append(f", followed for {duration(seconds)} ({progress.done / seconds:.1f}/s)")
    if clusters:
        text.append(f", skew {deployment['skew'] if 'skew' in deployment else skew_of(clusters)}")
    if deployment.get("id"):
        text.append(f"  deployment {deployment['id']}", "dim")
    return text
