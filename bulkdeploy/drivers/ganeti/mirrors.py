"""The choice of secondary nodes for DRBD instances, by the planner of Ganeti's allocator requests (ADR 61).

Only one caller at a time chooses nodes. It holds a lock of the cluster until Ganeti has received the job that
follows from the choice. The next caller then finds this job in Ganeti's queue and counts it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from bulkdeploy.drivers.errors import ANY_HOST, DriverError
from bulkdeploy.drivers.exchanges.cluster_http import NotAnswered
from bulkdeploy.drivers.exchanges.fenced_call import LEAST_S
from bulkdeploy.drivers.ganeti.cluster_state import DRBD, as_wanted, read_state
from bulkdeploy.drivers.ganeti.devices import node_of
from bulkdeploy.drivers.ganeti.options import GanetiOptions
from bulkdeploy.drivers.ganeti.rapi import JobFailed, Rapi, failure, path_of
from bulkdeploy.drivers.records import TURN_SECONDS, Records
from bulkdeploy.iallocator.document import MalformedDocument
from bulkdeploy.iallocator.mirroring import Mirroring
from bulkdeploy.iallocator.refusal import Refusal

LOOK_S = TURN_SECONDS / 4
"""The time limit of reading the cluster, and of the request after it, in seconds.

Both fit into the lock's time.
"""

Definition = Mapping[str, Any]


class Mirrors:
    """The choice of secondary nodes in one cluster. Threads may share the object."""

    def __init__(self, rapi: Rapi, options: GanetiOptions, records: Callable[[], Records]) -> None:
        self._rapi, self._options, self._records = rapi, options, records
        self._cluster: str | None = None
        self._here = Lock()
        """A lock on which the threads of this process wait, so that they need no database connection."""

    @contextmanager
    def placed(
        self, definitions: Sequence[Definition], *, timeout_s: float
    ) -> Iterator[Sequence[Definition | DriverError]]:
        """Yield each definition with a secondary node, or the error if no node is suitable.

        The caller submits its request to Ganeti within the context. If the disk template has no secondary, the
        definitions are yielded unchanged.

        Raises:
            DriverError: the state of the cluster cannot be read.
        """
        if self._options.disk_template != DRBD:
            yield definitions
            return
        with self.plan("volume", timeout_s=timeout_s) as plan:
            found = plan.mirror([(as_wanted(one), one["pnode"]) for one in definitions])
            yield [
                lacking("volume", one["pnode"], secondary)
                if isinstance(secondary, Refusal)
                else {**one, "snode": secondary}
                for one, secondary in zip(definitions, found, strict=True)
            ]

    @contextmanager
    def plan(self, step: str, *, timeout_s: float) -> Iterator[Mirroring]:
        """Yield a plan for the current cluster, including instances that unfinished jobs will create.

        Other callers cannot choose nodes within the context. ``step`` is the step that errors name.

        Raises:
            DriverError: the state of the cluster cannot be read, or other callers choose for too long.
        """
        end = time.monotonic() + timeout_s
        closed = [node_of(host) for host in self._records().directory.closed_hosts()]
        try:
            with self._alone(end), self._records().clusters.turn(self._name(end), timeout_s=_left(end)):
                state = read_state(
                    self._rapi,
                    reserved_mib=self._options.reserved_memory_mib,
                    timeout_s=min(_left(end), LOOK_S),
                )
                plan = Mirroring(state.document, closed=closed)
                for wanted, nodes in state.beginning:
                    plan.take(wanted, nodes)
                yield plan
        except (NotAnswered, JobFailed) as error:
            raise failure(step, ANY_HOST, error) from error
        except TimeoutError as error:
            raise DriverError(step, ANY_HOST, str(error), transient=True) from error
        except MalformedDocument as error:
            raise DriverError(
                "volume", ANY_HOST, f"the state of the Ganeti cluster is invalid: {error}", transient=False
            ) from error

    @contextmanager
    def _alone(self, end: float) -> Iterator[None]:
        if not self._here.acquire(timeout=_left(end)):
            raise TimeoutError("other calls of this process were choosing nodes until the time ran out")
        try:
            yield
        finally:
            self._here.release()

    def _name(self, end: float) -> str:
        """Return the uuid of the cluster, which is read once."""
        if self._cluster is None:
            self._cluster = str(self._rapi.send("GET", path_of("info"), timeout_s=_left(end))["uuid"])
        return self._cluster


def _left(end: float) -> float:
    return max(end - time.monotonic(), LEAST_S)


def lacking(step: str, host: str, refusal: Refusal) -> DriverError:
    """Return a planner's rejection as a transient driver error.

    A retry may succeed later, or with another primary node.
    """
    return DriverError(step, host, refusal.reason, transient=True)
