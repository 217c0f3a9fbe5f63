"""The output of the demonstration on the terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bulkdeploy.cli.deployments.spread import ClusterSpread, by_pod
from bulkdeploy.manage.demo import bulk_call


class DemoView:
    """The output of the demonstration on standard output. If this is not a terminal, plain lines are written."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def working(self, what: str) -> AbstractContextManager[object]:
        """Return a context manager that shows a text with a spinner while a slow step runs."""
        if not self._console.is_terminal:
            self._console.print(f"{what} ...")
        return self._console.status(what)

    def started(self, url: str, seconds: float) -> None:
        """Print that the service is ready, with its URL."""
        self._console.print(f"[green]ready[/] after {seconds:.1f} s: {url}/client/api")

    def answered(self, count: int, seconds: float) -> None:
        """Print the number of jobs that the bulk call created, and the duration of the call."""
        self._console.print(
            f"bulkDeployVirtualMachine virtualmachinecount={count}: {count} jobs in {seconds:.2f} s"
        )

    @contextmanager
    def progress(self, count: int) -> Iterator[Callable[[bulk_call.Progress], bool]]:
        """Show a progress bar, and yield the function that updates it.

        The function takes the present job counts and returns whether all jobs have ended.
        """
        columns = (
            TextColumn("deploying"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[states]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task("", total=count, states="")

            def show(now: bulk_call.Progress) -> bool:
                states = f"{now.queued} queued, {now.running} running, {now.failed} failed"
                bar.update(task, completed=now.succeeded + now.failed, states=states)
                return now.done

            yield show

    def spread(self, spread: Sequence[ClusterSpread]) -> None:
        """Print a table with the VMs per pod and cluster."""
        table = Table(title="The owner's VMs", title_justify="left")
        table.add_column("pod")
        table.add_column("cluster")
        for title in ("before", "added", "after", "room left"):
            table.add_column(title, justify="right")
        for pod in by_pod(spread):
            for one in pod.clusters:
                table.add_row("", one.name, *map(str, (one.before, one.added, one.after, one.left)))
            sums = (pod.before, pod.added, pod.after)
            table.add_row(pod.name, "", *map(str, sums), "", style="bold", end_section=True)
        self._console.print(table)

    def summary(self, jobs: bulk_call.Progress, seconds: float, problems: Sequence[str]) -> None:
        """Print the result of the demonstration."""
        self._console.print(f"{jobs.succeeded} jobs succeeded, {jobs.failed} failed, in {seconds:.1f} s.")
        if not problems:
            self._console.print(
                "[green]As promised:[/] no cluster that received a VM is more than one above an eligible cluster "
                "that had room, and the audit reports no discrepancy."
            )
