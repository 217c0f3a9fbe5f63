"""The page of a bulk deployment. It polls one fragment until the deployment has ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flask import Response

from bulkdeploy.cli.deployments.batch_report import grouped
from bulkdeploy.cli.deployments.jobs import Failure
from bulkdeploy.console.calls import ApiRefused
from bulkdeploy.console.formats import seconds_between
from bulkdeploy.console.rendering import address
from bulkdeploy.console.spread import spread_of
from bulkdeploy.console.visit import Visit

NOT_FOUND = 404
REPLACE = "replaceBulkDeployment"
REPLACEMENT_CALLS: Mapping[str, tuple[str, Mapping[str, object]]] = MappingProxyType(
    {
        "pause": (REPLACE, {"pause": True}),
        "resume": ("resumeBulkOperation", {}),
        "rollback": (REPLACE, {"rollback": True}),
    }
)
"""The command and the parameters of each button of a replacement."""
REPLACEMENT_ACTIONS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "InProgress": ("pause", "rollback"),
        "Paused": ("resume", "rollback"),
        "Failed": ("resume", "rollback"),
        "Completed": ("rollback",),
    }
)
"""The buttons of a replacement, by its state."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The numbers of a deployment's jobs by state.

    Attributes:
        seconds: the time from the call to the latest end of a job, or None if no job has ended.
    """

    total: int
    queued: int
    running: int
    succeeded: int
    failed: int
    seconds: float | None

    @property
    def done(self) -> int:
        """The number of jobs that have ended."""
        return self.succeeded + self.failed

    @property
    def is_over(self) -> bool:
        """Return whether the progress can no longer change."""
        return self.queued + self.running == 0

    @property
    def per_second(self) -> float | None:
        """The average number of jobs that ended per second, or None before two jobs ended."""
        return self.done / self.seconds if self.seconds and self.done > 1 else None

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds until all jobs have ended, or None if the rate is unknown."""
        return (self.total - self.done) / self.per_second if self.per_second and not self.is_over else None


def progress_of(row: Mapping[str, Any]) -> Progress:
    """Return the progress of a deployment."""
    counts = {name: int(row.get(name) or 0) for name in ("queued", "running", "succeeded", "failed")}
    return Progress(
        sum(counts.values()), **counts, seconds=seconds_between(row.get("created"), row.get("completed"))
    )


def page(visit: Visit) -> Response:
    """Return the page of a bulk deployment."""
    return visit.page("deployment.html", **_values(visit))


def live(visit: Visit) -> Response:
    """Return the part of a deployment's page that is refreshed periodically."""
    return visit.page("fragments/deployment.html", **_values(visit))


def cancel(visit: Visit) -> Response:
    """Cancel the deployment if the user has confirmed it; otherwise return a page that asks for confirmation."""
    deployment = visit.form.get("id", "")
    if "sure" not in visit.form:
        return visit.page(
            "confirm.html",
            title=visit.pages.texts.deployment.cancel_title,
            text=visit.pages.texts.deployment.cancel_text,
            yes=visit.pages.texts.deployment.cancel_yes,
            action="deployment-cancel",
            fields=[("id", deployment)],
            back=address("deployment", id=deployment),
            names=(),
        )
    visit.calls("cancelBulkDeployment", {"id": deployment})
    return Response(status=303, headers={"Location": address("deployment", id=deployment)})


def change_replacement(visit: Visit) -> Response:
    """Pause, continue or roll back the replacement of a deployment's VMs.

    A rollback asks for confirmation first.
    """
    deployment, action = visit.form.get("id", ""), visit.form.get("action", "")
    back = address("deployment", id=deployment)
    if action not in REPLACEMENT_CALLS:
        return Response(status=303, headers={"Location": back})
    if action == "rollback" and "sure" not in visit.form:
        texts = visit.pages.texts
        return visit.page(
            "confirm.html",
            title=texts.deployment.rollback_title,
            text=texts.deployment.rollback_text,
            yes=texts.deployment.rollback_yes,
            action="deployment-replacement",
            fields=[("id", deployment), ("action", action)],
            back=back,
            names=(),
        )
    command, given = REPLACEMENT_CALLS[action]
    visit.calls(command, {"id": deployment, **given})
    return Response(status=303, headers={"Location": back})


def _values(visit: Visit) -> dict[str, Any]:
    rows = visit.calls.rows("listBulkDeployments", {"id": visit.given.get("id") or "-", "listall": True})
    if not rows:
        raise ApiRefused(NOT_FOUND, visit.pages.texts.deployment.gone)
    row = rows[0]
    failures = [Failure.of_row(failure) for failure in row.get("failures") or ()]
    progress, replacement = progress_of(row), replacement_of(row)
    state = str(replacement["state"]) if replacement else ""
    is_managed = row.get("desiredcount") is not None
    return {
        "deployment": row,
        "progress": progress,
        "replacement": replacement,
        "replacement_actions": [
            action for action in REPLACEMENT_ACTIONS.get(state, ()) if REPLACEMENT_CALLS[action][0] in visit.may
        ],
        "is_managed": is_managed,
        "is_changing": not progress.is_over
        or state == "InProgress"
        or (is_managed and row["desiredcount"] != row["actualcount"]),
        "spread": spread_of(row),
        "failures": [group.as_row() for group in grouped(failures)],
        "failures_read": len(failures),
    }


def replacement_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the newest replacement of a deployment's VMs, or None if there was none."""
    found = row.get("replacement") or ()
    return found[0] if found else None


VIEWS = MappingProxyType(
    {
        ("GET", "deployment"): page,
        ("GET", "deployment-live"): live,
        ("POST", "deployment-cancel"): cancel,
        ("POST", "deployment-replacement"): change_replacement,
    }
)
