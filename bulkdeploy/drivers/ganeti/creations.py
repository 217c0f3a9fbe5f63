"""The creation of many instances on given nodes by one request (``instances-multi-alloc``).

Source: Ganeti's doc/rapi.rst. The request is a job, which submits a job for each instance, in their order.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from typing import Any

from bulkdeploy.drivers.ganeti.rapi import JobFailed, Rapi, path_of

ACTIVE = ("queued", "waiting", "canceling", "running")


class NotSubmitted(Exception):
    """Raised if Ganeti created no job for an instance, because the whole request or its entry was rejected."""


class Creations:
    """A submitted request to create several instances."""

    def __init__(
        self, rapi: Rapi, definitions: Sequence[Mapping[str, Any]], reason: str, *, timeout_s: float
    ) -> None:
        """Submit one request that creates all these instances.

        Raises:
            NotAnswered: Ganeti did not answer. It may execute the request nevertheless.
            JobFailed: Ganeti rejected the request.
        """
        instances = [{key: value for key, value in one.items() if key != "__version__"} for one in definitions]
        self._rapi, self._lock = rapi, Lock()
        self._jobs: Sequence[Any] | None = None
        body = {"instances": instances}
        number = rapi.send("POST", path_of("instances-multi-alloc"), body, timeout_s=timeout_s, reason=reason)
        if number is None:
            raise JobFailed("unknown_entity", "this Ganeti does not accept several instances in one request")
        self._number = int(number)

    def job_of(self, position: int, *, timeout_s: float) -> int:
        """Wait for the request, and return the number of the job that creates the instance at this position.

        Raises:
            NotAnswered: Ganeti did not answer in time.
            NotSubmitted: Ganeti created no such job and will not create it.
        """
        try:
            with self._lock:  # the first waiting thread reads the numbers for all
                if self._jobs is None:
                    self._jobs = self._rapi.wait(self._number, timeout_s=timeout_s)["jobs"]
        except JobFailed as error:
            raise NotSubmitted(str(error)) from error
        is_submitted, number = self._jobs[position]
        if not is_submitted:
            raise NotSubmitted(str(number))
        return int(number)


def names_there(rapi: Rapi, names: Collection[str], *, timeout_s: float) -> set[str]:
    """Return those of these names for which an instance, or an unfinished job that mentions it, exists.

    Raises:
        NotAnswered, JobFailed: a query failed.
    """
    under_way = [text for _, text in active_jobs(rapi, timeout_s=timeout_s)]
    # A filter of only names fails if one is unknown, so a condition that is always true is added.
    named = ["&", ["=~", "name", "."], ["|", *(["=", "name", name] for name in names)]]
    made = rapi.query("instance", ("name",), named, timeout_s=timeout_s)
    return {str(name) for (name,) in made} | {name for name in names if any(name in text for text in under_way)}


def active_jobs(rapi: Rapi, *, timeout_s: float) -> list[tuple[int, str]]:
    """Return the number of each unfinished job, and a text that contains the names of its instances.

    Raises:
        NotAnswered, JobFailed: the query failed.
    """
    return [(number, json.dumps(ops)) for number, ops in active_ops(rapi, timeout_s=timeout_s)]


def active_ops(rapi: Rapi, *, timeout_s: float) -> list[tuple[int, Sequence[Mapping[str, Any]]]]:
    """Return the number and the opcodes of each unfinished job.

    Raises:
        NotAnswered, JobFailed: the query failed.
    """
    where = ["|", *(["=", "status", status] for status in ACTIVE)]
    active = rapi.query("job", ("id", "ops"), where, timeout_s=timeout_s)
    return [(int(number), ops) for number, ops in active]
