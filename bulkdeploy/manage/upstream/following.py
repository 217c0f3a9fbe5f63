"""Following a CloudStack: changes are imported within seconds, at a limited cost for both sides.

A round reads the CloudStack's events since the last round, and then the objects that the events name. Some changes
have no event (hosts that stop responding, capacities): their lists are read at intervals. Everything is read again
at a longer interval, or after too many events. Only one of several processes follows. If it ends, another process
repeats its unfinished work.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection

from bulkdeploy.cloudstack.client import CallRefused, Client, NotAnswered
from bulkdeploy.domain.errors import BulkDeployError
from bulkdeploy.manage.upstream.events import OVERLAP, newest_event, read_news
from bulkdeploy.manage.upstream.importing import ImportReport, Marks, read_upstream, write_reading
from bulkdeploy.manage.upstream.moved_vms import MovedVms
from bulkdeploy.manage.upstream.reading import Upstream, Wanted
from bulkdeploy.services.system import System
from bulkdeploy.services.virtual_machines.learnt_vms import ordered_there
from bulkdeploy.store.database.availability import is_unreachable
from bulkdeploy.store.database.engine import read_only, run_transaction
from bulkdeploy.store.followed_clouds import note_progress, take_lead, yield_lead
from bulkdeploy.store.virtual_machines.learnt_vms import volumes_of

log = structlog.get_logger(__name__)

LEASE_S = 30.0
"""After so long without a word a process that follows counts as dead."""

PLACES = frozenset({"listClusters", "listHosts", "listStoragePools"})
"""Lists of which CloudStack tells no events, or not all."""

SHARE_OF_EVENTS, SHARE_OF_PLACES, SHARE_OF_MOVES, SHARE_OF_EVERYTHING = 0.004, 0.003, 0.001, 0.002
"""The largest shares of one core over a long time, together one hundredth: a reading that used a second of CPU is
repeated after 250, 333, 1,000 or 500 s at the earliest. Each kind of reading has a share of its own, so that the
reading of everything, which uses most, delays nothing else."""

LONGEST_PAUSE_S = 60.0
"""Between two looks for events, whatever a look takes."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """The intervals in seconds at which a CloudStack is read.

    They grow if reads use more than their share of a CPU core.

    Attributes:
        events: interval of reading events, and the objects that they name.
        places: interval of reading all clusters, hosts and storage pools.
        moves: interval of comparing up to 5,000 VMs with the database, to find VMs whose state or host changed
            without an event.
        everything: interval of reading everything.
    """

    events: float = 5.0
    places: float = 60.0
    moves: float = 60.0
    everything: float = 3600.0


class Overtaken(Exception):
    """Raised when another process has begun to follow the cloud, so that this process must not write."""


class Follower:
    """A process that follows the changes of a CloudStack. Only one process follows; the others wait."""

    def __init__(self, system: System, client: Client, zones: tuple[str, ...] = (), cadence: Cadence | None = None):
        self._system, self._client, self._zones = system, client, zones
        self._cadence = cadence or Cadence()
        self._me = uuid4()
        self._handled: dict[str, datetime] = {}
        self._written: Marks = {}
        self._moved = MovedVms(client)
        self._places_due = 0.0
        self._moves_due = 0.0
        self._all_due: float | None = None
        self._pause_s = 0.0

    def run(self, ended: threading.Event) -> None:
        """Follow the changes, round after round, until ``ended`` is set.

        If the CloudStack or the database does not respond or returns an error, the error is logged and the round is
        retried.
        """
        try:
            while not ended.is_set():
                try:
                    self.round()
                except (CallRefused, NotAnswered) as error:
                    log.warning("upstream_away", why=str(error))
                except Overtaken:
                    log.warning("upstream_followed_by_another", why="this process was silent for too long")
                except Exception as error:
                    if is_unreachable(error):
                        log.warning("database_away", why=str(error).splitlines()[0])
                    elif isinstance(error, BulkDeployError):
                        log.warning("upstream_not_written", why=str(error))
                    else:
                        raise
                ended.wait(max(self._pause_s, self._cadence.events))
        finally:
            self._yield()

    def round(self) -> ImportReport | None:
        """Read the changes once, and return the report of the written changes, or None if another process follows.

        Raises:
            CallRefused: the CloudStack rejected a call.
            NotAnswered: the CloudStack did not respond.
            Overtaken: another process began to follow the cloud meanwhile. Nothing was written.
        """
        self._pause_s = 0.0
        with self._system.engine.begin() as connection:
            state = take_lead(connection, self._client.access.url, self._me, LEASE_S)
        if state is None:
            self._written = {}  # another process may have written other values since
            return None
        with self._leading():
            if self._all_due is None and state.imported is not None:
                age_s = (state.now - state.imported).total_seconds()
                self._all_due = time.monotonic() + self._cadence.everything - age_s
            if self._all_due is None or time.monotonic() >= self._all_due:
                return self._read_all(state.now)
            return self._read_news(state.newest_event, state.now)

    def _read_all(self, now: datetime) -> ImportReport:
        """Read the whole CloudStack, write it, and return the report.

        Changes during the read are read again with the next events.
        """
        began, cpu = time.monotonic(), time.thread_time()
        newest = newest_event(self._client)
        report = self._take_over(None, newest, now, now)
        self._handled = {}
        cost_s = time.thread_time() - cpu
        self._all_due = began + max(self._cadence.everything, cost_s / SHARE_OF_EVERYTHING)
        self._places_due = began + self._cadence.places
        return report

    def _read_news(self, since: datetime, now: datetime) -> ImportReport:
        began, cpu = time.monotonic(), time.thread_time()
        news = read_news(self._client, since, self._handled)
        if news.wanted is None:
            log.warning("upstream_ran_ahead", why="too much happened there: everything is read anew")
            return self._read_all(now)
        with_places = began >= self._places_due
        wanted = replace(
            news.wanted,
            commands=news.wanted.commands | (PLACES if with_places else frozenset()),
            vms=news.wanted.vms | self._find_moved(),
        )
        report = self._take_over(wanted, news.newest, now if news.is_all else None, None)
        self._handled |= news.handled
        if news.newest is not None:
            self._handled = {one: when for one, when in self._handled.items() if when >= news.newest - OVERLAP}
        cost_s = time.thread_time() - cpu
        if with_places:
            self._places_due = began + max(self._cadence.places, cost_s / SHARE_OF_PLACES)
        else:
            self._pause_s = min(cost_s / SHARE_OF_EVENTS, LONGEST_PAUSE_S) if news.is_all else 0.0
        return report

    def _find_moved(self) -> frozenset[str]:
        """Return the ids of VMs that moved without an event. Returns an empty set if no comparison is due.

        Each call compares only some of all VMs.
        """
        began, cpu = time.monotonic(), time.thread_time()
        if began < self._moves_due:
            return frozenset()
        moved = self._moved.find_next(self._system.engine)
        self._moves_due = began + max(self._cadence.moves, (time.thread_time() - cpu) / SHARE_OF_MOVES)
        return moved

    def _take_over(
        self, wanted: Wanted | None, newest: datetime | None, seen: datetime | None, imported: datetime | None
    ) -> ImportReport:
        """Read the wanted objects (all if None), and write them together with the progress in one transaction.

        Raises:
            Overtaken: another process follows the cloud. Nothing was written.
        """
        reading = None
        if wanted is None or wanted.commands or wanted.vms or wanted.volumes:
            if wanted is not None and (wanted.vms or wanted.volumes):
                wanted = self._with_known(wanted)
            reading = read_upstream(self._system, Upstream(self._client, self._zones, wanted))

        def work(connection: Connection) -> ImportReport:
            url = self._client.access.url
            if not note_progress(connection, url, self._me, newest_event=newest, seen=seen, imported=imported):
                raise Overtaken
            return ImportReport() if reading is None else write_reading(connection, self._system, reading, known)

        known = {} if wanted is None else self._written
        report = run_transaction(self._system.engine, work)
        if reading is not None:
            self._written = report.marks
        counts = {name: sum(getattr(report, name).values()) for name in ("created", "changed", "removed")}
        if any(counts.values()):
            log.info("upstream_followed", **counts)
        if report.left_out and wanted is None:
            log.info("upstream_left_out", count=len(report.left_out), first=report.left_out[0])
        return report

    def _with_known(self, wanted: Wanted) -> Wanted:
        """Return the wanted objects, completed with data from the database.

        These are the VMs that this service created in the CloudStack, and the known volumes of all other VMs.
        """
        named = {UUID(one) for one in wanted.vms | wanted.volumes}
        with read_only(self._system.engine) as connection:
            ours = ordered_there(connection, named)
            ordered = frozenset(str(uuid) for uuid, vm in ours.items() if vm is not None)
            had = volumes_of(connection, named)
        return replace(wanted, ordered=ordered, had={vm: ids for vm, ids in had.items() if vm not in ordered})

    @contextmanager
    def _leading(self) -> Iterator[None]:
        """Renew the lease of the following process in a thread while a long read runs."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(LEASE_S / 3):
                try:
                    with self._system.engine.begin() as connection:
                        take_lead(connection, self._client.access.url, self._me, LEASE_S)
                except Exception as error:
                    if not is_unreachable(error):
                        raise

        thread = threading.Thread(target=renew, name="renewal", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _yield(self) -> None:
        """Release the lease, so that another process can follow immediately."""
        try:
            with self._system.engine.begin() as connection:
                yield_lead(connection, self._client.access.url, self._me)
        except Exception as error:
            if not is_unreachable(error):
                raise
