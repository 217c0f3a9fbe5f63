"""Waiting for single jobs or batches, with a time limit. Ctrl-C stops the waiting, not the jobs."""

from typing import Any

from bulkdeploy.cli.connection.clock import Clock
from bulkdeploy.cli.connection.entities import Caller
from bulkdeploy.cli.deployments.jobs import Progress, has_succeeded, is_finished, result_of
from bulkdeploy.cli.deployments.live_view import BatchView, batch_view, waiting_for_job
from bulkdeploy.cli.deployments.remedies import remedy_of
from bulkdeploy.cli.deployments.watching import Watch
from bulkdeploy.cli.failures import ApiRefused, ConnectionFailed, Interrupted, JobFailed, TimedOut
from bulkdeploy.cli.output.formats import duration
from bulkdeploy.cli.output.screen import Screen

FIRST_LOOK, LONGEST_LOOK, GROWTH = 0.3, 3.0, 1.5  # seconds between two requests for one job
PATIENCE_WITH_SERVER = 300.0  # seconds without an answer
PAUSE_IN_TROUBLE = 5.0


class Follower:
    """A follower of jobs: it waits until jobs have ended and shows their progress."""

    def __init__(
        self,
        call: Caller,
        clock: Clock,
        screen: Screen,
        timeout: float | None,
        program: str = "bulkmonkey",
    ) -> None:
        """Create a follower. ``call`` must not retry requests itself, because the follower decides about retries.

        ``timeout`` is in seconds, or None for no limit. ``program`` is the command name in hints to the user.
        """
        self.call, self.clock, self.screen, self.timeout, self.program = call, clock, screen, timeout, program

    def job(self, job_id: str, label: str) -> dict[str, Any]:
        """Wait until a job has succeeded and return it.

        Raises:
            JobFailed: the job failed.
            TimedOut: the job has not ended after ``timeout`` seconds.
            Interrupted: the user pressed Ctrl-C.
        """
        try:
            with waiting_for_job(self.screen.err, label, quiet=self.screen.quiet):
                job = self._finished_job(job_id)
        except KeyboardInterrupt:
            raise Interrupted(f"The job continues. To see its result: {self.program} follow {job_id}") from None
        if has_succeeded(job):
            return job
        result = result_of(job)
        raise JobFailed(job_id, result, hint=remedy_of(result))

    def batch(self, watch: Watch) -> Progress:
        """Follow a batch until all its jobs have ended, and return its progress. ``watch`` reads the jobs.

        Raises:
            TimedOut: some jobs have not ended after ``timeout`` seconds.
            Interrupted: the user pressed Ctrl-C before all jobs had ended.
        """
        try:
            with batch_view(self.screen.err, self.clock, quiet=self.screen.quiet) as view:
                return self._watched(watch, view)
        except KeyboardInterrupt:
            raise Interrupted(f"Detached: the jobs continue. {self._again(watch)}") from None

    def _watched(self, watch: Watch, view: BatchView) -> Progress:
        started = last_answer = self.clock.now()
        while True:
            try:
                progress = watch.step()
                last_answer = self.clock.now()
                view.show(progress)
                view.failures(watch.new_failures())
                if progress.finished:
                    self._read_rest(watch, view)
                    return progress
            except (ConnectionFailed, ApiRefused) as error:
                if not error.passing or self.clock.now() - last_answer > PATIENCE_WITH_SERVER:
                    raise
                view.trouble(f"no answer for {duration(self.clock.now() - last_answer)}, still trying")
                self.clock.sleep(PAUSE_IN_TROUBLE)
            if self.timeout is not None and self.clock.now() - started >= self.timeout:
                raise TimedOut(
                    f"not finished after {duration(self.timeout)}; the jobs continue", hint=self._again(watch)
                )

    def _read_rest(self, watch: Watch, view: BatchView) -> None:
        """Read the details of finished jobs. Ctrl-C skips the remaining details."""
        try:
            for position in watch.read_rest():
                view.reading(f"reading results, {position}")
            view.failures(watch.new_failures())
        except KeyboardInterrupt:
            self.screen.warn("not all results were read")

    def _finished_job(self, job_id: str) -> dict[str, Any]:
        started = last_answer = self.clock.now()
        pause = FIRST_LOOK
        while True:
            left = None if self.timeout is None else started + self.timeout - self.clock.now()
            if left is not None and left <= 0:
                hint = f"See how it ends: {self.program} follow {job_id}"
                raise TimedOut(f"job {job_id} is not finished after {duration(self.timeout or 0)}", hint=hint)
            self.clock.sleep(pause if left is None else min(pause, left))
            pause = min(pause * GROWTH, LONGEST_LOOK)
            try:
                job = self.call("queryAsyncJobResult", {"jobid": job_id})
                last_answer = self.clock.now()
                if is_finished(job):
                    return {"jobid": job_id, **job}
            except (ConnectionFailed, ApiRefused) as error:
                if not error.passing or self.clock.now() - last_answer > PATIENCE_WITH_SERVER:
                    raise

    def _again(self, watch: Watch) -> str:
        return f"Follow them again: {self.program} follow {watch.name}"
