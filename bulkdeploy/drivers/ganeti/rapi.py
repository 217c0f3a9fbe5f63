"""A client of Ganeti's remote API (RAPI, version 2), which sends requests to the current master and waits for jobs.

Source: Ganeti's doc/rapi.rst, version 3.0.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import requests

from bulkdeploy.drivers.errors import DriverError
from bulkdeploy.drivers.exchanges.cluster_http import ClusterHttp, NobodyServes, NotAnswered, shown

POLL_SECONDS = 0.5
"""The pause before a request is repeated that found no master or no ended job, in seconds."""

MASTER_AWAY_S = 60.0
"""The longest time that a call waits for a master that serves RAPI, in seconds."""

ENDED = ("success", "error", "canceled")
NOT_FOUND = 404


class JobFailed(Exception):
    """Raised if a job ended without success, or if Ganeti rejected a request.

    Attributes:
        code: Ganeti's code of the cause (``already_exists``, ``unknown_entity``, ...), or an empty text if there is
            none.
        text: Ganeti's error text.
    """

    def __init__(self, code: str, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Access:
    """The address and the credentials of a cluster.

    Attributes:
        urls: the RAPI urls of all nodes that may become the master.
        ca_file: certificates of the authorities that signed RAPI's. None: public authorities.
        fingerprint: the SHA-256 of RAPI's certificate, which then needs no authority.
    """

    urls: tuple[str, ...]
    username: str
    password: str
    ca_file: str | None = None
    fingerprint: str | None = None


class Rapi:
    """A client of the remote API of one cluster. Several threads may share it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.http = ClusterHttp(access.urls, fingerprint=access.fingerprint, ca_file=access.ca_file)
        self.http.session.auth = (access.username, access.password)
        self._watch = _JobWatch(self)

    def send(self, method: str, path: str, body: object = None, *, timeout_s: float, **query: str) -> Any:
        """Send one request to the master, and return the value of the response.

        Returns None if the resource does not exist. Every address is tried, beginning with the last master, because
        only the master serves RAPI. If no address serves RAPI, for example during a change of the master, the
        request waits at most MASTER_AWAY_S seconds.

        Raises:
            NotAnswered: no server answered in time.
            JobFailed: the request was rejected. The code is the HTTP status.
        """
        end = time.monotonic() + timeout_s
        patience = time.monotonic() + min(timeout_s, MASTER_AWAY_S)
        while True:
            left = max(end - time.monotonic(), 0.1)
            try:
                return _value(self.http.send(method, path, timeout_s=left, json=body, params=query))
            except NobodyServes:
                if time.monotonic() + POLL_SECONDS >= patience:
                    raise
                time.sleep(POLL_SECONDS)

    def run(self, method: str, path: str, body: object = None, *, timeout_s: float, **query: str) -> Any:
        """Submit a job, wait for its end, and return the result of its last opcode.

        Raises:
            NotAnswered: no server answered, or the job did not end in time and may continue.
            JobFailed: the job failed or was rejected, or the resource does not exist (``unknown_entity``).
        """
        end = time.monotonic() + timeout_s
        number = self.submit(method, path, body, timeout_s=timeout_s, **query)
        return self.wait(number, timeout_s=end - time.monotonic())

    def submit(self, method: str, path: str, body: object = None, *, timeout_s: float, **query: str) -> int:
        """Submit a job, and return its number.

        Raises:
            NotAnswered: no server answered in time.
            JobFailed: the job was rejected, or the resource does not exist (``unknown_entity``).
        """
        number = self.send(method, path, body, timeout_s=timeout_s, **query)
        if number is None:
            raise JobFailed("unknown_entity", f"{path} does not exist")
        return int(number)

    def wait(self, number: int, *, timeout_s: float) -> Any:
        """Wait for the end of a job, and return the result of its last opcode.

        Raises:
            NotAnswered: the job did not end in time and may continue.
            JobFailed: the job failed.
        """
        job = self._watch.ended(number, timeout_s)
        results = job["opresult"]
        if job["status"] == "success":
            return results[-1]
        for result in results:
            if isinstance(result, list) and len(result) == 2 and isinstance(result[1], list):
                text = str(result[1][0]) if result[1] else str(result[0])
                raise JobFailed(str(result[1][1]) if len(result[1]) > 1 else "", text)
        raise JobFailed(job["status"], f"job {number} ended with {job['status']}: {results}")

    def query(
        self, resource: str, fields: Sequence[str], where: Sequence[Any] | None = None, *, timeout_s: float
    ) -> list[list[Any]]:
        """Return the values of ``fields`` for the jobs, nodes or other resources that match a filter.

        ``where`` is a filter of Ganeti's query language. If it is None, all resources are returned.

        Raises:
            NotAnswered: no server answered in time.
            JobFailed: the query was rejected.
        """
        wanted = {"fields": list(fields), "qfilter": None if where is None else list(where)}
        found = self.send("PUT", path_of("query", resource), wanted, timeout_s=timeout_s)
        return [[value for _, value in row] for row in found["data"]]

    def close(self) -> None:
        """Close all connections."""
        self.http.close()


class _JobWatch:
    """A poller for the jobs of many threads with few requests, because RAPI forks a process for each request.

    At most LOOKING threads wait each for their own job in RAPI. A thread whose job ends queries all jobs for which
    threads wait.
    """

    def __init__(self, rapi: Rapi) -> None:
        self._rapi = rapi
        self._changed = threading.Condition()
        self._wanted: dict[int, int] = {}
        self._ended: dict[int, Mapping[str, Any]] = {}
        self._looking = 0

    def ended(self, number: int, timeout_s: float) -> Mapping[str, Any]:
        """Wait for the end of a job, and return its status and the results of its opcodes.

        Raises:
            NotAnswered: the job did not end in time.
        """
        end = time.monotonic() + timeout_s
        with self._changed:
            self._wanted[number] = self._wanted.get(number, 0) + 1
            try:
                while number not in self._ended:
                    left = end - time.monotonic()
                    if left <= 0:
                        raise NotAnswered(f"job {number} has not ended in {timeout_s:.0f} s")
                    if self._looking == LOOKING:
                        self._changed.wait(left)
                    else:
                        self._look(number, left)
                return self._ended[number]
            finally:
                self._wanted[number] -= 1
                if not self._wanted[number]:
                    del self._wanted[number]
                    self._ended.pop(number, None)

    def _look(self, number: int, left: float) -> None:
        """Wait for the end of this job, then query all jobs for which threads wait, without the lock.

        A failed query is ignored, and the threads continue to wait.
        """
        began = time.monotonic()
        self._looking += 1
        self._changed.release()
        found: list[list[Any]] = []
        try:
            self._wait_for_end(number, left)
            with self._changed:
                wanted = sorted(self._wanted.keys() - self._ended.keys())
            where = ["|", *(["=", "id", one] for one in wanted)]
            found = self._rapi.query("job", ("id", "status", "opresult"), where, timeout_s=min(left, 30.0))
        except (NotAnswered, JobFailed):
            pass
        finally:
            if not any(status in ENDED for _, status, _ in found):  # for example if RAPI does not wait
                time.sleep(max(min(began + POLL_SECONDS - time.monotonic(), left), 0))
            self._changed.acquire()
            self._looking -= 1
            for one, status, results in found:
                if status in ENDED and int(one) in self._wanted:
                    self._ended[int(one)] = {"status": status, "opresult": results}
            self._changed.notify_all()

    def _wait_for_end(self, number: int, left: float) -> None:
        """Wait until the job has ended, at most the ten seconds for which RAPI waits for a change."""
        body = {"fields": ["end_ts"], "previous_job_info": [None], "previous_log_serial": NO_LOG}
        path = path_of("jobs", str(number), "wait")
        self._rapi.send("GET", path, body, timeout_s=min(left, 30.0))


LOOKING = 4
"""The number of threads that wait in RAPI at a time. The other jobs are queried when one of these waits ends."""

NO_LOG = 1 << 30
"""A message number above all others, so that log messages of the job do not end the wait."""


def _value(answer: requests.Response) -> Any:
    if answer.status_code == NOT_FOUND:
        return None
    try:
        value = answer.json()
    except ValueError:
        value = answer.text
    if answer.ok:
        return value
    text = value.get("explain") or value.get("message") if isinstance(value, dict) else value
    raise JobFailed(str(answer.status_code), f"{answer.status_code}: {text}")


def path_of(*parts: str) -> str:
    """Return the RAPI path of a resource from its unquoted parts."""
    return "/2/" + "/".join(quote(part, safe="") for part in parts)


def failure(step: str, host: str, error: Exception) -> DriverError:
    """Convert an error of Ganeti to a DriverError."""
    if isinstance(error, JobFailed):
        return DriverError(step, host, shown(error.text), transient=error.code in TRANSIENT)
    return DriverError(step, host, str(error), transient=True, unanswered=True)


TRANSIENT = ("temp_insufficient_resources", "resource_not_unique", "canceled", "internal_error")
"""The codes of failures that may not occur later."""
