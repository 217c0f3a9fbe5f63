"""The progress that is shown on standard error while bulkmonkey waits for jobs.

On a terminal, a single job has a spinner; a batch has one progress bar for all its jobs, with the failures above
the bar. Elsewhere, a line is printed at intervals. With ``--quiet``, only failures are printed.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from bulkdeploy.cli.connection.clock import Clock
from bulkdeploy.cli.deployments import jobs
from bulkdeploy.cli.output.formats import duration, printable

RATE_OVER = 30.0  # seconds
PLAIN_EVERY = 10.0  # seconds
MOST_LINES_AT_ONCE = 20


class BatchView(Protocol):
    """The interface of an object that shows the progress of a batch."""

    def show(self, progress: jobs.Progress) -> None:
        """Show the present progress."""
        ...

    def failures(self, failures: Sequence[jobs.Failure]) -> None:
        """Show jobs that have failed since the last call."""
        ...

    def reading(self, text: str) -> None:
        """Show a text about the progress of reading the jobs' results."""
        ...

    def trouble(self, text: str) -> None:
        """Show the reason why the progress cannot be read at present."""
        ...


class Pace:
    """The number of jobs that finish per second, measured over the last ``RATE_OVER`` seconds."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.points: deque[tuple[float, int]] = deque()

    def add(self, done: int) -> None:
        """Record the number of jobs that have ended by now."""
        now = self.clock.now()
        self.points.append((now, done))
        while len(self.points) > 2 and now - self.points[1][0] > RATE_OVER:
            self.points.popleft()

    @property
    def rate(self) -> float:
        """The finished jobs per second, or 0 if the rate is not known yet."""
        if not self.points:
            return 0.0
        (start, first), (end, last) = self.points[0], self.points[-1]
        return (last - first) / (end - start) if end > start else 0.0

    def remaining_s(self, progress: jobs.Progress) -> float | None:
        """Return the estimated seconds until all jobs are finished, or None if the rate is not known yet."""
        return (progress.total - progress.done) / self.rate if self.rate > 0 else None


class LiveBatch:
    """A progress bar for all jobs of a batch."""

    def __init__(self, progress: Progress, clock: Clock) -> None:
        self.bar, self.pace = progress, Pace(clock)
        self.task = progress.add_task("", total=None, counts=Text(), pace=Text())

    def show(self, progress: jobs.Progress) -> None:
        """Update the progress bar."""
        self.pace.add(progress.done)
        self.bar.update(
            self.task,
            total=progress.total or None,
            completed=progress.done,
            counts=_coloured_counts(progress),
            pace=Text(_pace_text(self.pace, progress), style="dim"),
        )

    def failures(self, failures: Sequence[jobs.Failure]) -> None:
        """Print failures above the progress bar."""
        for line in failure_lines(failures):
            self.bar.console.print(Text(line, style="red"), soft_wrap=True)

    def reading(self, text: str) -> None:
        """Show a text next to the progress bar."""
        self.bar.update(self.task, pace=Text(text, style="dim"))

    def trouble(self, text: str) -> None:
        """Show a warning next to the progress bar."""
        self.bar.update(self.task, pace=Text(printable(text), style="yellow"))


class PlainBatch:
    """A view of a batch that prints a line every ``PLAIN_EVERY`` seconds, and one at the end."""

    def __init__(self, console: Console, clock: Clock, *, quiet: bool) -> None:
        self.console, self.clock, self.quiet, self.pace = console, clock, quiet, Pace(clock)
        self.last = clock.now()

    def show(self, progress: jobs.Progress) -> None:
        """Print a line with the progress, at most every ``PLAIN_EVERY`` seconds and at the end."""
        self.pace.add(progress.done)
        due = self.clock.now() - self.last >= PLAIN_EVERY or progress.finished
        if due and not self.quiet:
            self.last = self.clock.now()
            rest = _pace_text(self.pace, progress)
            text = f"{progress.done}/{progress.total} done, {counts_text(progress)}{', ' + rest if rest else ''}"
            self.console.print(text, soft_wrap=True)

    def failures(self, failures: Sequence[jobs.Failure]) -> None:
        """Print failures, even if output is reduced by ``--quiet``."""
        for line in failure_lines(failures):
            self.console.print(Text(line), soft_wrap=True)

    def reading(self, text: str) -> None:
        """Print nothing, because reading takes only a short time."""

    def trouble(self, text: str) -> None:
        """Print a warning, unless output is reduced by ``--quiet``."""
        if not self.quiet:
            self.console.print(Text(printable(text)), soft_wrap=True)


class _PartText(ProgressColumn):
    """A column of the progress bar that shows a named field of the task."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def render(self, task: Task) -> Text:
        """Return the present text of the field."""
        return Text().append_text(task.fields[self.name])


@contextmanager
def batch_view(console: Console, clock: Clock, *, quiet: bool) -> Iterator[BatchView]:
    """Yield a progress bar if the console is a terminal, else a view that prints lines."""
    if quiet or not console.is_terminal:
        yield PlainBatch(console, clock, quiet=quiet)
        return
    columns = (
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f}%"),
        _PartText("counts"),
        _PartText("pace"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=5) as progress:
        yield LiveBatch(progress, clock)


@contextmanager
def waiting_for_job(console: Console, text: str, *, quiet: bool) -> Iterator[None]:
    """Show a spinner with a text and the elapsed time until the block ends, if the console is a terminal."""
    if quiet or not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(text, total=None)
        yield


def counts_text(progress: jobs.Progress) -> str:
    """Return the numbers of failed, running and queued jobs as text."""
    parts = [f"{progress.failed} failed"]
    if progress.running is None or progress.queued is None:
        parts.append(f"{progress.total - progress.done} in progress")
    else:
        parts += [f"{progress.running} running", f"{progress.queued} queued"]
    return ", ".join(parts)


def failure_lines(failures: Sequence[jobs.Failure]) -> list[str]:
    """Return one line per failure, up to a limit, and one line each for the number of further and cancelled VMs."""
    failed = [one for one in failures if not one.cancelled]
    lines = [printable(f"failed: VM {one.vm_id}: {one.reason} (code {one.code})") for one in failed]
    more = len(lines) - MOST_LINES_AT_ONCE
    lines = [*lines[:MOST_LINES_AT_ONCE], f"failed: and {more} more"] if more > 0 else lines
    cancelled = len(failures) - len(failed)
    return [*lines, f"cancelled before they began: {cancelled} VM{'s' * (cancelled != 1)}"] if cancelled else lines


def _pace_text(pace: Pace, progress: jobs.Progress) -> str:
    left = pace.remaining_s(progress)
    if left is None or progress.finished:
        return ""
    return f"{pace.rate:.1f}/s, {duration(left)} left"


def _coloured_counts(progress: jobs.Progress) -> Text:
    text = Text(f"{progress.done}/{progress.total} done")
    if progress.failed:
        text.append(f" {progress.failed} failed", style="red")
    if progress.running is not None and progress.queued is not None:
        text.append(f" {progress.running} running", style="yellow").append(
            f" {progress.queued} queued", style="dim"
        )
    return text
