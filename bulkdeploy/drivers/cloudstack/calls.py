"""API calls to an upstream CloudStack, polling of VMs, and waiting for jobs (one file: all waiting there).

A job is usually observed by the state of its VM. It is queried itself if the VM's state does not show how it ended.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from uuid import UUID, uuid5

from bulkdeploy.cloudstack.client import (
    INVALID,
    NO_RESULT,
    OF_ACCOUNTS,
    OF_PROJECTS,
    CallRefused,
    Client,
    NotAnswered,
    Row,
    is_not_there,
    rows_in,
)
from bulkdeploy.drivers.errors import DriverError

RATE_LIMITED, NO_CAPACITY, UNAVAILABLE = 429, 533, 534
OF_HOST = "hostid"
"""A part of CloudStack's error text if CloudStack rejects the host that a call names."""

SURPRISED = 530
TRANSIENT = frozenset({RATE_LIMITED, SURPRISED, NO_CAPACITY, UNAVAILABLE})
"""The error codes of rejections that may not occur later or on another host."""

TAKEN = "already exists so can't create/update with custom id"
CUT_OFF = "restart or shutdown"
"""A part of the error text of a job that ended because its management server restarted.

The effects of such a job remain.
"""

JOB_LOOKS = (10, 30)
"""The numbers of polls without a result after which the job itself is queried.

The job is queried again after each multiple of the last number.
"""

FIRST_WITH_PASSWORDS = (4, 19)
"""The first version of CloudStack whose calls can set a guest's password. Older versions ignore it silently."""

LONGEST_TEXT = 500
SEEN = ("min", "nics")
"""The parts of a VM that polls read: its state, and the addresses that CloudStack assigned."""

NOT_OF_A_HOST = frozenset({401, 431, 432, 531, 533, 535})
"""The codes of errors that CloudStack returns before a job starts, so that no host caused them."""
DEPLOY = "deploy"


class JobFailed(Exception):
    """Raised if a job ended without success, with CloudStack's ``errorcode`` and ``errortext``.

    Attributes:
        was_cut_off: True if the job's management server ended. Only the VM's state shows what the job did.
    """

    def __init__(self, command: str, code: int, text: str) -> None:
        self.command, self.code, self.text = command, code, text
        self.was_cut_off = CUT_OFF in text or text == NO_RESULT
        super().__init__(f"{command}: {code} {text}")


Problem = CallRefused | NotAnswered | JobFailed


def id_of(uuid: UUID, attempt: int) -> str:
    """Return the id of a VM or volume in the upstream CloudStack.

    The id of the first attempt is the service's own uuid. Each later attempt has another id.
    """
    return str(uuid if attempt == 1 else uuid5(uuid, str(attempt)))


def job_id_of(vm_id: str) -> str:
    """Return the id of the upstream job that deploys this VM."""
    return str(uuid5(UUID(vm_id), DEPLOY))


def failure(step: str, host: str, problem: Problem) -> DriverError:
    """Return a driver error for a problem, with CloudStack's error code and text unchanged."""
    text = str(problem)
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}..."
    if isinstance(problem, NotAnswered):
        return DriverError(step, host, text, transient=True, unanswered=True)
    on_any_host = isinstance(problem, CallRefused) and problem.code in NOT_OF_A_HOST and OF_HOST not in text
    return DriverError(step, host, text, transient=problem.code in TRANSIENT, on_any_host=on_any_host)


class Calls:
    """API calls to one upstream CloudStack.

    Threads may share the object.

    Args:
        client: the client that sends the calls.
        poll_s: the seconds between two polls. Each poll reads all VMs for which threads wait with one list call.
    """

    def __init__(self, client: Client, poll_s: float) -> None:
        self.client = client
        self._watch = _Watch(client, poll_s)
        self._version: str | None = None
        self.poll_s = poll_s

    def call(self, command: str, parameters: Mapping[str, str], *, timeout_s: float) -> Row:
        """Make one API call and return the response.

        Raises:
            CallRefused, NotAnswered: the call failed.
        """
        return self.client.call(command, parameters, timeout_s=timeout_s)

    def version_without_passwords(self, *, timeout_s: float) -> str | None:
        """Return CloudStack's version if that version cannot set requested guest passwords, else None.

        The version is read once.

        Raises:
            CallRefused, NotAnswered: the version cannot be read.
        """
        if self._version is None:
            capability = self.call("listCapabilities", {}, timeout_s=timeout_s).get("capability") or {}
            self._version = str(capability.get("cloudstackversion", ""))
        found = re.match(r"(\d+)\.(\d+)", self._version)
        is_old = found is not None and (int(found[1]), int(found[2])) < FIRST_WITH_PASSWORDS
        return self._version if is_old else None

    def look(self, vm_id: str, *details: str, timeout_s: float) -> Row | None:
        """Return the current state of a VM, or None if the VM does not exist.

        Raises:
            CallRefused, NotAnswered: the state cannot be read.
        """
        wanted = {"id": vm_id, "listall": "true", "details": ",".join(details or SEEN)}
        try:
            rows = rows_in(self.call("listVirtualMachines", wanted, timeout_s=timeout_s))
        except CallRefused as error:
            if error.code == INVALID and is_not_there(error.text):
                return None
            raise
        return next((row for row in rows if row["id"] == vm_id), None)

    def volumes(self, *, timeout_s: float, **restricted: str) -> list[Row]:
        """Return the volumes that match ``restricted``, or an empty list if CloudStack does not know the ids.

        Raises:
            CallRefused, NotAnswered: the volumes cannot be listed.
        """
        try:
            return rows_in(self.call("listVolumes", {"listall": "true", **restricted}, timeout_s=timeout_s))
        except CallRefused as error:
            if error.code == INVALID and is_not_there(error.text):
                return []
            raise

    def watch(self, vm_id: str, *, end: float, project: bool) -> Row | None:
        """Return a VM as the next shared poll lists it, or None if the list does not contain the VM.

        Raises:
            CallRefused, NotAnswered: the poll failed.
        """
        return self._watch.look(vm_id, project, end)

    def settle(
        self,
        command: str,
        vm_id: str,
        job_id: str,
        is_done: Callable[[Row | None], bool],
        *,
        end: float,
        project: bool,
    ) -> Row | None:
        """Wait until a VM has the state that a job aims at, or until the job ends.

        Return the VM.

        Args:
            command: the command of the job, for errors.
            vm_id: the id of the VM.
            job_id: the id of the job.
            is_done: returns True if the VM, or None for a missing VM, has the desired state.
            end: the deadline on the clock of ``time.monotonic``.
            project: whether the VM belongs to a project.

        Raises:
            JobFailed: the job failed.
            NotAnswered: the result was not known at the deadline.
            CallRefused: the VM cannot be read.
        """
        looks = 0
        while time.monotonic() < end:
            row = self._watch.look(vm_id, project, end)
            if is_done(row):
                return row
            looks += 1
            if (looks in JOB_LOOKS or looks % JOB_LOOKS[-1] == 0) and self._has_ended(command, job_id):
                return self.look(vm_id, timeout_s=max(end - time.monotonic(), 1.0))
        raise NotAnswered(command, f"job {job_id} has not ended in time", was_sent=True)

    def run(self, command: str, parameters: Mapping[str, str], *, end: float) -> Row:
        """Make a call that starts a job, wait for the end of the job, and return its result.

        Raises:
            CallRefused, NotAnswered: the call failed, or the job did not end before ``end``.
            JobFailed: the job failed.
        """
        ticket = self.call(command, parameters, timeout_s=max(end - time.monotonic(), 1.0))
        pause = self.poll_s / 4
        while time.monotonic() < end:
            time.sleep(pause)
            pause = min(pause * 1.5, 4 * self.poll_s)
            job = self.client.job(str(ticket["jobid"]))
            if job.is_over:
                if job.code:
                    raise JobFailed(command, job.code, job.text)
                return {**ticket, **job.result}
        raise NotAnswered(command, f"job {ticket['jobid']} has not ended in time", was_sent=True)

    def has_ended(self, command: str, job_id: str) -> bool | None:
        """Return whether a job has ended with success, or None if CloudStack no longer knows the job.

        Raises:
            JobFailed: the job failed.
            NotAnswered, CallRefused: the job cannot be queried.
        """
        try:
            return self._has_ended(command, job_id)
        except CallRefused as error:
            if error.code == INVALID:
                return None
            raise

    def _has_ended(self, command: str, job_id: str) -> bool:
        job = self.client.job(job_id)
        if job.is_over and job.code:
            raise JobFailed(command, job.code, job.text)
        return job.is_over


class _Watch:
    """A poller for all VMs for which threads wait. One of the waiting threads makes each list call."""

    def __init__(self, client: Client, poll_s: float) -> None:
        self._client, self._poll_s = client, poll_s
        self._changed = threading.Condition()
        self._wanted: Counter[tuple[bool, str]] = Counter()
        self._rows: dict[str, Row] = {}
        self._problem: Exception | None = None
        self._round = 0
        self._is_looking = False
        self._last = 0.0

    def look(self, vm_id: str, project: bool, end: float) -> Row | None:
        """Return the VM from a list call that begins after now, or None if the list does not contain the VM.

        Raises:
            CallRefused, NotAnswered: the list call failed.
        """
        key = (project, vm_id)
        with self._changed:
            self._wanted[key] += 1
            try:
                wanted = self._round + (2 if self._is_looking else 1)
                while self._round < wanted:
                    if time.monotonic() > end + self._poll_s:
                        raise NotAnswered("listVirtualMachines", "no answer in time", was_sent=True)
                    if self._is_looking:
                        self._changed.wait(max(end - time.monotonic(), self._poll_s))
                    else:
                        self._make_round()
                if self._problem is not None:
                    raise self._problem
                return self._rows.get(vm_id)
            finally:
                self._wanted[key] -= 1
                if not self._wanted[key]:
                    del self._wanted[key]

    def _make_round(self) -> None:
        """Read all VMs for which threads wait once, without the lock.

        An error is stored for all waiting threads.
        """
        self._is_looking = True
        pause = self._last + self._poll_s - time.monotonic()
        self._changed.release()
        rows: dict[str, Row] = {}
        problem: Exception | None = None
        try:
            if pause > 0:
                time.sleep(pause)
            with self._changed:
                keys = list(self._wanted)
            for project, owned in ((False, OF_ACCOUNTS), (True, OF_PROJECTS)):
                ids = [vm_id for of_project, vm_id in keys if of_project == project]
                wanted = {"details": ",".join(SEEN), **owned}
                rows |= {str(row["id"]): row for row in self._client.by_ids("listVirtualMachines", ids, wanted)}
        except (CallRefused, NotAnswered) as error:
            problem = error
        finally:
            self._changed.acquire()
            self._rows, self._problem, self._last = rows, problem, time.monotonic()
            self._round += 1
            self._is_looking = False
            self._changed.notify_all()
