"""Secondary nodes of DRBD instances, chosen by the planner that answers Ganeti's allocator requests (ADR 61).

Who chooses has a turn, in which nobody else does, until Ganeti has the job that follows from it: the next one sees
that job in Ganeti's queue, and counts it.
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
"""How long each look at the cluster, and the request after it, may take: all of them within a turn."""

Definition = Mapping[str, Any]


class Mirrors:
    """The choice of secondary nodes in a cluster; safe to share between threads."""

    def __init__(self, rapi: Rapi, options: GanetiOptions, records: Callable[[], Records]) -> None:
        self._rapi, self._options, self._records = rapi, options, records
        self._cluster: str | None = None
        self._here = Lock()
        """Threads of one process wait here, without a connection to the database each."""

    @contextmanager
    def placed(
        self, definitions: Sequence[Definition], *, timeout_s: float
    ) -> Iterator[Sequence[Definition | DriverError]]:
        """Yield these instances with a secondary node each, or the error if there is none.

        The caller submits its request to Ganeti within the context. If the disk template has no secondary, the
        instances are yielded unchanged.

        Raises:
            DriverError: the cluster cannot be looked at.
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

        ``step`` is the step that errors name.

        Raises:
            DriverError: the cluster cannot be looked at, or others choose for too long.
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
                "volume", ANY_HOST, f"Ganeti's state is not read: {error}", transient=False
            ) from error

    @contextmanager
    def _alone(self, end: float) -> Iterator[None]:
        if not self._here.acquire(timeout=_left(end)):
            raise TimeoutError("other calls of this process choose nodes")
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
